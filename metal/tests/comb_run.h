// The gated residual and MoE combine kernels for the parity program: random inputs, what the scalar
// references make of them done apart (combine, apply, norm), and the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "metal/device.h"
#include "metal/tests/parity.h"

namespace argon::metal {

struct CombSize {
  uint32_t T, C, n, topk;
};

// Where the absent slots lie.
enum class Absent { kRandom, kNone, kAll, kFirst, kLast, kAlternating };
const char* name_of(Absent a);

struct CombInputs {
  std::vector<float> x, w_norm, b, inj, ye, w, shared, sg;
  std::vector<int32_t> slot;
};
struct CombOutputs {
  std::vector<float> combined;      // the MoE output
  std::vector<float> x_b, n_b;      // after apply with b, and its norm
  std::vector<float> x_moe, n_moe;  // the same with the combined rows
  std::vector<float> n_only;        // norm without apply
};

CombInputs comb_inputs(const CombSize& s, Absent absent, uint64_t seed);
CombOutputs comb_reference(const CombSize& s, const CombInputs& in, ThreadPool& pool);

// A kernel with its constants fixed, by file ("kernels/prompt" or "lab/prompt_lab"), entry and form.
struct Form {
  bool apply = true, half = false;
};
Result<Pipeline> comb_pipeline(Device& device, const std::string& entry, const Form& form);

class CombPass {
 public:
  CombPass(Device& device, const CombSize& s, const CombInputs& in);

  Status moe_comb(const Pipeline& p);
  Status norm(const Pipeline& p, const Form& form);       // gr_norm_h4 and its baseline
  Status norm_moec(const Pipeline& p, const Form& form);  // gr_norm_h_moec, its baseline and variants
  Status apply_moec(const Pipeline& p);
  Status norm_stream_out(const Pipeline& p, const Form& form, uint32_t stream);
  void reset();  // x as given, outputs poisoned

  Buffer<float> x, w_norm, b, inj, ye, w, shared, sg, n, combined, stream;
  Buffer<uint16_t> nh;
  Buffer<int32_t> slot;

 private:
  Status dispatch(const Pipeline& p, std::vector<Argument> arguments, uint32_t stream_index = 0);
  Argument half_out(const Form& f) const { return f.half ? nh.argument() : Argument::none(); }
  Argument float_out(const Form& f) const { return f.half ? Argument::none() : n.argument(); }

  Device& device_;
  const CombSize s_;
  std::vector<float> x_before_;
};

}  // namespace argon::metal
