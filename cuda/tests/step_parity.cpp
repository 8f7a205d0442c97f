// Parity at the sizes of a written token: products of one row, neighbours that one kernel computes, the gated
// delta rule for one token. Neighbours are compared with their references run one after another.
#include "cuda/tests/parity.h"
#include "ops/gdn/gdn_cases.h"
#include "ops/matmul/matmul_cases.h"
#include "ops/moe_combine/moe_combine.h"
#include "ops/qsa_select/qsa_select.h"
#include "ops/swiglu/swiglu.h"

namespace argon::testing {
namespace {

using ops::MatmulArgs;
using ops::MatmulGroupedArgs;

size_t n(int64_t v) { return static_cast<size_t>(v); }

template <class Args>
void run_reference(const Args& a) {
  const auto& routes = ops::routes_of(&a);
  routes[std::size(routes) - 1].run(a, 0, units(a));
}

// `all` is trivially copyable; `place` lays its weights out anew, or is null.
template <class All>
void check(const std::string& name, All (*make)(TestArena&, int64_t), int64_t size,
           void (*reference)(const All&), void (*place)(All&, CudaBackend&),
           void (*device)(const All&, CudaBackend&)) {
  CudaBackend* backend = cuda_backend();
  if (backend == nullptr) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  const auto seed = static_cast<uint64_t>(size) + 11;
  TestArena wanted(seed, 0x7fc0dead);
  reference(make(wanted, size));
  for (const bool placed : {false, true}) {
    if (placed && place == nullptr) continue;
    TestArena arena(seed, 0x7fc0beef);
    All all = make(arena, size);
    if (placed) place(all, *backend);
    Mirror mirror(arena, *backend);
    device(mirror.translate(all), *backend);
    mirror.copy_back();
    const Status s = backend->finish();
    ASSERT_TRUE(s.ok()) << s.message() << ", " << name;
    ASSERT_EQ(arena.difference(wanted), "") << name << " " << size << (placed ? ", placed" : "");
    ASSERT_TRUE(arena.flip_a_bit(seed * 7919));
    ASSERT_NE(arena.difference(wanted), "") << "the harness missed a flipped bit";
  }
}

TEST(CudaStepParity, Products) {
  ParityCases<MatmulArgs> cases;
  struct Size {
    int64_t M, K;
  };
  for (WeightType type : {WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kIQ4_NL, WeightType::kQ4_K,
                          WeightType::kF32, WeightType::kF16}) {
    for (const Size& s :
         {Size{37, 10240}, {700, 256}, {321, 320}, {130, 2560}, {71, 6144}, {67, 640}, {5, 25600}}) {
      if (s.K % weight_type_info(type).block_length != 0) continue;
      cases.push_back(
          {std::string(weight_type_name(type)) + ", M " + std::to_string(s.M) + ", K " + std::to_string(s.K),
           1, [=](TestArena& a) {
             MatmulArgs m{};
             m.w = ops::matmul_case_weights(a, type, s.M, s.K);
             m.x = ops::matmul_case_input(a, 1, s.K, &m.q);
             m.ldy = s.M;
             m.T = 1;
             m.y = a.output<float>(n(s.M));
             return m;
           }});
    }
  }
  check_cuda_parity(cases);
}

struct Set {
  MatmulArgs a[5];
};
Set make_set(TestArena& arena, int64_t K) {
  ops::QuantizedRows q;
  const float* x = ops::matmul_case_input(arena, 1, K, &q);
  Set s{};
  const WeightType types[] = {WeightType::kQ8_0, WeightType::kF32, WeightType::kIQ4_NL, WeightType::kF32,
                              K % 256 == 0 ? WeightType::kQ4_K : WeightType::kQ8_0};
  const int64_t rows[] = {200, 48, 33, 1, 75};
  for (int i = 0; i < 5; ++i) {
    s.a[i] = {ops::matmul_case_weights(arena, types[i], rows[i], K), x, q, nullptr, 1, rows[i]};
    s.a[i].y = arena.output<float>(n(rows[i]));
  }
  return s;
}

TEST(CudaStepParity, ProductsOfOneInput) {
  for (int64_t K : {2560, 10240, 320}) {
    check<Set>(
        "set, K", make_set, K,
        [](const Set& s) {
          for (const MatmulArgs& a : s.a) run_reference(a);
        },
        [](Set& s, CudaBackend& b) {
          for (MatmulArgs& a : s.a) place_weights(a, b);
        },
        [](const Set& s, CudaBackend& b) { b.run_products(s.a); });
  }
}

// A layer's experts. The arrays between them need not be written, so they are not compared: they lie in one
// more array each, whose contents the test makes equal again.
struct Experts {
  ops::ExpertBlock e;
  float* between;
  int64_t floats;
  int8_t* codes;
  int64_t bytes;
};
Experts make_experts(TestArena& a, int64_t T, int64_t F, int64_t H) {
  const int64_t E = 24, K = 10, S = T * K;
  Experts x{};
  ops::ExpertBlock& e = x.e;
  const auto matrix = [&](WeightType type, int64_t M, int64_t cols) {
    ops::ExpertMatrix w;
    w.first = ops::matmul_case_weights(a, type, E * M, cols);
    w.first.rows = M;
    w.experts = E;
    w.expert_bytes = n(M) * w.first.row_bytes;
    return w;
  };
  ops::QuantizedRows q;
  const float* h = ops::matmul_case_input(a, T, H, &q);
  x.floats = 2 * (S + T) * F;
  x.between = a.output<float>(n(x.floats));
  x.bytes = (S + T) * F * 2;
  x.codes = a.output<int8_t>(n(x.bytes));
  float *g = x.between, *u = g + S * F, *sg = u + S * F, *su = sg + T * F;
  const auto quantized = [&](int8_t* at, int64_t values) {
    ops::QuantizedRows r;
    r.codes = at;
    r.d = reinterpret_cast<float*>(at + values);
    r.sums = reinterpret_cast<int16_t*>(at + values + values / 8);
    return r;
  };
  const ops::QuantizedRows gq = quantized(x.codes, S * F), sq = quantized(x.codes + 2 * S * F, T * F);
  float* logits = a.output<float>(n(T * E));
  float* shared = a.output<float>(n(T));
  auto* ids = a.output<int32_t>(n(S));
  auto* begin = a.output<int32_t>(n(E + 1));
  auto* slot_row = a.output<int32_t>(n(S));
  e.router = {ops::matmul_case_weights(a, WeightType::kF32, E, H), h, q, logits, T, E};
  e.shared_router = {ops::matmul_case_weights(a, WeightType::kF32, 1, H), h, q, shared, T, 1};
  e.route = {logits, shared, ids, a.output<float>(n(S)), a.output<float>(n(T)), T, E, K};
  e.group = {ids, begin, slot_row, a.output<int32_t>(n(S)), T, E, K};
  e.gate = {matrix(WeightType::kQ4_K, F, H), h, q, begin, slot_row, g, S};
  e.up = {matrix(WeightType::kQ4_K, F, H), h, q, begin, slot_row, u, S};
  e.act = {g, u, g, S, F, gq};
  e.down = {matrix(WeightType::kIQ4_NL, H, F), g, gq, begin, nullptr, a.output<float>(n(S * H)), S};
  e.shared_gate = {ops::matmul_case_weights(a, WeightType::kQ8_0, F, H), h, q, sg, T, F};
  e.shared_up = {ops::matmul_case_weights(a, WeightType::kQ8_0, F, H), h, q, su, T, F};
  e.shared_act = {sg, su, sg, T, F, sq};
  e.shared_down = {
      ops::matmul_case_weights(a, WeightType::kQ8_0, H, F), sg, sq, a.output<float>(n(T * H)), T, H};
  return x;
}
Experts make_step_experts(TestArena& a, int64_t F) { return make_experts(a, 1, F, 512); }

// Sizes for the kernels of passes and for others: rows an expert from none to 70, runs of K and of F.
struct PassSize {
  int64_t T, F, H;
};
constexpr PassSize kPassSizes[] = {{2, 640, 1536},  {9, 640, 2560},  {40, 640, 512}, {75, 128, 1024},
                                   {130, 640, 512}, {20, 1280, 512}, {33, 96, 512},  {21, 640, 768}};
Experts make_pass_experts(TestArena& a, int64_t i) {
  const PassSize& s = kPassSizes[i];
  return make_experts(a, s.T, s.F, s.H);
}

void check_experts(Experts (*make)(TestArena&, int64_t), int64_t size) {
  check<Experts>(
      "experts", make, size,
      [](const Experts& x) {
        const ops::ExpertBlock& e = x.e;
        run_reference(e.router), run_reference(e.shared_router), run_reference(e.route),
            run_reference(e.group);
        run_reference(e.gate), run_reference(e.up), run_reference(e.act), run_reference(e.down);
        run_reference(e.shared_gate), run_reference(e.shared_up), run_reference(e.shared_act);
        run_reference(e.shared_down);
        std::memset(x.between, 0, n(x.floats) * sizeof(float));
        std::memset(x.codes, 0, n(x.bytes));
      },
      [](Experts& x, CudaBackend& b) {
        place_weights(x.e.router, b), place_weights(x.e.gate, b), place_weights(x.e.up, b);
        place_weights(x.e.down, b), place_weights(x.e.shared_gate, b), place_weights(x.e.shared_up, b);
        place_weights(x.e.shared_down, b);
      },
      [](const Experts& x, CudaBackend& b) {
        b.run_experts(x.e);
        b.zero(x.between, n(x.floats) * sizeof(float));
        b.zero(x.codes, n(x.bytes));
      });
}

TEST(CudaStepParity, Experts) {
  for (int64_t F : {32, 96, 640, 1280}) check_experts(make_step_experts, F);
}

TEST(CudaStepParity, ExpertsOfAPass) {
  for (size_t i = 0; i < std::size(kPassSizes); ++i)
    check_experts(make_pass_experts, static_cast<int64_t>(i));
}

struct Mixed {
  ops::GrGateArgs gate;
  MatmulArgs up;
  ops::GrMixArgs mix;
  float* between;
  int64_t floats;
  int8_t* codes;
};
Mixed make_mixed(TestArena& a, int64_t R) {
  const int64_t C = 4, H = R == 320 ? 2560 : 96;
  Mixed m{};
  m.floats = R + C * H;
  m.between = a.output<float>(n(m.floats));
  std::memcpy(m.between, a.floats(n(R), 9.0f), n(R) * sizeof(float));
  m.codes = a.output<int8_t>(n(2 * R));
  float *lo = m.between, *up = lo + R;
  const ops::QuantizedRows loq{m.codes, reinterpret_cast<float*>(m.codes + R),
                               reinterpret_cast<int16_t*>(m.codes + R + R / 8)};
  m.gate = {lo, R == 96 ? nullptr : a.floats(n(C), 3.0f), 1, C, R, loq};
  m.up = {ops::matmul_case_weights(a, WeightType::kQ8_0, C * H, R), lo, loq, up, 1, C * H};
  m.mix = {up, a.floats(n(C * H)), a.output<float>(n(H)), 1, C, H, ops::quantized_output(a, H)};
  return m;
}

TEST(CudaStepParity, Mixed) {
  for (int64_t R : {32, 96, 320, 512, 544}) {
    check<Mixed>(
        "mixed, R", make_mixed, R,
        [](const Mixed& m) {
          run_reference(m.gate), run_reference(m.up), run_reference(m.mix);
          std::memset(m.between, 0, n(m.floats) * sizeof(float));
          std::memset(m.codes, 0, n(2 * m.gate.R));
        },
        [](Mixed& m, CudaBackend& b) { place_weights(m.up, b); },
        [](const Mixed& m, CudaBackend& b) {
          b.run_mixed(m.gate, m.up, m.mix);
          b.zero(m.between, n(m.floats) * sizeof(float));
          b.zero(m.codes, n(2 * m.gate.R));
        });
  }
}

struct Delta {
  ops::GdnPreArgs pre;
  ops::GdnScanArgs scan;
  ops::GdnPostArgs post;
  float* between;
  int64_t floats;
};
Delta make_delta(TestArena& a, int64_t hk) {
  const ops::GdnShape s{1, hk, 3 * hk, 128};
  const int64_t ch = channels(s);
  Delta d{};
  d.floats = 2 * s.hk * s.D + 2 * s.hv * s.D + 2 * s.hv + s.hk;
  d.between = a.output<float>(n(d.floats));
  float *qn = d.between, *kn = qn + s.hk * s.D, *vc = kn + s.hk * s.D, *o = vc + s.hv * s.D,
        *gb = o + s.hv * s.D, *kq = gb + 2 * s.hv;
  d.pre = {s,
           a.floats(n(ch)),
           a.floats(n(s.hv), 3.0f),
           a.floats(n(s.hv), 3.0f),
           a.floats(n(ch * 4), 0.5f),
           a.uniform(n(s.hv), -4.0f, 0.0f),
           a.floats(n(s.hv)),
           a.floats(n(3 * ch)),
           qn,
           kn,
           vc,
           gb,
           kq,
           1e-6f};
  d.scan = {s, qn, kn, vc, gb, kq, a.floats(n(s.hv * s.D * s.D)), o};
  const float* z = a.floats(n(s.hv * s.D), 4.0f);
  d.post = {
      s, o, z, a.floats(n(s.D)), a.output<float>(n(s.hv * s.D)), 1e-6f, ops::quantized_output(a, s.hv * s.D)};
  return d;
}

TEST(CudaStepParity, Delta) {
  for (int64_t hk : {1, 2, 16}) {
    check<Delta>(
        "delta, hk", make_delta, hk,
        [](const Delta& d) {
          run_reference(d.pre), run_reference(d.scan), run_reference(d.post);
          std::memset(d.between, 0, n(d.floats) * sizeof(float));
        },
        nullptr,
        [](const Delta& d, CudaBackend& b) {
          b.run_delta(d.pre, d.scan, d.post);
          b.zero(d.between, n(d.floats) * sizeof(float));
        });
  }
}

struct Routing {
  ops::MoeRouteArgs route;
  ops::MoeGroupArgs group;
};
Routing make_routing(TestArena& a, int64_t E) {
  const int64_t K = std::min<int64_t>(E, 10);
  Routing r{};
  float* logits = a.floats(n(E));
  // Equal logits, zeros of both signs, a subnormal.
  for (int64_t i = 0; i < E; ++i) {
    if (i % 3 == 0) logits[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (i % 7 == 1) logits[i] = 2.5f;
    if (i % 31 == 3) logits[i] = 1e-40f;
  }
  auto* ids = a.output<int32_t>(n(K));
  float* w = a.output<float>(n(K));
  float* sg = a.output<float>(1);
  r.route = {logits, a.floats(1), ids, w, sg, 1, E, K};
  auto* begin = a.output<int32_t>(n(E + 1));
  auto* slot_row = a.output<int32_t>(n(K));
  r.group = {ids, begin, slot_row, a.output<int32_t>(n(K)), 1, E, K};
  return r;
}

TEST(CudaStepParity, Routing) {
  for (int64_t E : {5, 32, 100, 256, 511, 512, 600}) {
    check<Routing>(
        "routing, E", make_routing, E,
        [](const Routing& r) { run_reference(r.route), run_reference(r.group); }, nullptr,
        [](const Routing& r, CudaBackend& b) { b.run_routing(r.route, r.group); });
  }
}

struct Combined {
  ops::MoeCombineArgs combine;
  ops::GrNormArgs norm;
};
Combined make_combined(TestArena& a, int64_t T) {
  const int64_t K = 10, H = 2560, C = 4;
  Combined c{};
  std::vector<int32_t> slots(n(T * K));
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i] = i % 6 == 4 ? -1 : static_cast<int32_t>(slots.size() - 1 - i);
  const float* y = a.floats(n(T * K * H));
  const int32_t* slot = a.copy(slots);
  const float* w = a.uniform(n(T * K), 0.0f, 1.0f);
  const float* shared = a.floats(n(T * H));
  const float* sg = a.uniform(n(T), 0.0f, 1.0f);
  // Not compared: a backend need not write it.
  static std::vector<float> out(n(8 * H));
  c.combine = {y, slot, w, shared, sg, out.data(), T, K, H};
  float* x = a.floats(n(T * C * H));
  const float* norm_w = a.floats(n(C * H));
  const float* inj = a.floats(n(T * C), 3.0f);
  c.norm = {x, norm_w, out.data(), inj, a.output<float>(n(T * C * H)), T, C, H, 1e-6f};
  c.norm.out_q = ops::quantized_output(a, T * C * H);
  return c;
}

TEST(CudaStepParity, CombinedNorm) {
  for (int64_t T : {1, 3}) {
    check<Combined>(
        "combined norm, T", make_combined, T,
        [](const Combined& c) { run_reference(c.combine), run_reference(c.norm); }, nullptr,
        [](const Combined& c, CudaBackend& b) { b.run_combined_norm(c.combine, c.norm); });
  }
}

TEST(CudaStepParity, Select) {
  ParityCases<ops::QsaSelectArgs> cases;
  struct Size {
    int64_t position, budget;
    int kind;  // of the keys: 0 random, 1 all equal, 2 few values
  };
  for (const Size& s : {Size{4099, 512, 0},
                        {4099, 512, 1},
                        {4098, 512, 2},
                        {2063, 512, 0},
                        {33000, 512, 0},
                        {33000, 512, 2},
                        {20001, 100, 2},
                        {131071, 512, 0},
                        {131075, 512, 0},
                        {40, 1, 0}}) {
    cases.push_back(
        {"position " + std::to_string(s.position) + ", kind " + std::to_string(s.kind), 1, [=](TestArena& a) {
           const int64_t blocks = (s.position + 1) / 4, di = 128;
           const float* iq = a.floats(n(4 * di));
           float* keys = a.floats(n(blocks * di));
           for (int64_t b = 1; s.kind > 0 && b < blocks; ++b) {
             const int64_t from = s.kind == 1 ? 0 : b % 5;
             std::memcpy(keys + b * di, keys + from * di, n(di) * sizeof(float));
           }
           return ops::QsaSelectArgs{
               iq, keys,    a.output<int32_t>(n(s.budget)), a.output<int32_t>(1), 1, s.position, 4, di,
               4,  s.budget};
         }});
  }
  check_cuda_parity(cases);
}

}  // namespace
}  // namespace argon::testing
