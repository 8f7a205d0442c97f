// A loaded model with everything that tests ask of it. Faults of the fixtures end the test program.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/state.h"
#include "tests/harness/paths.h"

namespace argon::testing {

template <class T>
T must(Result<T> r) {
  if (!r.ok()) {
    std::fprintf(stderr, "%s\n", r.status().message().c_str());
    std::abort();
  }
  return std::move(r).value();
}

// What the environment asks for: ARGON_ISA a level of instruction sets (avx2, avx512, ...), ARGON_THREADS a
// number.
inline ops::Isa wanted_isa() {
  const char* name = std::getenv("ARGON_ISA");
  return name != nullptr ? must(parse_isa(name)) : detect_isa();
}
inline int wanted_threads() {
  const char* count = std::getenv("ARGON_THREADS");
  return count != nullptr ? std::max(1, std::atoi(count)) : 2;
}

struct EngineOptions {
  ops::KvType kv = ops::KvType::kF16;
  int threads = wanted_threads();
  ops::Isa isa = wanted_isa();
  int64_t max_pass = 64;
  int64_t context = 1024;
};

class Engine {
 public:
  Engine(const std::string& path, const EngineOptions& o) : options_(o), backend_(o.threads, o.isa) {
    model_ = must(Model::load(path, backend_));
    forward_ = must(Forward::create(model_->config(), model_->weights(), backend_, o.max_pass, o.context));
  }

  const Model& model() const { return *model_; }
  Forward& forward() { return *forward_; }
  CpuBackend& backend() { return backend_; }
  std::unique_ptr<SequenceState> new_state() {
    return must(SequenceState::create(model_->config(), backend_, options_.context, options_.kv));
  }

  // Logits [T][V] of all tokens, read after what the state holds; any failure fails the test.
  std::vector<float> read(SequenceState& state, std::span<const int32_t> ids) {
    std::vector<float> out(ids.size() * static_cast<size_t>(model_->config().V));
    ReadOptions r;
    r.logits = LogitsFor::kAll;
    r.out = out.data();
    const Status s = forward_->read(state, ids, r);
    EXPECT_TRUE(s.ok()) << s.message();
    return out;
  }
  std::vector<float> logits(std::span<const int32_t> ids) { return read(*new_state(), ids); }

  // Prompt and greedy continuation, ended by an end token (included) or after `n` tokens.
  std::vector<int32_t> greedy(std::vector<int32_t> ids, int n) {
    auto state = new_state();
    std::vector<float> out(static_cast<size_t>(model_->config().V));
    ReadOptions r;
    r.out = out.data();
    std::vector<int32_t> feed = ids;
    for (int i = 0; i < n; ++i) {
      const Status s = forward_->read(*state, feed, r);
      EXPECT_TRUE(s.ok()) << s.message();
      ids.push_back(ops::argmax(out));
      feed = {ids.back()};
      if (model_->tokenizer().is_end(ids.back()) && model_->tokenizer().encodes_everything()) break;
    }
    return ids;
  }

 private:
  EngineOptions options_;
  CpuBackend backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Forward> forward_;
};

}  // namespace argon::testing
