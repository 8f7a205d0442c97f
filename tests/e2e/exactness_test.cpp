// The logits of a token depend on the tokens before it and on nothing else, to the last bit: not on how
// tokens are cut into passes and reads, on threads, on the instruction set, or on how the state came to its
// position (saved and restored, copied, rewound, interleaved with others). All comparisons are by memcmp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "tests/e2e/engine.h"
#include "tests/harness/safetensors.h"

namespace argon::testing {
namespace {

constexpr uint64_t kFingerprint = 0x0123456789abcdefu;
constexpr size_t kPrompt = 37;
constexpr size_t kAfter = 12;  // tokens compared after a state came to its position
using Ids = std::vector<int32_t>;
using Logits = std::vector<float>;

struct Subject {
  const char* name;
  const char* model;
  ops::KvType kv;

  bool tiny_random() const { return std::string(model).starts_with("tiny-random"); }
  std::string path() const { return tiny_random() ? fixture_path(model) : tiny_model_path(); }
  // A text of `n` tokens, at most 300 (tiny-random) or 83 (argon-tiny).
  Ids ids(size_t n) const {
    const SafeTensors reference(source_path(std::string("tests/data/") +
                                            (tiny_random() ? "tiny-random" : "argon-tiny") +
                                            "/reference.safetensors"));
    Ids all = reference.get<int32_t>(tiny_random() ? "ids_300" : "greedy_4");
    all.resize(std::min(n, all.size()));
    return all;
  }
};

const Subject kF32 = {"TinyRandomF32KvF32", "tiny-random-F32.gguf", ops::KvType::kF32};
const Subject kF16 = {"TinyRandomF32KvF16", "tiny-random-F32.gguf", ops::KvType::kF16};
const Subject kArgonTiny = {"ArgonTinyQ8KvF16", "argon-tiny-Q8_0.gguf", ops::KvType::kF16};

std::string subject_name(const ::testing::TestParamInfo<Subject>& info) { return info.param.name; }

// Whether `found` is what the whole text's `wanted` holds from token `from` on, as far as it goes.
::testing::AssertionResult same_from(const Logits& found, const Logits& wanted, size_t from, size_t V) {
  const size_t first = from * V;
  if (found.empty() || wanted.size() < first || found.size() > wanted.size() - first) {
    return ::testing::AssertionFailure()
           << found.size() << " logits from position " << from << " of " << wanted.size();
  }
  if (std::memcmp(found.data(), wanted.data() + first, found.size() * sizeof(float)) == 0) {
    return ::testing::AssertionSuccess();
  }
  for (size_t i = 0;; ++i) {
    if (std::memcmp(&found[i], &wanted[first + i], sizeof(float)) == 0) continue;
    return ::testing::AssertionFailure() << "first difference at position " << from + i / V << ", logit "
                                         << i % V << ": " << found[i] << ", wanted " << wanted[first + i];
  }
}

std::span<const int32_t> part(const Ids& ids, size_t from, size_t to) {
  return std::span(ids).subspan(from, to - from);
}

class Exactness : public ::testing::TestWithParam<Subject> {
 protected:
  // The trained model is too slow for more in the short test.
  Ids ids = GetParam().ids(kPrompt);
};

TEST_P(Exactness, AnyPassSize) {
  const Logits wanted = Engine(GetParam().path(), {.kv = GetParam().kv}).logits(ids);
  for (int64_t size : {1, 2, 3, 5, 8, 16, 37}) {
    Engine e(GetParam().path(), {.kv = GetParam().kv, .max_pass = size});
    EXPECT_TRUE(same_from(e.logits(ids), wanted, 0, static_cast<size_t>(e.model().config().V)))
        << "passes of " << size;
  }
}

TEST_P(Exactness, AnyThreads) {
  const Logits wanted = Engine(GetParam().path(), {.kv = GetParam().kv, .threads = 1}).logits(ids);
  for (int threads : {2, 3, 8}) {
    Engine e(GetParam().path(), {.kv = GetParam().kv, .threads = threads});
    EXPECT_TRUE(same_from(e.logits(ids), wanted, 0, static_cast<size_t>(e.model().config().V)))
        << threads << " threads";
  }
}

TEST_P(Exactness, AnyInstructionSet) {
  const Logits wanted = Engine(GetParam().path(), {.kv = GetParam().kv}).logits(ids);
  for (int level = 0; level <= static_cast<int>(detect_isa()); ++level) {
    const auto isa = static_cast<ops::Isa>(level);
    Engine e(GetParam().path(), {.kv = GetParam().kv, .isa = isa});
    EXPECT_TRUE(same_from(e.logits(ids), wanted, 0, static_cast<size_t>(e.model().config().V)))
        << isa_name(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(, Exactness, ::testing::ValuesIn(std::vector<Subject>{kF32, kF16, kArgonTiny}),
                         subject_name);

// What a sequence may go through. The long text is far beyond the attention budget of 32 tokens, so that
// blocks are dropped and the indexer's choice is part of what must come back.
class Sequence : public ::testing::TestWithParam<Subject> {
 protected:
  Logits read(SequenceState& s, size_t from, size_t to) { return e.read(s, part(text, from, to)); }
  ::testing::AssertionResult same(const Logits& found, const Logits& wanted, size_t from) {
    return same_from(found, wanted, from, static_cast<size_t>(e.model().config().V));
  }

  Engine e{GetParam().path(), {.kv = GetParam().kv}};
  Ids text = GetParam().ids(240);
};

TEST_P(Sequence, CutAnywhere) {
  text.resize(kPrompt);
  const Logits wanted = e.logits(text);
  for (size_t cut = 1; cut < kPrompt; ++cut) {
    auto s = e.new_state();
    Logits found = read(*s, 0, cut);
    const Logits rest = read(*s, cut, kPrompt);
    found.insert(found.end(), rest.begin(), rest.end());
    EXPECT_TRUE(same(found, wanted, 0)) << "cut at " << cut;
  }
}

TEST_P(Sequence, SaveAndRestore) {
  const Logits wanted = e.logits(text);
  for (size_t cut : {size_t{1}, size_t{5}, size_t{37}, size_t{213}, text.size()}) {
    const size_t end = std::min(text.size(), cut + kAfter);
    auto s = e.new_state();
    read(*s, 0, cut);
    const std::vector<uint8_t> saved = s->save(kFingerprint);
    auto fresh = e.new_state(), used = e.new_state();
    read(*used, 40, 60);  // what a state held before must leave no trace
    used->checkpoint();
    for (SequenceState* to : {fresh.get(), used.get()}) {
      const Status restored = to->restore(saved, kFingerprint);
      ASSERT_TRUE(restored.ok()) << restored.message();
      ASSERT_EQ(to->position(), static_cast<int64_t>(cut));
      EXPECT_EQ(to->save(kFingerprint), saved) << "cut at " << cut;
      if (cut < end) {
        EXPECT_TRUE(same(read(*to, cut, end), wanted, cut)) << "cut at " << cut;
      }
    }
    if (cut < end) {
      EXPECT_TRUE(same(read(*s, cut, end), wanted, cut)) << "saving at " << cut << " left a trace";
    }
  }
}

TEST_P(Sequence, CopiesAreIndependent) {
  const Logits wanted = e.logits(text);
  for (size_t cut : {5, 37, 213}) {
    auto s = e.new_state();
    read(*s, 0, cut);
    auto other = must(s->copy()), third = must(s->copy());
    // The third goes another way before either continues; then they take turns.
    const Ids astray(text.rbegin(), text.rend());
    e.read(*third, part(astray, 0, 20));
    const size_t end = cut + kAfter, middle = cut + 5;
    EXPECT_TRUE(same(read(*s, cut, end), wanted, cut)) << "the original, cut at " << cut;
    Logits found = read(*other, cut, middle);
    s.reset();
    const Logits rest = read(*other, middle, end);
    found.insert(found.end(), rest.begin(), rest.end());
    EXPECT_TRUE(same(found, wanted, cut)) << "the copy, cut at " << cut;
  }
}

TEST_P(Sequence, RewindToAnyPosition) {
  text.resize(kPrompt);
  const Logits wanted = e.logits(text);
  for (const std::vector<size_t>& checkpoints :
       {std::vector<size_t>{}, {1}, {16}, {4, 9, 30}, {3, 8, 15, 22, 29, 36}, {37}}) {
    auto whole = e.new_state();
    size_t at = 0;
    for (size_t c : checkpoints) {
      read(*whole, at, c);
      whole->checkpoint();
      at = c;
    }
    if (at < kPrompt) read(*whole, at, kPrompt);
    for (size_t k = 0; k <= kPrompt; ++k) {
      auto s = must(whole->copy());
      const Status back = e.forward().rewind(*s, static_cast<int64_t>(k));
      ASSERT_TRUE(back.ok()) << back.message();
      ASSERT_EQ(s->position(), static_cast<int64_t>(k));
      auto straight = e.new_state();
      if (k > 0) read(*straight, 0, k);
      EXPECT_EQ(s->save(kFingerprint), straight->save(kFingerprint))
          << "back to " << k << " with " << checkpoints.size() << " checkpoints";
      if (k == kPrompt) continue;
      EXPECT_TRUE(same(read(*s, k, kPrompt), wanted, k))
          << "back to " << k << " with " << checkpoints.size() << " checkpoints";
    }
  }
}

TEST_P(Sequence, RewindAfterBlocksWereDropped) {
  const Logits wanted = e.logits(text);
  auto s = e.new_state();
  size_t at = 0;
  for (size_t c : {20, 70, 120, 170, 220}) {
    read(*s, at, c);
    s->checkpoint();
    at = c;
  }
  read(*s, at, text.size());
  for (size_t k : {239, 221, 220, 219, 171, 130, 99, 33, 20, 2, 0}) {
    auto again = must(s->copy());
    const Status back = e.forward().rewind(*again, static_cast<int64_t>(k));
    ASSERT_TRUE(back.ok()) << back.message();
    EXPECT_TRUE(same(read(*again, k, std::min(text.size(), k + kAfter)), wanted, k)) << "back to " << k;
  }
  for (int64_t beyond : {int64_t{-1}, static_cast<int64_t>(text.size()) + 1}) {
    EXPECT_FALSE(e.forward().rewind(*s, beyond).ok()) << beyond;
  }
  EXPECT_EQ(s->position(), static_cast<int64_t>(text.size()));
}

TEST_P(Sequence, InterleavedSequencesDoNotMeet) {
  Ids other(text.rbegin(), text.rend());
  const Logits wanted = e.logits(text), wanted_other = e.logits(other);
  auto a = e.new_state(), b = e.new_state();
  Logits found, found_other;
  const auto append = [](Logits& to, const Logits& more) { to.insert(to.end(), more.begin(), more.end()); };
  for (size_t i = 0, j = 0; i < text.size() || j < other.size();) {
    const size_t next_i = std::min(text.size(), i + 1 + i % 23), next_j = std::min(other.size(), j + 9);
    if (i < next_i) append(found, e.read(*a, part(text, i, next_i)));
    if (j < next_j) append(found_other, e.read(*b, part(other, j, next_j)));
    i = next_i;
    j = next_j;
  }
  EXPECT_TRUE(same(found, wanted, 0));
  EXPECT_TRUE(same(found_other, wanted_other, 0));
}

INSTANTIATE_TEST_SUITE_P(, Sequence, ::testing::ValuesIn(std::vector<Subject>{kF32, kF16}), subject_name);

// Saved states that do not fit are refused in one line, and the state that was to take them stands as before.
class Refusal : public ::testing::Test {
 protected:
  void expect_refused(SequenceState& state, std::span<const uint8_t> bytes, uint64_t fingerprint,
                      const std::string& what) {
    const std::vector<uint8_t> before = state.save(kFingerprint);
    const Status s = state.restore(bytes, fingerprint);
    EXPECT_EQ(s.code(), Code::kBadInput) << what;
    EXPECT_FALSE(s.message().empty()) << what;
    EXPECT_EQ(s.message().find('\n'), std::string::npos) << what << ": " << s.message();
    EXPECT_EQ(state.save(kFingerprint), before) << what << " changed the state";
  }

  Engine e{kF16.path(), {}};
  Ids text = kF16.ids(60);
  std::unique_ptr<SequenceState> source = e.new_state(), target = e.new_state();
  std::vector<uint8_t> saved;

  void SetUp() override {
    e.read(*source, part(text, 0, 40));
    saved = source->save(kFingerprint);
    e.read(*target, part(text, 5, 30));
  }
};

TEST_F(Refusal, Truncated) {
  for (size_t n = 0; n < saved.size(); n += n < 80 ? 1 : 1 + saved.size() / 12) {
    expect_refused(*target, std::span(saved).first(n), kFingerprint, std::to_string(n) + " bytes");
  }
  expect_refused(*target, std::span(saved).first(saved.size() - 1), kFingerprint, "all but one byte");
  saved.push_back(0);
  expect_refused(*target, saved, kFingerprint, "one byte too many");
}

TEST_F(Refusal, FlippedByte) {
  for (size_t i = 0; i < saved.size(); i += i < 80 ? 1 : 1 + saved.size() / 12) {
    for (uint8_t mask : {uint8_t{0x01}, uint8_t{0x80}}) {
      saved[i] ^= mask;
      expect_refused(*target, saved, kFingerprint, "byte " + std::to_string(i));
      saved[i] ^= mask;
    }
  }
  saved.back() ^= 0x10;
  expect_refused(*target, saved, kFingerprint, "the last byte");
}

TEST_F(Refusal, AnotherModel) {
  expect_refused(*target, saved, kFingerprint + 1, "another fingerprint");
  Engine other(kArgonTiny.path(), {});
  expect_refused(*other.new_state(), saved, kFingerprint, "another architecture under the same fingerprint");
}

TEST_F(Refusal, AnotherCacheType) {
  auto f32 = must(SequenceState::create(e.model().config(), e.backend(), 1024, ops::KvType::kF32));
  expect_refused(*f32, saved, kFingerprint, "another cache type");
}

TEST_F(Refusal, TooSmall) {
  auto small = must(SequenceState::create(e.model().config(), e.backend(), 39, ops::KvType::kF16));
  expect_refused(*small, saved, kFingerprint, "capacity 39 for 40 tokens");
  auto just = must(SequenceState::create(e.model().config(), e.backend(), 40, ops::KvType::kF16));
  EXPECT_TRUE(just->restore(saved, kFingerprint).ok());
}

TEST_F(Refusal, TheStateGoesOn) {
  auto undisturbed = must(target->copy());
  saved[saved.size() / 2] ^= 1;
  expect_refused(*target, saved, kFingerprint, "a damaged state");
  EXPECT_TRUE(same_from(e.read(*target, part(text, 30, 60)), e.read(*undisturbed, part(text, 30, 60)), 0,
                        static_cast<size_t>(e.model().config().V)));
}

// A caller that knows nothing of the contract's floating-point mode: a pass sets it and puts the caller's
// back.
TEST(FloatingPointMode, ReadSetsItAndPutsItBack) {
  const auto keeps_subnormals = [] {
    volatile float tiny = 1e-38f;
    volatile float smaller = tiny * 1e-3f;
    return smaller != 0.0f;
  };
  Engine engine(fixture_path("tiny-random-F32.gguf"), {});
  auto state = engine.new_state();
  const Ids ids = {1, 2, 3};
  int passes = 0;
  ReadOptions options;
  options.logits = LogitsFor::kNone;
  options.observe = [&](int64_t, const float*, int64_t) {
    ++passes;
    EXPECT_FALSE(keeps_subnormals());
  };
#if defined(__x86_64__)
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode & ~0x8040u);
  EXPECT_TRUE(keeps_subnormals());
  EXPECT_TRUE(engine.forward().read(*state, ids, options).ok());
  EXPECT_TRUE(keeps_subnormals());
  _mm_setcsr(mode);
  EXPECT_GT(passes, 0);
#else
  GTEST_SKIP() << "the test changes the floating-point mode of x86-64 only";
#endif
}

}  // namespace
}  // namespace argon::testing
