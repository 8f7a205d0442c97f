// Speed of the CUDA backend on a synthetic model at the published widths: reading prompts, writing, and
// single operations. Run the parity tests first; this program checks no results.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "cuda/bench/bench.h"
#include "cuda/cuda_backend.h"
#include "model/forward.h"
#include "model/model.h"
#include "model/synth.h"

namespace argon {
namespace {

// Median microseconds of one call of f, timed by events over `calls` calls in each of 7 samples.
template <class F>
double microseconds(CudaBackend& b, int calls, F f) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<double> all;
  for (int sample = 0; sample < 8; ++sample) {
    b.queue().flush();
    cudaEventRecord(begin, b.queue().stream());
    for (int i = 0; i < calls; ++i) f();
    b.queue().flush();
    cudaEventRecord(end, b.queue().stream());
    must(b.finish());
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (sample > 0) all.push_back(ms * 1e3 / calls);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

float* random_floats(CudaBackend& b, size_t n, float low, float high) {
  // A million values, again and again: drawing all of them would take longer than what is timed.
  constexpr size_t kDrawn = size_t{1} << 20;
  std::vector<float> host(n);
  std::mt19937 rng(1);
  std::uniform_real_distribution<float> d(low, high);
  for (size_t i = 0; i < n; ++i) host[i] = i < kDrawn ? d(rng) : host[i - kDrawn];
  float* p = static_cast<float*>(must(b.allocate(n * sizeof(float))));
  b.write(p, host.data(), n * sizeof(float));
  return p;
}

void bench_scan(CudaBackend& b) {
  const size_t bytes = size_t{1} << 30;
  void* from = must(b.allocate(bytes));
  void* to = must(b.allocate(bytes));
  const double us = microseconds(b, 4, [&] { b.copy(to, from, bytes); });
  std::printf("copy %.2f TB/s (read + write)\n", 2.0 * static_cast<double>(bytes) / us / 1e6);
  b.free(from, bytes);
  b.free(to, bytes);
  const int64_t most = 32768, hk = 16, hv = 48, D = 128;
  const auto n = [](int64_t x) { return static_cast<size_t>(x); };
  float* qn = random_floats(b, n(most * hk * D), -0.01f, 0.01f);
  float* kn = random_floats(b, n(most * hk * D), -0.1f, 0.1f);
  float* vc = random_floats(b, n(most * hv * D), -1, 1);
  float* gb = random_floats(b, n(most * hv * 2), 0, 1);
  float* kq = random_floats(b, n(most * hk), -0.1f, 0.1f);
  float* state = random_floats(b, n(hv * D * D), -1, 1);
  float* o = random_floats(b, n(most * hv * D), 0, 1);
  for (int64_t T : {1, 16, 64, 512, 1024, 2048, 8192, 32768}) {
    const ops::GdnScanArgs a{{T, hk, hv, D}, qn, kn, vc, gb, kq, state, o};
    const double t = microseconds(b, T <= 64 ? 64 : 4, [&] { b.run(a); });
    std::printf("gdn_scan T %6lld: %9.1f us\n", static_cast<long long>(T), t);
  }
}

// Weights of standard deviation 1/sqrt(K), `copies` matrices of the same values.
ops::WeightMatrix random_weights(CudaBackend& b, WeightType type, int64_t M, int64_t K, int64_t copies = 1) {
  static std::vector<std::vector<std::byte>> kept;  // placed memory must stay
  const size_t row = weight_row_bytes(type, K);
  const size_t bytes = static_cast<size_t>(M) * row;
  kept.emplace_back(bytes * static_cast<size_t>(copies));
  auto& data = kept.back();
  fill_random(type, 1 / std::sqrt(static_cast<double>(K)), kept.size(), std::span(data).first(bytes));
  for (size_t i = 1; i < static_cast<size_t>(copies); ++i)
    std::copy_n(data.begin(), bytes, data.begin() + static_cast<std::ptrdiff_t>(i * bytes));
  return {must(b.place(data.data(), data.size())), type, M, K, row};
}

ops::QuantizedRows quantized(CudaBackend& b, const float* x, int64_t T, int64_t K) {
  const auto n = static_cast<size_t>(T * K);
  ops::QuantizedRows q;
  q.codes = static_cast<int8_t*>(must(b.allocate(n)));
  q.d = static_cast<float*>(must(b.allocate(n / 8)));
  q.sums = static_cast<int16_t*>(must(b.allocate(n / 8)));
  b.run(ops::QuantizeArgs{x, q, T, K});
  return q;
}

// The products of a prompt pass, each alone; the weights of one matrix repeated, so small ones stay in L2.
void bench_products(CudaBackend& b) {
  struct Shape {
    WeightType type;
    int64_t M, K, experts;
  };
  const int64_t most = 2048, slots = 10;
  const float* x = random_floats(b, static_cast<size_t>(most * 10240), -1, 1);
  auto* y = static_cast<float*>(must(b.allocate(static_cast<size_t>(most * slots * 12288) * 4)));
  for (const Shape& s : {Shape{WeightType::kQ8_0, 10240, 2560, 0}, Shape{WeightType::kQ8_0, 2560, 6144, 0},
                         Shape{WeightType::kQ8_0, 320, 10240, 0}, Shape{WeightType::kQ8_0, 10240, 320, 0},
                         Shape{WeightType::kQ8_0, 640, 2560, 0}, Shape{WeightType::kQ4_K, 640, 2560, 512},
                         Shape{WeightType::kIQ4_NL, 2560, 640, 512}, Shape{WeightType::kF32, 512, 2560, 0},
                         Shape{WeightType::kF32, 48, 2560, 0}, Shape{WeightType::kF32, 4, 10240, 0}}) {
    const ops::WeightMatrix w = random_weights(b, s.type, s.M, s.K, std::max<int64_t>(s.experts, 1));
    for (int64_t T : {512, 2048}) {
      double us = 0, portable = 0;
      const auto time = [&](int calls, auto f) {
        b.queue().use_groups(false);
        portable = microseconds(b, calls, f);
        b.queue().use_groups(true);
        us = microseconds(b, calls, f);
      };
      const int64_t rows = s.experts > 0 ? T * slots : T;
      const ops::QuantizedRows q = quantized(b, x, s.experts > 0 && s.K == 640 ? rows : T, s.K);
      if (s.experts > 0) {
        std::mt19937 rng(5);
        std::vector<std::vector<int32_t>> of(static_cast<size_t>(s.experts));
        for (int64_t i = 0; i < rows; ++i) of[rng() % of.size()].push_back(static_cast<int32_t>(i / slots));
        std::vector<int32_t> begin{0}, row;
        for (const auto& e : of) {
          row.insert(row.end(), e.begin(), e.end());
          begin.push_back(static_cast<int32_t>(row.size()));
        }
        auto* begins = static_cast<int32_t*>(must(b.allocate(begin.size() * 4)));
        auto* from = static_cast<int32_t*>(must(b.allocate(row.size() * 4)));
        b.write(begins, begin.data(), begin.size() * 4);
        b.write(from, row.data(), row.size() * 4);
        const ops::MatmulGroupedArgs a{{w, s.experts, static_cast<size_t>(s.M) * w.row_bytes},
                                       x,
                                       q,
                                       begins,
                                       s.K == 640 ? nullptr : from,
                                       y,
                                       rows};
        time(4, [&] { b.run(a); });
      } else {
        time(8, [&] { b.run(ops::MatmulArgs{w, x, q, y, T, s.M}); });
      }
      std::printf("%-8s %6lld x %6lld%s T %5lld: %8.1f us, %6.1f T op/s (without warpgroups %8.1f us)\n",
                  std::string(weight_type_name(s.type)).c_str(), static_cast<long long>(s.M),
                  static_cast<long long>(s.K), s.experts > 0 ? " experts" : "", static_cast<long long>(T), us,
                  2e-6 * static_cast<double>(s.M * s.K * rows) / us, portable);
    }
  }
}

// Selection and attention of a pass of 2048 tokens that ends at `context`.
void bench_attention(CudaBackend& b) {
  const int64_t T = 2048, longest = 131072, nq = 24, nkv = 2, dh = 256, ni = 4, di = 128, r = 4, budget = 512;
  const auto n = [](int64_t x) { return static_cast<size_t>(x); };
  const float* q = random_floats(b, n(T * nq * 2 * dh), -1, 1);
  const float* iq = random_floats(b, n(T * ni * di), -1, 1);
  const float* keys = random_floats(b, n(longest / r * di), -1, 1);
  float* kv32 = random_floats(b, n(longest * nkv * dh), -1, 1);
  auto* kv = must(b.allocate(n(longest * nkv * dh) * 2));
  b.run(ops::KvStoreArgs{kv32, nkv * dh, kv, ops::KvType::kF16, longest, nkv * dh, 0});
  auto* kept = static_cast<int32_t*>(must(b.allocate(n(T * budget) * 4)));
  auto* count = static_cast<int32_t*>(must(b.allocate(n(T) * 4)));
  auto* out = static_cast<float*>(must(b.allocate(n(T * nq * dh) * 4)));
  for (int64_t context : {int64_t{2048}, int64_t{8192}, int64_t{32768}, longest}) {
    const ops::QsaSelectArgs s{iq, keys, kept, count, T, context - T, ni, di, r, budget};
    const double select = microseconds(b, 1, [&] { b.run(s); });
    const ops::QsaAttentionArgs a{q,  kv, kv,    ops::KvType::kF16, kept, count, out, T, context - T, nq, nkv,
                                  dh, r,  budget};
    const double attention = microseconds(b, 1, [&] { b.run(a); });
    std::printf("context %6lld: select %9.1f us, attention %9.1f us\n", static_cast<long long>(context),
                select, attention);
  }
}

void bench_model(CudaBackend& b, const std::string& path, int64_t layers, int64_t longest, int64_t pass) {
  auto model = must(Model::load(path, b));
  ModelConfig config = model->config();
  Weights weights;
  weights.embed = model->weights().embed;
  weights.output = model->weights().output;
  weights.tied_output = model->weights().tied_output;
  weights.table = model->weights().table;
  weights.head_mix = model->weights().head_mix;
  // A deeper model from the file's layers, taken again and again: the same work and the same bytes read per
  // token as a file of that depth.
  for (int64_t l = 0; l < layers; ++l) {
    const auto& from = model->weights().layers;
    const size_t at = static_cast<size_t>(l) % from.size();
    weights.layers.push_back(from[at]);
  }
  config.L = layers;
  const int64_t context = longest + 256;
  double t = now();
  auto forward = must(Forward::create(config, weights, b, pass, context));
  std::printf("%lld layers, placed in %.1f s\n", static_cast<long long>(layers), now() - t);
  std::vector<int32_t> ids(static_cast<size_t>(longest));
  std::mt19937 rng(3);
  for (int32_t& id : ids) id = static_cast<int32_t>(rng() % static_cast<uint32_t>(config.V));
  std::vector<float> logits(static_cast<size_t>(config.V));
  ReadOptions options;
  options.out = logits.data();
  for (int64_t T : {512, 2048, 8192, 32768, 131072}) {
    if (T > longest) break;
    double best = 1e9;
    std::unique_ptr<SequenceState> state;
    for (int repeat = 0; repeat < (T > 8192 ? 1 : 3); ++repeat) {
      state.reset();
      state = must(SequenceState::create(config, b, context, ops::KvType::kF16));
      t = now();
      must(forward->read(*state, std::span(ids).first(static_cast<size_t>(T)), options));
      best = std::min(best, now() - t);
    }
    std::vector<double> steps;
    for (int i = 0; i < 72; ++i) {
      t = now();
      must(forward->read(*state, std::span(ids).subspan(static_cast<size_t>(i), 1), options));
      if (i >= 16) steps.push_back(now() - t);
    }
    std::sort(steps.begin(), steps.end());
    const double step = steps[steps.size() / 2];
    std::printf("prompt %6lld: %8.1f ms %8.0f tokens/s;  step after it %7.3f ms %6.1f tokens/s; logit %g\n",
                static_cast<long long>(T), best * 1e3, static_cast<double>(T) / best, step * 1e3, 1 / step,
                static_cast<double>(logits[0]));
    std::fflush(stdout);
    if (T > 8192) continue;
    // Where the time goes: each kernel timed alone (launches without overlap: the sums exceed the pass).
    for (const bool step_pass : {false, true}) {
      if (!step_pass) state = must(SequenceState::create(config, b, context, ops::KvType::kF16));
      b.queue().start_profile();
      must(forward->read(*state, std::span(ids).first(step_pass ? 1 : static_cast<size_t>(T)), options));
      const auto times = b.queue().take_profile();
      double all = 0;
      int64_t launches = 0;
      for (const auto& one : times) all += one.ms, launches += one.calls;
      std::printf("  a %s: %.2f ms in %lld kernels\n", step_pass ? "step" : "prompt", all,
                  static_cast<long long>(launches));
      for (size_t i = 0; i < std::min<size_t>(times.size(), step_pass ? 14 : 30); ++i) {
        std::string name = times[i].kernel;
        const size_t cut = name.find("_cu_");
        if (cut != std::string::npos) name = name.substr(std::min(name.size(), cut + 12));
        std::printf("  %9.3f ms %6lld x %s, %u blocks\n", times[i].ms, static_cast<long long>(times[i].calls),
                    name.substr(0, 48).c_str(), times[i].blocks);
      }
    }
  }
}

int run(int argc, char** argv) {
  ScopedFlushSubnormals flush;
  auto b = must(CudaBackend::create(0));
  const std::string what = argc > 1 ? argv[1] : "scan";
  if (what == "scan") return bench_scan(*b), 0;
  if (what == "products") return bench_products(*b), 0;
  if (what == "attention") return bench_attention(*b), 0;
  if (what == "make" && argc >= 4) {
    SynthOptions o;
    o.config = synth_real_sizes(std::atoi(argv[3]));
    o.gate_up = WeightType::kQ4_K;
    o.down = WeightType::kIQ4_NL;
    if (argc > 4) o.config.E = std::atoi(argv[4]);
    const double t = now();
    must(write_synthetic(argv[2], o));
    std::printf("wrote %s, %.1f GB, %.1f s\n", argv[2],
                static_cast<double>(std::filesystem::file_size(argv[2])) / 1e9, now() - t);
    return 0;
  }
  if (what == "model" && argc >= 5) {
    const bool graphs = argc <= 5 || std::strcmp(argv[5], "nograph") != 0;
    b->queue().use_graphs(graphs);
    bench_model(*b, argv[2], std::atoi(argv[3]), std::atoi(argv[4]),
                argc > 5 && graphs ? std::atoi(argv[5]) : 2048);
    return 0;
  }
  std::fprintf(stderr,
               "cuda_bench scan | products | attention | make FILE LAYERS [EXPERTS] | model FILE LAYERS "
               "LONGEST [nograph | PASS]\n");
  return 2;
}

}  // namespace
}  // namespace argon

int main(int argc, char** argv) { return argon::run(argc, argv); }
