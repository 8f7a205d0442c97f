// A device that fails during a read and loses what it was asked for: the request ends with its error, and the
// next one finds nothing missing.
#include <cstring>

#include "tests/e2e/engine.h"
#include "tiers/tests/separate_device.h"

namespace argon::testing {
namespace {

constexpr int64_t kPass = 64, kContext = 256;
constexpr ops::KvType kKv = ops::KvType::kF16;
const std::vector<int32_t> kIds = {1, 2, 3, 4, 5, 6, 7};

TEST(FailedRead, TheNextReadIsWhole) {
  const std::string path = fixture_path("tiny-random-Q8_0.gguf");
  SeparateDevice backend(wanted_threads());
  const auto model = must(Model::load(path, backend));
  const auto forward = must(Forward::create(model->config(), model->weights(), backend, kPass, kContext));
  const auto state = must(SequenceState::create(model->config(), backend, kContext, kKv));
  std::vector<float> logits(kIds.size() * static_cast<size_t>(model->config().V));
  ReadOptions options;
  options.logits = LogitsFor::kAll;
  options.out = logits.data();
  backend.set_fault(internal_error("refused"));
  // Nothing is read back, so nothing of it has happened when finish() loses it.
  ReadOptions no_logits;
  no_logits.logits = LogitsFor::kNone;
  const Status s = forward->read(*state, kIds, no_logits);
  EXPECT_EQ(s.message(), "refused");
  EXPECT_EQ(state->position(), 0);
  ASSERT_TRUE(forward->read(*state, kIds, options).ok());
  const auto wanted = Engine(path, {.kv = kKv, .max_pass = kPass, .context = kContext}).logits(kIds);
  ASSERT_EQ(logits.size(), wanted.size());
  EXPECT_EQ(std::memcmp(logits.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
}

TEST(FailedRead, WhatIsMissingFromTheBeginningIsSaidThen) {
  SeparateDevice backend(wanted_threads());
  const auto model = must(Model::load(fixture_path("tiny-random-Q8_0.gguf"), backend));
  backend.set_fault(internal_error("refused"));
  const auto forward = Forward::create(model->config(), model->weights(), backend, kPass, kContext);
  ASSERT_FALSE(forward.ok());
  EXPECT_EQ(forward.status().message(), "refused");
}

}  // namespace
}  // namespace argon::testing
