// The whole model on Metal kernels against the CPU in one process: all logits by memcmp, in one pass, cut,
// and carried on token by token. On the executor also with every access checked.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "metal/metal_backend.h"
#include "tests/e2e/engine.h"

namespace argon::testing {

inline constexpr int64_t kMetalContext = 512, kMetalPass = 128;

class OnMetal {
 public:
  OnMetal(const std::string& path, ops::KvType kv, bool checks) : kv_(kv) {
    metal::DeviceOptions o;
    o.checks = checks;
    backend_ = must(MetalBackend::create(o));
    model_ = must(Model::load(path, *backend_));
    forward_ =
        must(Forward::create(model_->config(), model_->weights(), *backend_, kMetalPass, kMetalContext));
  }
  std::unique_ptr<SequenceState> new_state() {
    return must(SequenceState::create(model_->config(), *backend_, kMetalContext, kv_));
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
  bool is_gpu() { return backend_->launcher().device().is_gpu(); }

 private:
  ops::KvType kv_;
  std::unique_ptr<MetalBackend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Forward> forward_;
};

inline void expect_equal_logits(const std::vector<float>& found, const std::vector<float>& wanted,
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

// `T` tokens at once, in two passes cut at each of `cuts`, and the last `steps` token by token.
struct MetalPlan {
  int T;
  std::vector<int> cuts;
  int steps;
  bool checks = false;
};

inline void compare_with_cpu(const std::string& path, ops::KvType kv, const MetalPlan& plan) {
  if (!metal_available()) GTEST_SKIP() << "no GPU, and no executor was built";
  OnMetal metal(path, kv, plan.checks);
  if (plan.checks && metal.is_gpu()) GTEST_SKIP() << "a GPU checks nothing";
  Engine cpu(path, {.kv = kv, .max_pass = kMetalPass, .context = kMetalContext});
  std::mt19937 rng(7);
  std::vector<int32_t> ids(static_cast<size_t>(plan.T));
  for (int32_t& id : ids) id = static_cast<int32_t>(rng() % static_cast<uint32_t>(cpu.model().config().V));
  const std::vector<float> wanted = cpu.logits(ids);
  const std::span<const int32_t> all(ids);

  expect_equal_logits(metal.read(*metal.new_state(), ids), wanted, "one pass");
  for (int cut : plan.cuts) {
    auto state = metal.new_state();
    std::vector<float> found = metal.read(*state, all.first(static_cast<size_t>(cut)));
    const std::vector<float> rest = metal.read(*state, all.subspan(static_cast<size_t>(cut)));
    found.insert(found.end(), rest.begin(), rest.end());
    expect_equal_logits(found, wanted, "cut at " + std::to_string(cut));
  }
  auto state = metal.new_state();
  const size_t first = ids.size() - static_cast<size_t>(plan.steps);
  std::vector<float> found;
  if (first > 0) found = metal.read(*state, all.first(first));
  for (size_t i = first; i < ids.size(); ++i) {
    const std::vector<float> one = metal.read(*state, all.subspan(i, 1));
    found.insert(found.end(), one.begin(), one.end());
  }
  expect_equal_logits(found, wanted, "token by token");
}

}  // namespace argon::testing
