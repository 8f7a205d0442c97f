// Everything one sequence owns (MODEL.md "Sequence state, complete"): attention keys and values, the
// indexer's raw keys (and, derived from them, its block keys), GDN states and convolution windows, the n-gram
// module's token history and convolution window, the position. It can be saved, restored, copied and rewound;
// whichever way a state came to stand at a position after the same tokens, its bits are the same.
//
// Attention caches hold a row per token, so going back is forgetting rows. The recurrent part (GDN and n-gram
// windows) cannot go back: rewind() restores the last checkpoint at or before the wanted position, and the
// tokens from there on must be read again, which by the numeric contract gives the same bits. The zero state
// of position 0 is always there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "ops/backend.h"
#include "ops/buffer.h"

namespace argon {

class SequenceState {
 public:
  struct AttentionLayer {
    ops::Buffer k, v;        // [capacity][nkv][dh] of kv_type
    ops::Buffer raw_keys;    // [capacity][di] of kv_type
    ops::Buffer block_keys;  // [capacity/r][di] float32
  };
  struct GdnLayer {
    ops::Buffer S;        // [hv][D key][D value]
    ops::Buffer history;  // [3][channels]
  };

  // A sequence of no tokens with room for `capacity` (1 or more). Memory is taken as it is used.
  static Result<std::unique_ptr<SequenceState>> create(const ModelConfig& config, ops::Backend& backend,
                                                       int64_t capacity, ops::KvType kv_type);

  // What create() asks of the backend's memory.
  static uint64_t bytes(const ModelConfig& config, int64_t capacity, ops::KvType kv_type);

  int64_t position() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t capacity() const { return capacity_; }
  ops::KvType kv_type() const { return kv_type_; }
  // All tokens read so far; position() of them.
  std::span<const int32_t> tokens() const { return tokens_; }

  // An independent sequence with the same bits, checkpoints included.
  Result<std::unique_ptr<SequenceState>> copy() const;

  // Forgets everything; the checkpoints too.
  void reset();

  // Remembers the recurrent part at the present position. Keeps at most kCheckpoints, dropping the second
  // oldest of them first, so that an early prefix and the latest turns stay within reach.
  void checkpoint();

  // Goes back to the last checkpoint at or before `position` (0 <= position <= position()) and returns the
  // position it stands at; the caller reads tokens [returned, position) again (Model does: model/forward.h).
  int64_t rewind(int64_t position);

  // The state as bytes, to be written to a file: self-describing, with `fingerprint` naming the model.
  // Checkpoints are not saved.
  std::vector<uint8_t> save(uint64_t fingerprint) const;
  // Replaces this state by a saved one. kBadInput when the bytes are damaged, of another model, cache type or
  // version, or longer than the capacity; the state is then unchanged.
  Status restore(std::span<const uint8_t> bytes, uint64_t fingerprint);

  // For the forward pass only: the buffers, and the step forward once all layers have read `tokens`.
  std::vector<AttentionLayer>& attention() { return attention_; }
  std::vector<GdnLayer>& gdn() { return gdn_; }
  float* ngram_window() { return ngram_window_.as<float>(); }
  void advance(std::span<const int32_t> tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  static constexpr size_t kCheckpoints = 4;

 private:
  struct Checkpoint {
    int64_t position;
    std::vector<uint8_t> recurrent;
  };
  struct Piece {
    void* data;
    size_t bytes;
  };
  SequenceState() = default;
  std::vector<Piece> recurrent_pieces() const;  // whole buffers
  void restore();
  std::vector<Piece> cache_pieces(int64_t position) const;  // the rows of `position` tokens
  std::vector<uint8_t> gather(const std::vector<Piece>& pieces) const;

  ModelConfig config_;
  ops::Backend* backend_ = nullptr;
  int64_t capacity_ = 0;
  ops::KvType kv_type_ = ops::KvType::kF16;
  std::vector<int32_t> tokens_;
  std::vector<AttentionLayer> attention_;
  std::vector<GdnLayer> gdn_;
  ops::Buffer ngram_window_;
  std::vector<Checkpoint> checkpoints_;
};

}  // namespace argon
