#include "metal/tests/comb_run.h"

#include "metal/kernels/prompt_args.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/moe_combine/moe_combine.h"

namespace argon::metal {
namespace {

constexpr float kEps = 1e-6f;

template <class Args>
void run_units(ThreadPool& pool, const Args& args, void (*ref)(const Args&, int64_t, int64_t)) {
  pool.run(units(args), 1, [&](int64_t begin, int64_t end) { ref(args, begin, end); });
}

bool is_absent(Absent a, uint64_t r, uint32_t k, uint32_t topk) {
  switch (a) {
    case Absent::kNone:
      return false;
    case Absent::kAll:
      return true;
    case Absent::kFirst:
      return k == 0;
    case Absent::kLast:
      return k + 1 == topk;
    case Absent::kAlternating:
      return k % 2 == 0;
    default:
      return r % 4 == 0;
  }
}

}  // namespace

const char* name_of(Absent a) {
  switch (a) {
    case Absent::kNone:
      return "none absent";
    case Absent::kAll:
      return "all absent";
    case Absent::kFirst:
      return "first absent";
    case Absent::kLast:
      return "last absent";
    case Absent::kAlternating:
      return "every other absent";
    default:
      return "some absent";
  }
}

CombInputs comb_inputs(const CombSize& s, Absent absent, uint64_t seed) {
  CombInputs in;
  const size_t tokens = s.T, rows = tokens * s.topk;
  in.x = random_floats(seed, tokens * s.C * s.n, -2.0f, 2.0f);
  in.w_norm = random_floats(seed + 1, size_t{s.C} * s.n, 0.5f, 1.5f);
  in.b = random_floats(seed + 2, tokens * s.n, -1.0f, 1.0f);
  in.inj = random_floats(seed + 3, tokens * s.C, -3.0f, 3.0f);
  in.ye = random_floats(seed + 4, rows * s.n, -1.0f, 1.0f);
  in.w = random_floats(seed + 5, rows, 0.0f, 0.4f);
  in.shared = random_floats(seed + 6, tokens * s.n, -1.0f, 1.0f);
  in.sg = random_floats(seed + 7, tokens, 0.0f, 1.0f);
  in.slot.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    const uint64_t r = mix(seed * 31 + i);
    in.slot[i] = is_absent(absent, r, static_cast<uint32_t>(i % s.topk), s.topk)
                     ? -1
                     : static_cast<int32_t>((r >> 8) % rows);
  }
  return in;
}

CombOutputs comb_reference(const CombSize& s, const CombInputs& in, ThreadPool& pool) {
  CombOutputs out;
  const size_t wide = size_t{s.T} * s.C * s.n;
  out.combined.resize(size_t{s.T} * s.n);
  run_units(pool,
            ops::MoeCombineArgs{in.ye.data(), in.slot.data(), in.w.data(), in.shared.data(), in.sg.data(),
                                out.combined.data(), s.T, s.topk, s.n},
            ops::moe_combine_ref);
  auto apply_norm = [&](const std::vector<float>& b, std::vector<float>& x, std::vector<float>& n) {
    x = in.x;
    n.resize(wide);
    run_units(pool, ops::GrApplyArgs{x.data(), b.data(), in.inj.data(), s.T, s.C, s.n}, ops::gr_apply_ref);
    run_units(pool,
              ops::GrNormArgs{x.data(), in.w_norm.data(), nullptr, nullptr, n.data(), s.T, s.C, s.n, kEps},
              ops::gr_norm_ref);
  };
  apply_norm(in.b, out.x_b, out.n_b);
  apply_norm(out.combined, out.x_moe, out.n_moe);
  out.n_only.resize(wide);
  std::vector<float> x = in.x;
  run_units(
      pool,
      ops::GrNormArgs{x.data(), in.w_norm.data(), nullptr, nullptr, out.n_only.data(), s.T, s.C, s.n, kEps},
      ops::gr_norm_ref);
  return out;
}

Result<Pipeline> comb_pipeline(Device& device, const std::string& entry, const Form& f) {
  const bool lab = entry.ends_with("_base") || entry.ends_with("_swapped") || entry.ends_with("_unrolled");
  const Constant constants[] = {Constant::of(0, f.apply), Constant::of(1, f.half), Constant::of(2, !f.half)};
  return device.pipeline(lab ? "metal/lab/prompt_lab.metal" : "metal/kernels/prompt.metal", entry, constants);
}

CombPass::CombPass(Device& d, const CombSize& s, const CombInputs& in)
    : x(d, in.x.size()),
      w_norm(d, in.w_norm.size()),
      b(d, in.b.size()),
      inj(d, in.inj.size()),
      ye(d, in.ye.size()),
      w(d, in.w.size()),
      shared(d, in.shared.size()),
      sg(d, in.sg.size()),
      n(d, in.x.size()),
      combined(d, in.b.size()),
      stream(d, in.b.size()),
      nh(d, in.x.size()),
      slot(d, in.slot.size()),
      device_(d),
      s_(s),
      x_before_(in.x) {
  w_norm.fill(in.w_norm), b.fill(in.b), inj.fill(in.inj), ye.fill(in.ye), w.fill(in.w);
  shared.fill(in.shared), sg.fill(in.sg), slot.fill(in.slot);
  reset();
}

void CombPass::reset() {
  x.fill(x_before_);
  n.poison(), nh.poison(), combined.poison(), stream.poison();
}

Status CombPass::dispatch(const Pipeline& p, std::vector<Argument> arguments, uint32_t stream_index) {
  arguments.push_back(Argument::value(PromptMetalArgs{s_.C, s_.n, s_.topk, stream_index, kEps}));
  return device_.dispatch(p, arguments, {{s_.T, 1, 1}, {256, 1, 1}, {}});
}

Status CombPass::moe_comb(const Pipeline& p) {
  return dispatch(p, {ye.argument(), slot.argument(), w.argument(), shared.argument(), sg.argument(),
                      combined.argument()});
}
Status CombPass::norm(const Pipeline& p, const Form& f) {
  return dispatch(p, {x.argument(), w_norm.argument(), f.apply ? b.argument() : Argument::none(),
                      f.apply ? inj.argument() : Argument::none(), half_out(f), float_out(f)});
}
Status CombPass::norm_moec(const Pipeline& p, const Form& f) {
  return dispatch(p, {x.argument(), w_norm.argument(), inj.argument(), ye.argument(), slot.argument(),
                      w.argument(), shared.argument(), sg.argument(), half_out(f), float_out(f)});
}
Status CombPass::apply_moec(const Pipeline& p) {
  return dispatch(p, {x.argument(), inj.argument(), ye.argument(), slot.argument(), w.argument(),
                      shared.argument(), sg.argument()});
}
Status CombPass::norm_stream_out(const Pipeline& p, const Form& f, uint32_t which) {
  return dispatch(p,
                  {x.argument(), w_norm.argument(), f.apply ? b.argument() : Argument::none(),
                   f.apply ? inj.argument() : Argument::none(), half_out(f), float_out(f), stream.argument()},
                  which);
}

}  // namespace argon::metal
