// One GDN layer's pass for the parity program: random inputs, what the scalar reference makes of them, and
// the kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "metal/device.h"
#include "metal/tests/parity.h"

namespace argon::metal {

struct GdnSize {
  uint32_t T, hk, hv;
  static constexpr uint32_t D = 128;
  size_t channels() const { return size_t{2 * hk + hv} * D; }
};

struct GdnInputs {
  std::vector<float> qkv, alpha, beta, conv_w, a, dt, history, state, z, norm_w;
};
struct GdnOutputs {
  std::vector<float> qn, kn, vc, gb, kq, history, o, state, y;
  std::vector<uint16_t> yh;
};

// Inputs as a sequence in progress has them: history and state are not zero.
GdnInputs gdn_inputs(const GdnSize& s, uint64_t seed);
// ops/gdn's scalar reference, its units spread over the pool.
GdnOutputs gdn_reference(const GdnSize& s, const GdnInputs& in, ThreadPool& pool);

enum class Schedule { kPlain, kGrouped };

// The kernels with their function constants fixed.
struct GdnPipelines {
  Pipeline pre, scan[2], scan_sg0[2], post_half, post_float;  // scans by Schedule
  static Result<GdnPipelines> create(Device& device);
};

// Device memory of a layer, and its dispatches.
class GdnLayer {
 public:
  GdnLayer(Device& device, const GdnPipelines& p, const GdnSize& s, const GdnInputs& in);

  Status pre();
  Status scan(const Pipeline& p);
  Status post(bool half);
  // The state as it was before the pass.
  void restore_state();
  // Tokens first..first+T-1 of a longer pass's inputs.
  void load_tokens(const GdnInputs& all, size_t first);

  Buffer<float> qkv, alpha, beta, conv_w, a, dt, history, qn, kn, vc, gb, kq, history_out, state, o, z,
      norm_w, y;
  Buffer<uint16_t> yh;

 private:
  Device& device_;
  const GdnPipelines& p_;
  const GdnSize s_;
  std::vector<float> state_before_;
};

}  // namespace argon::metal
