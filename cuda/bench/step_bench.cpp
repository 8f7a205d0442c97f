// Writing alone: steps of one token after prompts of several lengths, on a synthetic file (cuda_bench make).
// Before a time is printed, the logits of a few steps must be the same words with graphs and early kernels as
// without both.
//   cuda_step_bench FILE LAYERS LENGTH... [--profile]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "cuda/cuda_backend.h"
#include "model/forward.h"
#include "model/model.h"

namespace argon {
namespace {

template <class T>
T must(Result<T> r) {
  if (!r.ok()) {
    std::fprintf(stderr, "%s\n", r.status().message().c_str());
    std::exit(1);
  }
  return std::move(r).value();
}
void must(const Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "%s\n", s.message().c_str());
  std::exit(1);
}
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class StepBench {
 public:
  StepBench(CudaBackend& backend, const std::string& path, int64_t layers, int64_t longest)
      : backend_(backend), model_(must(Model::load(path, backend))), config_(model_->config()) {
    const auto& from = model_->weights().layers;
    weights_.embed = model_->weights().embed;
    weights_.output = model_->weights().output;
    weights_.tied_output = model_->weights().tied_output;
    weights_.table = model_->weights().table;
    weights_.head_mix = model_->weights().head_mix;
    // A deeper model from the file's layers, taken again and again: the same work and bytes per token.
    for (int64_t l = 0; l < layers; ++l) {
      weights_.layers.push_back(from[static_cast<size_t>(l) % from.size()]);
    }
    config_.L = layers;
    context_ = longest + 256;
    forward_ = must(Forward::create(config_, weights_, backend, 2048, context_));
    ids_.resize(static_cast<size_t>(longest));
    std::mt19937 rng(3);
    for (int32_t& id : ids_) id = static_cast<int32_t>(rng() % static_cast<uint32_t>(config_.V));
  }

  void run(int64_t length, bool profile) {
    const std::vector<float> plain = steps_after(length, 6, false), fast = steps_after(length, 6, true);
    const bool same = std::memcmp(plain.data(), fast.data(), plain.size() * sizeof(float)) == 0;
    auto state = after(length);
    std::vector<double> times;
    for (size_t i = 0; i < 96; ++i) {
      const double t = now();
      step(*state, i, logits_);
      if (i >= 24) times.push_back(now() - t);
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    std::printf("after %6lld: step %7.3f ms (fastest %.3f), %6.1f tokens/s; same words without graphs: %s\n",
                static_cast<long long>(length), median * 1e3, times[0] * 1e3, 1 / median, same ? "yes" : "NO");
    std::fflush(stdout);
    if (!same) std::exit(1);
    if (!profile) return;
    backend_.queue().start_profile();
    step(*state, 0, logits_);
    for (const auto& k : backend_.queue().take_profile()) {
      std::string name = k.kernel;
      const size_t cut = name.find("_cu_");
      if (cut != std::string::npos) name = name.substr(std::min(name.size(), cut + 12));
      std::printf("  %8.3f ms %5lld x %5.1f us %s\n", k.ms, static_cast<long long>(k.calls),
                  k.ms * 1e3 / static_cast<double>(k.calls), name.substr(0, 60).c_str());
    }
  }

 private:
  std::unique_ptr<SequenceState> after(int64_t length) {
    auto state = must(SequenceState::create(config_, backend_, context_, ops::KvType::kF16));
    ReadOptions options;
    options.logits = LogitsFor::kNone;
    must(forward_->read(*state, std::span(ids_).first(static_cast<size_t>(length)), options));
    return state;
  }
  void step(SequenceState& state, size_t i, std::vector<float>& logits) {
    logits.resize(static_cast<size_t>(config_.V));
    ReadOptions options;
    options.out = logits.data();
    must(forward_->read(state, std::span(ids_).subspan(i, 1), options));
  }
  std::vector<float> steps_after(int64_t length, size_t count, bool fast) {
    auto state = after(length);
    std::vector<float> all, one;
    backend_.queue().use_graphs(fast);
    backend_.queue().use_early(fast);
    for (size_t i = 0; i < count; ++i) {
      step(*state, i, one);
      all.insert(all.end(), one.begin(), one.end());
    }
    backend_.queue().use_graphs(true);
    backend_.queue().use_early(true);
    return all;
  }

  CudaBackend& backend_;
  std::unique_ptr<Model> model_;
  ModelConfig config_;
  Weights weights_;
  int64_t context_ = 0;
  std::unique_ptr<Forward> forward_;
  std::vector<int32_t> ids_;
  std::vector<float> logits_;
};

int run(int argc, char** argv) {
  ScopedFlushSubnormals flush;
  std::vector<int64_t> lengths;
  bool profile = false;
  for (int i = 3; i < argc; ++i) {
    if (std::strcmp(argv[i], "--profile") == 0) {
      profile = true;
    } else {
      lengths.push_back(std::atoll(argv[i]));
    }
  }
  if (lengths.empty()) {
    std::fprintf(stderr, "cuda_step_bench FILE LAYERS LENGTH... [--profile]\n");
    return 2;
  }
  auto backend = must(CudaBackend::create(0));
  StepBench bench(*backend, argv[1], std::atoll(argv[2]), *std::max_element(lengths.begin(), lengths.end()));
  std::printf("%s layers, %s\n", argv[2], backend->name().c_str());
  for (int64_t length : lengths) bench.run(length, profile && length == lengths.front());
  return 0;
}

}  // namespace
}  // namespace argon

int main(int argc, char** argv) { return argon::run(argc, argv); }
