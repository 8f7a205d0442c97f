// The whole model on the device against the CPU in one process: all logits by memcmp, prompts cut at several
// places, a state carried on token by token.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "cuda/cuda_backend.h"
#include "tests/e2e/engine.h"

namespace argon::testing {
namespace {

class OnDevice {
 public:
  OnDevice(const std::string& path, ops::KvType kv, int64_t max_pass)
      : kv_(kv), backend_(must(CudaBackend::create(0))) {
    model_ = must(Model::load(path, *backend_));
    forward_ = must(Forward::create(model_->config(), model_->weights(), *backend_, max_pass, 1024));
  }
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
  std::unique_ptr<CudaBackend> backend_;
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
void compare(const std::string& path, ops::KvType kv, int T, const std::vector<int>& cuts) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  Engine cpu(path, {.kv = kv, .threads = 4, .max_pass = 512});
  OnDevice cuda(path, kv, 512);
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
}

TEST(CudaModel, TinyRandomF32) {
  compare(fixture_path("tiny-random-F32.gguf"), ops::KvType::kF32, 300, {1, 5, 37, 150, 299});
}
TEST(CudaModel, TinyRandomQ8) {
  compare(fixture_path("tiny-random-Q8_0.gguf"), ops::KvType::kF16, 300, {1, 8, 64, 200});
}
TEST(CudaModel, ArgonTiny) { compare(tiny_model_path(), ops::KvType::kF16, 100, {1, 17, 99}); }

}  // namespace
}  // namespace argon::testing
