// The next token chosen on the device against ops::sample: the token and the logits as the penalties leave
// them, for vocabularies from 1 to the model's and every cut.
#include <cmath>
#include <limits>
#include <random>

#include "cuda/tests/parity.h"
#include "ops/buffer.h"

namespace argon::testing {
namespace {

using ops::SampleOptions;

class CudaSampleParity : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = cuda_backend();
    if (backend_ == nullptr) GTEST_SKIP() << "no CUDA device of compute capability 8.0 or newer";
  }

  void check(const std::vector<float>& logits, const std::vector<int32_t>& history, uint64_t position,
             const SampleOptions& o) {
    std::vector<float> wanted = logits, found(logits.size());
    const int32_t token = ops::sample(wanted, history, position, 0, o).value_or(-1);

    const auto V = static_cast<int64_t>(logits.size());
    const std::vector<int32_t> ids = ops::penalized_ids(history, o, V);
    const size_t bytes = logits.size() * sizeof(float), id_bytes = ids.size() * sizeof(int32_t);
    auto memory = ops::Buffer::create(*backend_, bytes + id_bytes + sizeof(int32_t));
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    auto* l = memory->as<float>();
    auto* penalized = reinterpret_cast<int32_t*>(l + V);
    backend_->write(l, logits.data(), bytes);
    backend_->write(penalized, ids.data(), id_bytes);
    backend_->run_sample({l, penalized, penalized + ids.size(), V, static_cast<int64_t>(ids.size()),
                          ops::philox64(o.seed, position, 0), o});
    int32_t chosen = -2;
    backend_->read(&chosen, penalized + ids.size(), sizeof chosen);
    backend_->read(found.data(), l, bytes);
    const Status s = backend_->finish();
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(chosen, token) << "V " << V << ", position " << position << ", temperature " << o.temperature
                             << ", top-k " << o.top_k << ", top-p " << o.top_p << ", min-p " << o.min_p;
    if (token >= 0) {
      EXPECT_EQ(std::memcmp(found.data(), wanted.data(), bytes), 0);
    }
  }

  static std::vector<float> normal(size_t V, float scale, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> d(0.0f, scale);
    std::vector<float> v(V);
    for (float& x : v) x = d(rng);
    return v;
  }

  CudaBackend* backend_ = nullptr;
};

TEST_F(CudaSampleParity, EveryCutOfNormalLogits) {
  for (const size_t V :
       {size_t{1}, size_t{2}, size_t{31}, size_t{2048}, size_t{2049}, size_t{16384}, size_t{248320}}) {
    const auto logits = normal(V, 3.0f, V);
    for (const float temperature : {0.0f, 0.7f, 3.0f, 100.0f}) {
      for (const int top_k : {0, 1, 40, 5000}) {
        for (const float top_p : {1.0f, 0.95f, 1e-9f}) {
          for (const float min_p : {0.0f, 0.05f, 0.9f}) {
            SampleOptions o;
            o.temperature = temperature, o.top_k = top_k, o.top_p = top_p, o.min_p = min_p, o.seed = V;
            check(logits, {}, static_cast<uint64_t>(top_k) + V, o);
          }
        }
      }
    }
  }
}

// Equal values are ordered by id, wherever the draw falls.
TEST_F(CudaSampleParity, Ties) {
  std::mt19937_64 rng(5);
  for (const size_t V : {size_t{7}, size_t{5000}, size_t{100000}}) {
    std::vector<float> few(V);
    for (float& x : few) x = static_cast<float>(rng() % 3);
    for (uint64_t position = 0; position < 40; ++position) {
      SampleOptions o;
      o.temperature = 1.0f + static_cast<float>(position % 2) * 50.0f;
      o.top_k = position % 4 == 1 ? static_cast<int32_t>(V / 2) : 0;
      o.top_p = position % 3 == 2 ? 0.5f : 1.0f;
      check(few, {}, position, o);
      check(std::vector<float>(V, position % 2 == 0 ? -0.0f : 1.0f), {}, position, o);
    }
  }
}

TEST_F(CudaSampleParity, Penalties) {
  const auto logits = normal(9000, 2.0f, 3);
  std::mt19937_64 rng(9);
  std::vector<int32_t> history(20000);
  for (int32_t& id : history) id = static_cast<int32_t>(rng() % 9000);
  history.push_back(0), history.push_back(8999), history.push_back(2047), history.push_back(2048);
  for (const int window : {0, 1, 4, 64, 300}) {
    for (const float temperature : {0.0f, 1.0f}) {
      SampleOptions o;
      o.temperature = temperature, o.penalty_window = window, o.repeat_penalty = 1.3f,
      o.presence_penalty = 0.7f;
      check(logits, history, 1, o);
      o.repeat_penalty = 1e-38f;  // penalised to infinity
      check(logits, history, 2, o);
    }
  }
}

TEST_F(CudaSampleParity, NotFiniteAndExtremes) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {size_t{0}, size_t{2047}, size_t{4099}}) {
      auto logits = normal(4100, 1.0f, 2);
      logits[at] = bad;
      check(logits, {}, 0, SampleOptions());
      SampleOptions o;
      o.temperature = 1.0f;
      check(logits, {static_cast<int32_t>(at)}, 0, o);
    }
  }
  auto logits = normal(4100, 1.0f, 2);
  logits[17] = 3e38f, logits[4000] = -3e38f, logits[5] = 1e-40f;
  for (const float temperature : {1e-30f, 1e-38f, 1.0f, 100.0f}) {
    SampleOptions o;
    o.temperature = temperature;
    check(logits, {}, 0, o);
  }
}

}  // namespace
}  // namespace argon::testing
