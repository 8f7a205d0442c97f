// A model whose experts are divided between two backends gives the bits of the same model on one, whatever
// the budget, however prompts are cut, and while experts change places. The device is SeparateDevice, which
// turns any mix-up of memories or of before and after into a failure.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "model/memory.h"
#include "model/synth.h"
#include "tests/e2e/engine.h"
#include "tiers/tests/separate_device.h"
#include "tiers/tiered_backend.h"

namespace argon::testing {
namespace {

using tiers::TieredBackend;

constexpr int64_t kPass = 24, kContext = 256;
constexpr ops::KvType kKv = ops::KvType::kF16;
using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;

// A small model with what the fixtures lack: wide and narrow expert types, gate and up in one tensor.
std::string synthetic(const char* name, WeightType gate_up, WeightType down, bool fused) {
  const std::string path = ::testing::TempDir() + "argon-tiers-" + name + ".gguf";
  SynthOptions o;
  o.config = synth_real_sizes(4);
  ModelConfig& c = o.config;
  c.context_length = kContext;
  c.H = 256, c.R = 32, c.V = 300, c.E = 12, c.K = 3, c.F = 256, c.Fs = 64;
  c.hk = 2, c.hv = 4, c.D = 32, c.nq = 4, c.nkv = 2, c.dh = 64, c.rot = 32, c.rope_sections = {};
  c.ni = 2, c.di = 32, c.B = 32, c.W = 32, c.G = 2;
  o.head_rows = 500;
  o.gate_up = gate_up, o.down = down, o.fused_gate_up = fused;
  const Status s = write_synthetic(path, o);
  EXPECT_TRUE(s.ok()) << s.message();
  return path;
}

// What the model needs besides experts, and one expert of every layer.
struct Sizes {
  uint64_t fixed, one_each, experts, table;
};
Sizes sizes(const Model& m) {
  const auto needs =
      model_memory(m.config(), m.weights(), kPass, kContext, SequenceState::bytes(m.config(), kContext, kKv))
          .needs();
  uint64_t one = 0;
  for (const auto& l : needs.layers) one += l.bytes_each;
  return {needs.fixed(), one, needs.experts(), needs.table};
}

class Divided {
 public:
  Divided(const std::string& path, const tiers::Options& options) {
    auto device = std::make_unique<SeparateDevice>(1);
    device_ = device.get();
    backend_ = std::make_unique<TieredBackend>(std::move(device),
                                               std::make_unique<CpuBackend>(2, detect_isa()), options);
    model_ = must(Model::load(path, *backend_));
    forward_ = must(Forward::create(model_->config(), model_->weights(), *backend_, kPass, kContext,
                                    SequenceState::bytes(model_->config(), kContext, kKv)));
  }
  ~Divided() {
    forward_.reset();
    model_.reset();
  }
  std::unique_ptr<SequenceState> new_state() {
    return must(SequenceState::create(model_->config(), *backend_, kContext, kKv));
  }
  Logits read(SequenceState& state, std::span<const int32_t> ids) {
    Logits out(ids.size() * static_cast<size_t>(model_->config().V));
    ReadOptions r;
    r.logits = LogitsFor::kAll;
    r.out = out.data();
    const Status s = forward_->read(state, ids, r);
    EXPECT_TRUE(s.ok()) << s.message();
    return out;
  }
  TieredBackend& backend() { return *backend_; }
  SeparateDevice& device() { return *device_; }
  Forward& forward() { return *forward_; }
  const Model& model() const { return *model_; }

 private:
  SeparateDevice* device_;
  std::unique_ptr<TieredBackend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Forward> forward_;
};

struct Subject {
  const char* name;
  std::string (*path)();
};

class Tiers : public ::testing::TestWithParam<Subject> {
 protected:
  std::string path = GetParam().path();
  Engine whole{path, {.kv = kKv, .max_pass = kPass, .context = kContext}};
  Sizes size = sizes(whole.model());
  Ids ids = random_ids(60);

