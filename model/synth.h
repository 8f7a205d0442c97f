// Synthetic qwen4exp models: the real architecture at given sizes with random weights, for speed
// measurements, memory tests and fuzz seeds. Answers are nonsense, but logits are finite: weights have a
// standard deviation of 1/sqrt(columns), norms are 1.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "formats/weight_type.h"
#include "gguf/writer.h"
#include "model/config.h"

namespace argon {

struct SynthOptions {
  // Sizes; start from synth_real_sizes(). The n-gram heads' offsets, sizes and multipliers are filled in by
  // the writer from head_rows when they are empty; ple_layer -1 leaves the module out. draft_blocks and
  // rope_sections may be set.
  ModelConfig config;
  int64_t head_rows = 40000;  // rows of the first n-gram head; the others take the next primes
  WeightType gate_up = WeightType::kQ4_K;
  WeightType down = WeightType::kQ4_0;
  // Everything else that is a matrix, where its rows are whole blocks (otherwise, and for the stream mixers
  // below 8 bits: Q8_0, else F32). Inject, router, alpha and beta are F32 as in published files.
  WeightType dense = WeightType::kQ8_0;
  WeightType table = WeightType::kQ8_0;
  bool tied_output = false;
  bool fused_gate_up = false;
  uint64_t seed = 1;
  // Byte-level BPE of exactly V entries: 256 bytes, merges that build all prefixes of letter strings, five
  // special tokens at the end. Otherwise placeholders <t0>, <t1>, ...: a smaller file that no text can be
  // read with.
  bool tokenizer = false;
};

// The published model's sizes (MODEL.md) with `layers` layers.
ModelConfig synth_real_sizes(int64_t layers = 48);

// Bytes of data written and in all.
using SynthProgress = std::function<void(uint64_t done, uint64_t total)>;

// Writes the model to `path` (over an existing file only when complete). The same options give the same
// bytes. kBadInput: sizes that ModelConfig::read would refuse or rows that are not whole blocks of their
// type. kUnsupported: a type that holds no weights (I8 ... F64). kResource: disk full.
Status write_synthetic(const std::string& path, const SynthOptions& options,
                       const SynthProgress& progress = nullptr);

// The same file in memory, for small sizes.
Result<std::string> synthetic_bytes(const SynthOptions& options);

// Fills `bytes` (whole blocks) with random weights of the given standard deviation. The type must hold
// weights.
void fill_random(WeightType type, double deviation, uint64_t seed, std::span<std::byte> bytes);
bool can_fill(WeightType type);

// The tokenizer's part of the metadata (SynthOptions::tokenizer). kBadInput when V < 261.
Status add_synthetic_tokenizer(int64_t V, GgufHeader* header);

}  // namespace argon
