// The engine against transformers: float64 logits, the wide residual at every layer, greedy continuations.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "tests/e2e/engine.h"
#include "tests/harness/safetensors.h"

namespace argon::testing {
namespace {

template <class A, class B>
double relative_error(const std::vector<A>& x, const std::vector<B>& y) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    difference += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
    norm += std::pow(static_cast<double>(y[i]), 2);
  }
  return std::sqrt(difference / norm);
}

class TinyRandom : public ::testing::Test {
 protected:
  Engine engine{fixture_path("tiny-random-F32.gguf"), {.kv = ops::KvType::kF32}};
  SafeTensors reference{source_path("tests/data/tiny-random/reference.safetensors")};
};

TEST_F(TinyRandom, LogitsMatchFloat64) {
  for (int T : {1, 3, 7, 32, 37, 64, 200, 300}) {
    const auto ids = reference.get<int32_t>("ids_" + std::to_string(T));
    const double error =
        relative_error(engine.logits(ids), reference.get<double>("logits64_" + std::to_string(T)));
    std::printf("T = %3d: relative error %.2e\n", T, error);
    EXPECT_LE(error, 2e-6) << "T = " << T;
    EXPECT_GT(error, 0.0) << "float32 cannot equal float64: the comparison is broken";
  }
}

TEST_F(TinyRandom, WideResidualMatchesAtEveryLayer) {
  const ModelConfig& c = engine.model().config();
  for (int T : {7, 64}) {
    const auto ids = reference.get<int32_t>("ids_" + std::to_string(T));
    const auto hidden = reference.get<float>("hidden_" + std::to_string(T));
    const auto mixed = reference.get<float>("mixed_" + std::to_string(T));
    int seen = 0;
    ReadOptions options;
    options.logits = LogitsFor::kNone;
    options.observe = [&](int64_t layer, const float* x, int64_t rows) {
      ASSERT_EQ(rows, T);
      ++seen;
      const size_t n = static_cast<size_t>(rows * (layer < c.L ? c.CH() : c.H));
      const std::vector<float> found(x, x + n);
      const float* wanted = layer < c.L ? hidden.data() + static_cast<size_t>(layer) * n : mixed.data();
      EXPECT_LE(relative_error(found, std::vector<float>(wanted, wanted + n)), 2e-6)
          << "T = " << T << ", layer " << layer;
    };
    auto state = engine.new_state();
    ASSERT_TRUE(engine.forward().read(*state, ids, options).ok());
    EXPECT_EQ(seen, c.L + 1);
  }
}

TEST_F(TinyRandom, GreedyContinuationIsTheReference) {
  const auto whole = reference.get<int32_t>("greedy_37");
  const std::vector<int32_t> prompt(whole.begin(), whole.begin() + 37);
  EXPECT_EQ(engine.greedy(prompt, 96), whole);
}

TEST(ArgonTinyBf16, GreedyContinuationsAreTheReference) {
  const std::string path = large_fixture_path("argon-tiny/argon-tiny-BF16.gguf");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP()
        << "no " << path
        << " (49 MB, not in the repository): set ARGON_FIXTURES to the folder that holds argon-tiny/";
  }
  Engine engine(path, {});
  const SafeTensors reference(source_path("tests/data/argon-tiny/reference.safetensors"));
  for (int i = 0; i < 6; ++i) {
    const auto prompt = reference.get<int32_t>("ids_" + std::to_string(i));
    EXPECT_EQ(engine.greedy(prompt, 60), reference.get<int32_t>("greedy_" + std::to_string(i)))
        << "prompt " << i;
  }
}

}  // namespace
}  // namespace argon::testing