  Ids random_ids(size_t n) {
    std::mt19937 rng(5);
    Ids all(n);
    for (int32_t& id : all)
      id = static_cast<int32_t>(rng() % static_cast<uint32_t>(whole.model().config().V));
    return all;
  }
  static bool same(const Logits& a, const Logits& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  // Prompt whole, in two parts, and token by token.
  void expect_same(Divided& d, const std::string& what) {
    const Logits wanted = whole.logits(ids);
    EXPECT_TRUE(same(d.read(*d.new_state(), ids), wanted)) << what << ", whole";
    for (const size_t cut : {size_t{1}, size_t{25}, size_t{59}}) {
      auto s = d.new_state();
      Logits found = d.read(*s, std::span(ids).first(cut));
      const Logits rest = d.read(*s, std::span(ids).subspan(cut));
      found.insert(found.end(), rest.begin(), rest.end());
      EXPECT_TRUE(same(found, wanted)) << what << ", cut at " << cut;
    }
    auto s = d.new_state();
    Logits found;
    for (size_t i = 0; i < ids.size(); ++i) {
      const Logits one = d.read(*s, std::span(ids).subspan(i, 1));
      found.insert(found.end(), one.begin(), one.end());
    }
    EXPECT_TRUE(same(found, wanted)) << what << ", token by token";
  }
};

TEST_P(Tiers, AnyBudget) {
  for (const uint64_t experts :
       {uint64_t{0}, size.one_each / 4, size.one_each, size.experts / 2, size.experts - size.one_each / 4 - 1,
        size.experts, size.experts + size.table}) {
    Divided d(path, {.budget = size.fixed + experts});
    const bool all = experts >= size.experts;
    EXPECT_EQ(d.backend().plan()->table, size.table > 0 && experts == size.experts + size.table);
    EXPECT_EQ(d.backend().plan()->whole, all);
    expect_same(d, std::to_string(experts) + " bytes of experts");
    EXPECT_EQ(d.backend().rows().host > 0, !all);
    if (!all && experts >= size.one_each) {
      EXPECT_GT(d.backend().rows().device, 0);
    }
  }
}

// However few or many rows make the host's experts pass through the device.
TEST_P(Tiers, ExpertsPassThrough) {
  for (const int64_t rows : {0, 4, 1000000}) {
    tiers::Options o{.budget = size.fixed + size.experts / 2};
    o.upload_rows = rows;
    Divided d(path, o);
    EXPECT_EQ(d.backend().plan()->passing, 1);
    expect_same(d, "uploads from " + std::to_string(rows) + " rows on");
    EXPECT_EQ(d.backend().rows().uploaded > 0, rows < 1000000);
  }
}

TEST_P(Tiers, WhileExpertsChangePlaces) {
  tiers::Options o{.budget = size.fixed + size.experts / 3};
  o.swap_per_token = o.swap_most = size.experts;
  o.swap_least = 1;
  Divided d(path, o);
  expect_same(d, "with exchanges after every pass");
  // Another token again and again, so that other experts are the hot ones each time.
  for (const int32_t token : {3, 29, 53, 77}) {
    ids.assign(60, token);
    expect_same(d, "with exchanges, token " + std::to_string(token));
  }
  EXPECT_GT(d.backend().rows().swaps, 10);
}

TEST_P(Tiers, NoMoreMemoryThanPlanned) {
  for (const uint64_t experts : {uint64_t{0}, size.experts / 2, size.experts}) {
    Divided d(path, {.budget = size.fixed + experts});
    const auto state = d.new_state();
    EXPECT_LE(d.device().bytes(), d.backend().plan()->device_bytes);
    EXPECT_LE(d.backend().plan()->device_bytes, size.fixed + experts);
    EXPECT_GE(d.device().bytes() + size.one_each, size.fixed + experts);
    if (experts == 0) {
      EXPECT_EQ(d.device().bytes(), size.fixed);
    }
  }
}

TEST_P(Tiers, HotExpertsEndUpOnTheDevice) {
  tiers::Options o{.budget = size.fixed + size.experts / 2};
  o.swap_per_token = o.swap_most = size.experts;
  o.swap_least = 1;
  Divided d(path, o);
  // One token again and again takes the same experts.
  auto s = d.new_state();
  const Ids same_token(48, 3);
  d.read(*s, same_token);
  const auto before = d.backend().rows();
  d.read(*s, same_token);
  const auto after = d.backend().rows();
  EXPECT_GT(after.device - before.device, 4 * (after.host - before.host));
}

std::string name_of(const ::testing::TestParamInfo<Subject>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(
    , Tiers,
    ::testing::Values(
        Subject{"TinyRandomF32", [] { return fixture_path("tiny-random-F32.gguf"); }},
        Subject{"TinyRandomQ8", [] { return fixture_path("tiny-random-Q8_0.gguf"); }},
        Subject{"FusedQ4K", [] { return synthetic("fused", WeightType::kQ4_K, WeightType::kIQ4_NL, true); }},
        Subject{"Q8AndF16", [] { return synthetic("mixed", WeightType::kQ8_0, WeightType::kF16, false); }}),
    name_of);

TEST(TiersErrors, BudgetTooSmall) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf");
  TieredBackend backend(std::make_unique<SeparateDevice>(1), std::make_unique<CpuBackend>(1, detect_isa()),
                        {.budget = 1000});
  const auto model = must(Model::load(path, backend));
  const auto f = Forward::create(model->config(), model->weights(), backend, kPass, kContext);
  ASSERT_FALSE(f.ok());
  EXPECT_EQ(f.status().code(), Code::kResource);
  EXPECT_NE(f.status().message().find("needed at least"), std::string::npos) << f.status().message();
}

// Of the same shape or of another: a second model gets no share of a division that is the first one's.
TEST(TiersErrors, AnotherModelIsRefusedBesideADividedOne) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf");
  Engine whole(path, {.kv = kKv, .max_pass = kPass, .context = kContext});
  const Sizes s = sizes(whole.model());
  Divided d(path, {.budget = s.fixed + s.experts / 2});
  const Ids ids = {1, 2, 3, 4, 5};
  const Logits wanted = whole.logits(ids);
  const uint64_t before = d.device().bytes();
  for (const std::string& other : {path, synthetic("other", WeightType::kQ8_0, WeightType::kQ8_0, false)}) {
    const auto model = must(Model::load(other, d.backend()));
    const auto f = Forward::create(model->config(), model->weights(), d.backend(), kPass, kContext);
    ASSERT_FALSE(f.ok());
    EXPECT_EQ(f.status().code(), Code::kResource);
    EXPECT_NE(f.status().message().find("another model's"), std::string::npos) << f.status().message();
    EXPECT_EQ(d.device().bytes(), before);
    // The first goes on.
    const Logits found = d.read(*d.new_state(), ids);
    EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
  }
}

TEST(TiersErrors, AnotherModelIsServedFromWhatIsLeft) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf"),
                    other = synthetic("beside", WeightType::kQ8_0, WeightType::kQ8_0, false);
  Engine first(path, {.kv = kKv, .max_pass = kPass, .context = kContext});
  Engine second(other, {.kv = kKv, .max_pass = kPass, .context = kContext});
  const Sizes a = sizes(first.model()), b = sizes(second.model());
  const uint64_t budget = a.fixed + a.experts + a.table + b.fixed + b.experts;
  Divided d(path, {.budget = budget});
  const auto model = must(Model::load(other, d.backend()));
  const ModelConfig& c = model->config();
  const uint64_t state_bytes = SequenceState::bytes(c, kContext, kKv);
  const auto forward = must(Forward::create(c, model->weights(), d.backend(), kPass, kContext, state_bytes));
  const auto state = must(SequenceState::create(c, d.backend(), kContext, kKv));
  const Ids ids = {1, 2, 3, 4, 5};
  Logits found(ids.size() * static_cast<size_t>(c.V));
  ReadOptions r;
  r.logits = LogitsFor::kAll;
  r.out = found.data();
  const Status s = forward->read(*state, ids, r);
  EXPECT_TRUE(s.ok()) << s.message();
  const Logits wanted = second.logits(ids);
  EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
  EXPECT_LE(d.device().bytes(), budget);
  const Logits again = d.read(*d.new_state(), ids), of_the_first = first.logits(ids);
  EXPECT_EQ(std::memcmp(again.data(), of_the_first.data(), of_the_first.size() * sizeof(float)), 0);
}

// A second session of the same model shares its weights, divided or not.
TEST(TiersErrors, TheSameModelAgainIsServed) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf");
  Engine whole(path, {.kv = kKv, .max_pass = kPass, .context = kContext});
  const Sizes s = sizes(whole.model());
  Divided d(path, {.budget = s.fixed + s.experts / 2});
  const ModelConfig& c = d.model().config();
  const auto again = must(Forward::create(c, d.model().weights(), d.backend(), kPass, kContext));
  const Ids ids = {1, 2, 3, 4, 5};
  Logits found(ids.size() * static_cast<size_t>(c.V));
  ReadOptions r;
  r.logits = LogitsFor::kAll;
  r.out = found.data();
  const Status read = again->read(*d.new_state(), ids, r);
  EXPECT_TRUE(read.ok()) << read.message();
  const Logits wanted = whole.logits(ids);
  EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
}

