// The whole model on the device against the CPU in one process: all logits by memcmp, prompts cut at several
// places, a state carried on token by token.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "cuda/cuda_backend.h"
#include "model/memory.h"
#include "model/synth.h"
#include "tests/e2e/engine.h"
#include "tiers/tiered_backend.h"

namespace argon::testing {
namespace {

class OnDevice {
 public:
  // `share` of the experts on the device, the rest on the CPU.
  OnDevice(const std::string& path, ops::KvType kv, int64_t max_pass, double share = 1) : kv_(kv) {
    auto cuda = must(CudaBackend::create(0));
    model_ = must(Model::load(path, *cuda));
    const ModelConfig& c = model_->config();
    const uint64_t state = SequenceState::bytes(c, 1024, kv);
    const ops::MemoryNeeds needs = model_memory(c, model_->weights(), max_pass, 1024, state).needs();
    tiers::Options o;
    o.budget = needs.fixed() + static_cast<uint64_t>(share * static_cast<double>(needs.experts()));
    // Experts change places after every pass.
    o.swap_per_token = o.swap_most = needs.experts();
    o.swap_least = 1;
    backend_ = std::make_unique<tiers::TieredBackend>(std::move(cuda),
                                                      std::make_unique<CpuBackend>(4, detect_isa()), o);
    forward_ = must(Forward::create(c, model_->weights(), *backend_, max_pass, 1024, state));
  }
  const tiers::TieredBackend& backend() const { return *backend_; }
  std::unique_ptr<SequenceState> new_state() {
    return must(SequenceState::create(model_->config(), *backend_, 1024, kv_));
  }
  std::vector<float> read(SequenceState& state, std::span<const int32_t> ids) {
    std::vector<float> out(ids.size() * static_cast<size_t>(model_->config().V));
    ReadOptions r;
    r.logits = LogitsFor::kAll;
    r.out = out.data();
    const Status s = forward_->read(state, ids, r);
    EXPECT_TRUE(s.ok()) << s.message();
    return out;
  }

 private:
  ops::KvType kv_;
  std::unique_ptr<tiers::TieredBackend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Forward> forward_;
};

void expect_equal(const std::vector<float>& found, const std::vector<float>& wanted,
                  const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  if (std::memcmp(found.data(), wanted.data(), found.size() * sizeof(float)) == 0) return;
  size_t i = 0, differing = 0;
  for (size_t k = found.size(); k-- > 0;) {
    if (std::memcmp(&found[k], &wanted[k], 4) != 0) i = k, ++differing;
  }
  ADD_FAILURE() << what << ": " << differing << " of " << found.size() << " logits differ, first " << i
                << ": " << found[i] << ", wanted " << wanted[i];
}

// T tokens at once, in two passes cut at each of `cuts`, and the last ones token by token.
void compare(const std::string& path, ops::KvType kv, int T, const std::vector<int>& cuts, double share = 1) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  Engine cpu(path, {.kv = kv, .threads = 4, .max_pass = 512});
  OnDevice cuda(path, kv, 512, share);
  std::mt19937 rng(7);
  std::vector<int32_t> ids(static_cast<size_t>(T));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng() % static_cast<uint32_t>(cpu.model().config().V));
  const std::vector<float> wanted = cpu.logits(ids);
  expect_equal(cuda.read(*cuda.new_state(), ids), wanted, "one pass");
  const std::span<const int32_t> all(ids);
  for (int cut : cuts) {
    auto state = cuda.new_state();
    std::vector<float> found = cuda.read(*state, all.first(static_cast<size_t>(cut)));
    const std::vector<float> rest = cuda.read(*state, all.subspan(static_cast<size_t>(cut)));
    found.insert(found.end(), rest.begin(), rest.end());
    expect_equal(found, wanted, "cut at " + std::to_string(cut));
  }
  auto state = cuda.new_state();
  const size_t steps = 8;
  std::vector<float> found = cuda.read(*state, all.first(ids.size() - steps));
  for (size_t i = ids.size() - steps; i < ids.size(); ++i) {
    const std::vector<float> one = cuda.read(*state, all.subspan(i, 1));
    found.insert(found.end(), one.begin(), one.end());
  }
  expect_equal(found, wanted, "token by token");
  if (share == 1) {
    EXPECT_TRUE(cuda.backend().plan()->whole);
    return;
  }
  EXPECT_GT(cuda.backend().rows().host, 0);
  EXPECT_EQ(cuda.backend().rows().device > 0, share > 0);
  if (share == 0.5) {
    EXPECT_GT(cuda.backend().rows().swaps, 0);
  }
}

TEST(CudaModel, TinyRandomF32) {
  compare(fixture_path("tiny-random-F32.gguf"), ops::KvType::kF32, 300, {1, 5, 37, 150, 299});
}
TEST(CudaModel, TinyRandomQ8) {
  compare(fixture_path("tiny-random-Q8_0.gguf"), ops::KvType::kF16, 300, {1, 8, 64, 200});
}
TEST(CudaModel, ArgonTiny) { compare(tiny_model_path(), ops::KvType::kF16, 100, {1, 17, 99}); }

// The CPU's bits, as the tests above find them on the device alone: so the placement changes nothing.
TEST(CudaTiers, TinyRandomF32) {
  for (const double share : {0.0, 0.5, 0.9})
    compare(fixture_path("tiny-random-F32.gguf"), ops::KvType::kF32, 300, {1, 37, 299}, share);
}
TEST(CudaTiers, TinyRandomQ8) {
  for (const double share : {0.0, 0.5, 0.9})
    compare(fixture_path("tiny-random-Q8_0.gguf"), ops::KvType::kF16, 300, {1, 8, 200}, share);
}
TEST(CudaTiers, ArgonTiny) { compare(tiny_model_path(), ops::KvType::kF16, 100, {1, 17}, 0.5); }

// A model of the published files' types, gate and up in one tensor, split between the two.
TEST(CudaTiers, FusedQ4KAndNibbles) {
  const std::string path = ::testing::TempDir() + "argon-cuda-tiers.gguf";
  SynthOptions o;
  o.config = synth_real_sizes(4);
  ModelConfig& c = o.config;
  c.context_length = 1024;
  c.H = 512, c.R = 32, c.V = 300, c.E = 24, c.K = 4, c.F = 256, c.Fs = 64;
  c.hk = 2, c.hv = 4, c.D = 32, c.nq = 4, c.nkv = 2, c.dh = 64, c.rot = 32, c.rope_sections = {};
  c.ni = 2, c.di = 32, c.B = 32, c.W = 32, c.G = 2;
  o.head_rows = 500;
  o.gate_up = WeightType::kQ4_K, o.down = WeightType::kIQ4_NL, o.fused_gate_up = true;
  ASSERT_TRUE(write_synthetic(path, o).ok());
  for (const double share : {0.0, 0.5, 1.0}) compare(path, ops::KvType::kF16, 200, {1, 64}, share);
}

// A budget in bytes is told apart from a device that has no more.
TEST(CudaTiers, OutOfMemorySaysWhatHelps) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  auto cuda = must(CudaBackend::create(0));
  const auto p = cuda->allocate(size_t{1} << 46);
  ASSERT_FALSE(p.ok());
  EXPECT_EQ(p.status().code(), Code::kResource);
  for (const char* part : {"67108864 MiB", "are free", "--gpu-memory"})
    EXPECT_NE(p.status().message().find(part), std::string::npos) << p.status().message();
  // The backend goes on.
  EXPECT_TRUE(cuda->allocate(64).ok());
}

}  // namespace
}  // namespace argon::testing
