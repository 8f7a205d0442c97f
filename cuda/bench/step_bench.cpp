// Writing alone: steps of one token after prompts of several lengths, on a synthetic file (cuda_bench make).
// Before a time is printed, the logits of a few steps must be the same words with graphs and early kernels as
// without both.
//   cuda_step_bench FILE LAYERS LENGTH... [--profile] | products
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "cuda/bench/bench.h"
#include "cuda/cuda_backend.h"
#include "model/forward.h"
#include "model/model.h"

namespace argon {
namespace {

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
    const double median = median_step(*state, 72, true);
    std::printf("after %6lld: step %7.3f ms, %6.1f tokens/s; same words without graphs: %s\n",
                static_cast<long long>(length), median * 1e3, 1 / median, same ? "yes" : "NO");
    std::fflush(stdout);
    if (!same) std::exit(1);
    if (!profile) return;
    backend_.queue().start_profile();
    step(*state, 0, logits_);
    const auto kernels = backend_.queue().take_profile();
    std::printf("  calls, us a call with about 5 of timing, blocks, kernel:\n");
    for (const auto& k : kernels) {
      std::string name = k.kernel;
      const size_t cut = name.find("_cu_");
      if (cut != std::string::npos) name = name.substr(std::min(name.size(), cut + 12));
      std::printf("  %5lld x %6.1f %6u  %s\n", static_cast<long long>(k.calls),
                  k.ms * 1e3 / static_cast<double>(k.calls), k.blocks, name.substr(0, 50).c_str());
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
  double median_step(SequenceState& state, size_t count, bool check) {
    std::vector<double> times;
    for (size_t i = 0; i < count + 16; ++i) {
      const double t = now();
      step(state, i, logits_, check);
      if (i >= 16) times.push_back(now() - t);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
  void step(SequenceState& state, size_t i, std::vector<float>& logits, bool check = true) {
    logits.resize(static_cast<size_t>(config_.V));
    ReadOptions options;
    options.out = logits.data();
    const Status s = forward_->read(state, std::span(ids_).subspan(i, 1), options);
    if (check) must(s);
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

// Products of one row alone, through the backend, over enough weights that no cache holds them.
void bench_products(CudaBackend& b) {
  struct Shape {
    const char* name;
    WeightType type;
    int64_t rows, cols;
  };
  const Shape shapes[] = {
      {"vocabulary", WeightType::kQ8_0, 248320, 2560}, {"qkv and z", WeightType::kQ8_0, 16384, 2560},
      {"gdn out", WeightType::kQ8_0, 2560, 6144},      {"mixer down", WeightType::kQ8_0, 320, 10240},
      {"mixer up", WeightType::kQ8_0, 10240, 320},     {"shared down", WeightType::kQ8_0, 2560, 640},
      {"router", WeightType::kF32, 512, 2560},         {"inject", WeightType::kF32, 4, 10240}};
  std::mt19937 rng(1);
  std::vector<uint8_t> host;
  for (const Shape& s : shapes) {
    const size_t row_bytes = weight_row_bytes(s.type, s.cols),
                 bytes = static_cast<size_t>(s.rows) * row_bytes;
    const size_t copies = std::clamp<size_t>((size_t{700} << 20) / bytes, 1, 64);
    host.assign(bytes * copies, 0);
    for (size_t i = 0; i < host.size(); i += 61) host[i] = static_cast<uint8_t>(rng() & 0x3f);
    const auto* placed = static_cast<const uint8_t*>(must(b.place(host.data(), host.size())));
    const auto n = static_cast<size_t>(s.cols);
    float* x = static_cast<float*>(must(b.allocate(n * 4)));
    float* y = static_cast<float*>(must(b.allocate(static_cast<size_t>(s.rows) * 4)));
    ops::QuantizedRows q;
    q.codes = static_cast<int8_t*>(must(b.allocate(n)));
    q.d = static_cast<float*>(must(b.allocate(n / 8)));
    q.sums = static_cast<int16_t*>(must(b.allocate(n / 8)));
    const auto pass = [&] {
      for (size_t i = 0; i < copies; ++i) {
        b.run(ops::MatmulArgs{{placed + i * bytes, s.type, s.rows, s.cols, row_bytes}, x, q, y, 1, s.rows});
      }
      b.queue().flush();
    };
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    std::vector<float> times;
    for (int i = 0; i < 9; ++i) {
      cudaEventRecord(begin, b.queue().stream());
      for (int k = 0; k < 4; ++k) pass();
      cudaEventRecord(end, b.queue().stream());
      must(b.finish());
      float ms = 0;
      cudaEventElapsedTime(&ms, begin, end);
      if (i > 2) times.push_back(ms / 4 / static_cast<float>(copies));
    }
    std::sort(times.begin(), times.end());
    const double us = static_cast<double>(times[times.size() / 2]) * 1e3;
    std::printf("  %-12s %6lld x %5lld %8.2f us %6.2f TB/s\n", s.name, static_cast<long long>(s.rows),
                static_cast<long long>(s.cols), us, static_cast<double>(bytes) / us / 1e6);
  }
}

int run(int argc, char** argv) {
  ScopedFlushSubnormals flush;
  if (argc > 1 && std::strcmp(argv[1], "products") == 0)
    return bench_products(*must(CudaBackend::create(0))), 0;
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