// Whatever allocation fails, what was taken is given back (SeparateDevice looks at its end).
TEST(TiersErrors, AllocationFails) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf");
  for (int64_t n = 0; n < 60; ++n) {
    Engine whole(path, {.max_pass = kPass, .context = kContext});
    const Sizes s = sizes(whole.model());
    TieredBackend backend(std::make_unique<SeparateDevice>(1), std::make_unique<CpuBackend>(1, detect_isa()),
                          {.budget = s.fixed + s.experts / 2});
    static_cast<SeparateDevice&>(backend.device()).fail_after(n);
    const ModelConfig& c = whole.model().config();
    const auto f = Forward::create(c, whole.model().weights(), backend, kPass, kContext,
                                   SequenceState::bytes(c, kContext, kKv));
    if (f.ok()) {
      EXPECT_GT(n, 6);  // slabs among them
      return;
    }
    EXPECT_EQ(f.status().code(), Code::kResource);
  }
  FAIL() << "no number of allocations was enough";
}

// A fault of the device ends the read that meets it and nothing else.
TEST(TiersErrors, FaultEndsTheRequest) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf");
  Engine whole(path, {.kv = kKv, .max_pass = kPass, .context = kContext});
  const Sizes s = sizes(whole.model());
  Divided d(path, {.budget = s.fixed + s.experts / 2});
  const Ids ids = {1, 2, 3, 4, 5};
  Logits out(static_cast<size_t>(whole.model().config().V));
  ReadOptions r;
  r.out = out.data();
  auto state = d.new_state();
  d.device().set_fault(internal_error("the device is lost, as the test wants it"));
  const Status failed = d.forward().read(*state, ids, r);
  EXPECT_EQ(failed.code(), Code::kInternal);
  EXPECT_EQ(state->position(), 0);
  const Logits found = d.read(*state, ids), wanted = whole.logits(ids);
  EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
}

// The pass itself goes well; what is lost is the exchange of experts after it.
TEST(TiersErrors, FaultInAnExchange) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf");
  Engine whole(path, {.kv = kKv, .max_pass = kPass, .context = kContext});
  const Sizes s = sizes(whole.model());
  tiers::Options o{.budget = s.fixed + s.experts / 3};
  o.swap_per_token = o.swap_most = s.experts;
  o.swap_least = 1;
  Divided d(path, o);
  Logits out(static_cast<size_t>(whole.model().config().V));
  ReadOptions r;
  r.out = out.data();
  const Ids ids(5, 29);
  auto state = d.new_state();
  d.device().set_fault(internal_error("the device is lost, as the test wants it"), 1);
  EXPECT_EQ(d.forward().read(*state, ids, r).code(), Code::kInternal);
  EXPECT_GT(d.backend().rows().swaps, 0);
  const Logits found = d.read(*state, ids), wanted = whole.logits(ids);
  EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace argon::testing
