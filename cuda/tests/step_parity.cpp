// Parity at the sizes of a written token: products of one row, neighbours that one kernel computes, the gated
// delta rule for one token. Neighbours are compared with their references run one after another.
#include "cuda/tests/parity.h"
#include "ops/matmul/matmul_cases.h"
#include "ops/gdn/gdn_cases.h"
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
void check(const std::string& name, All (*make)(TestArena&, int64_t), int64_t size, void (*reference)(const All&),
           void (*place)(All&, CudaBackend&), void (*device)(const All&, CudaBackend&)) {
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
    for (const Size& s : {Size{37, 10240}, {700, 256}, {321, 320}, {130, 2560}, {71, 6144}, {67, 640}, {5, 25600}}) {
      if (s.K % weight_type_info(type).block_length != 0) continue;
      cases.push_back({std::string(weight_type_name(type)) + ", M " + std::to_string(s.M) + ", K " +
                           std::to_string(s.K),
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

struct Experts {
  MatmulGroupedArgs gate, up;
  ops::SwigluArgs act;
  MatmulGroupedArgs down;
};
Experts make_experts(TestArena& a, int64_t F) {
  const int64_t E = 24, S = 10, H = 512;
  Experts e{};
  const auto matrix = [&](WeightType type, int64_t M, int64_t K) {
    ops::ExpertMatrix w;
    w.first = ops::matmul_case_weights(a, type, E * M, K);
    w.first.rows = M;
    w.experts = E;
    w.expert_bytes = n(M) * w.first.row_bytes;
    return w;
  };
  std::vector<int32_t> begin(n(E + 1));
  for (int64_t i = 0; i <= E; ++i) begin[n(i)] = static_cast<int32_t>(std::min<int64_t>((i + 1) / 2, S));
  const int32_t* expert_begin = a.copy(begin);
  const int32_t* slot_row = a.copy(std::vector<int32_t>(n(S), 0));
  ops::QuantizedRows q;
  const float* x = ops::matmul_case_input(a, 1, H, &q);
  float* g = a.output<float>(n(S * F));
  float* u = a.output<float>(n(S * F));
  const ops::QuantizedRows hq = ops::quantized_output(a, S * F);
  e.gate = {matrix(WeightType::kQ4_K, F, H), x, q, expert_begin, slot_row, g, S};
  e.up = {matrix(WeightType::kQ4_K, F, H), x, q, expert_begin, slot_row, u, S};
  e.act = {g, u, g, S, F};
  e.act.out_q = hq;
  e.down = {matrix(WeightType::kIQ4_NL, H, F), g, hq, expert_begin, nullptr, a.output<float>(n(S * H)), S};
  return e;
}

TEST(CudaStepParity, Experts) {
  for (int64_t F : {32, 96, 640}) {
    check<Experts>(
        "experts, F", make_experts, F,
        [](const Experts& e) { run_reference(e.gate), run_reference(e.up), run_reference(e.act), run_reference(e.down); },
        [](Experts& e, CudaBackend& b) { place_weights(e.gate, b), place_weights(e.up, b), place_weights(e.down, b); },
        [](const Experts& e, CudaBackend& b) { b.run_gated(e.gate, e.up, e.act), b.run(e.down); });
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
        "routing, E", make_routing, E, [](const Routing& r) { run_reference(r.route), run_reference(r.group); },
        nullptr, [](const Routing& r, CudaBackend& b) { b.run_routing(r.route, r.group); });
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
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = i % 6 == 4 ? -1 : static_cast<int32_t>(slots.size() - 1 - i);
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
  for (const Size& s : {Size{4099, 512, 0}, {4099, 512, 1}, {4098, 512, 2}, {2063, 512, 0}, {33000, 512, 0},
                        {33000, 512, 2}, {20001, 100, 2}, {131071, 512, 0}, {131075, 512, 0}, {40, 1, 0}}) {
    cases.push_back({"position " + std::to_string(s.position) + ", kind " + std::to_string(s.kind), 1,
                     [=](TestArena& a) {
                       const int64_t blocks = (s.position + 1) / 4, di = 128;
                       const float* iq = a.floats(n(4 * di));
                       float* keys = a.floats(n(blocks * di));
                       for (int64_t b = 1; s.kind > 0 && b < blocks; ++b) {
                         const int64_t from = s.kind == 1 ? 0 : b % 5;
                         std::memcpy(keys + b * di, keys + from * di, n(di) * sizeof(float));
                       }
                       return ops::QsaSelectArgs{iq,         keys, a.output<int32_t>(n(s.budget)), a.output<int32_t>(1),
                                                 1,          s.position, 4, di, 4, s.budget};
                     }});
  }
  check_cuda_parity(cases);
}

}  // namespace
}  // namespace argon::testing
