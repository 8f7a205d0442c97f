// The sizes of a qwen4exp model, read from its metadata and checked once, so that nothing after this need
// doubt them: every product below that the engine forms (matrix sizes, state sizes) fits int64 with room to
// spare. Sources: MODEL.md (letters), GGUF.md (keys).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "ops/kv_store/kv_store.h"

namespace argon {

// The letters are MODEL.md's. In brackets the largest value that is accepted.
struct ModelConfig {
  std::string name;            // general.name, may be empty
  int64_t context_length = 0;  // tokens the model was made for                         [2^24]
  int64_t H = 0;               // hidden size                                           [2^16]
  int64_t L = 0;               // layers of the main model, draft blocks not counted    [1024]
  int64_t C = 0;               // residual streams                                      [16]
  int64_t R = 0;               // low rank of the stream mixer                          [2^16]
  int64_t V = 0;               // vocabulary = rows of token_embd                       [2^24]
  int64_t E = 0, K = 0;        // experts, experts per token; K <= E                    [4096, 256]
  int64_t F = 0, Fs = 0;       // width of a routed expert, of the shared expert        [2^16]
  int64_t hk = 0, hv = 0;      // GDN key heads, value heads; hv is a multiple of hk    [1024]
  int64_t D = 0;               // GDN head size, a multiple of 8                        [1024]
  int64_t conv_taps = 0;       // GDN convolution: 4
  int64_t nq = 0, nkv = 0;     // attention heads; nq is a multiple of nkv              [1024]
  int64_t dh = 0;              // attention head size                                   [1024]
  int64_t rot = 0;             // rotary dims, even, <= dh and <= di
  int64_t ni = 0, di = 0;      // indexer heads and head size                           [256, 1024]
  int64_t B = 0, r = 0;        // attention budget in tokens, block size; B is a multiple of r  [2^20, 1024]
  int64_t interval = 0;        // layer l is attention when (l+1) % interval == 0       [1024]
  float eps = 0;               // of every norm; 0 < eps <= 0.01
  float rope_base = 0;         // >= 1
  std::vector<int64_t>
      rope_sections;  // multimodal rotary sections, for images only; empty or summing to rot/2

  // PLE, the hashed n-gram embeddings; ple_layer is -1 and the rest empty when the model has none.
  int64_t ple_layer = -1;
  int64_t ngram = 0;                   // n: the longest n-gram, 2 or more                      [8]
  int64_t G = 0;                       // table heads per n-gram order                          [64]
  int64_t W = 0;                       // values of a table row                                 [2^16]
  int64_t ple_taps = 0;                // taps of its convolution, dilation n                   [16]
  int64_t table_rows = 0;              // rows that the heads can reach: max(offset + size)     [2^31 - 1]
  int32_t ple_eos = 0;                 // cuts the window, fills it before the start
  int32_t ple_image = -1;              // stands for image positions; -1 when the file names none
  std::vector<uint64_t> multipliers;   // [n]
  std::vector<uint64_t> head_offsets;  // [(n-1)*G] first row of each head
  std::vector<uint64_t> head_sizes;    // [(n-1)*G] rows of each head

  int64_t draft_blocks = 0;  // nextn_predict_layers: blocks L .. L+draft_blocks-1    [8]

  std::vector<std::string> other_keys;  // qwen4exp.* keys that no rule reads, for reports

  bool is_attention(int64_t l) const { return (l + 1) % interval == 0; }
  bool has_ple() const { return ple_layer >= 0; }
  int64_t attention_layers() const { return L / interval; }
  int64_t gdn_layers() const { return L - attention_layers(); }
  int64_t CH() const { return C * H; }                    // the wide residual           [2^20]
  int64_t channels() const { return (2 * hk + hv) * D; }  // of the GDN convolution      [2^20]
  int64_t ple_heads() const { return (ngram - 1) * G; }
  int64_t ple_width() const { return ple_heads() * W; }  // looked-up rows side by side [2^20]

  // kBadInput: a key is missing, of a wrong type, out of range or contradicts another. kUnsupported: another
  // architecture, or a valid file that needs what this engine lacks (rotary scaling, several PLE layers).
  static Result<ModelConfig> read(const GgufFile& file);
};

// What ModelConfig::read takes for a size that a file or a user may set (rules between sizes come on top).
struct SizeRange {
  int64_t least, most;
};
SizeRange size_range(int64_t ModelConfig::*size);

// What one sequence of `tokens` tokens keeps (MODEL.md "Sequence state, complete"), in bytes.
struct StateBytes {
  uint64_t kv = 0;            // attention keys and values, grows with tokens
  uint64_t indexer_keys = 0;  // raw indexer keys, grows with tokens
  uint64_t gdn_state = 0;     // S
  uint64_t gdn_conv = 0;      // convolution windows
  uint64_t ple = 0;           // token history and convolution window
  uint64_t total() const { return kv + indexer_keys + gdn_state + gdn_conv + ple; }
};

// tokens <= 2^32. K, V and the indexer's keys are stored as `type`, everything else as f32 (NUMERICS.md).
StateBytes state_bytes(const ModelConfig& config, uint64_t tokens, ops::KvType type);

}  // namespace argon
