// The kernels of a prompt pass that move activations: time, counted bytes (every input read once, every
// output written once) and their share of the copy bandwidth, which is measured first; and the GDN scan. Run
// the parity tests first; this program checks no results.
//
//   cuda_stream_bench [TOKENS]     2048 by default
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "cuda/bench/bench.h"
#include "cuda/cuda_backend.h"

namespace argon {
namespace {

constexpr int64_t kC = 4, kH = 2560, kR = 320, kSlots = 10, kF = 640, kHk = 16, kHv = 48, kD = 128;

class Bench {
 public:
  explicit Bench(CudaBackend& b) : b_(b) {
    const size_t bytes = size_t{1} << 30;
    void* from = must(b.allocate(bytes));
    void* to = must(b.allocate(bytes));
    copy_ = 2.0 * static_cast<double>(bytes) / microseconds(4, [&] { b_.copy(to, from, bytes); });
    std::printf("copy %.2f TB/s (read + write)\n", copy_ / 1e6);
    b.free(from, bytes);
    b.free(to, bytes);
  }

  float* floats(int64_t n, float low = -1.0f, float high = 1.0f) {
    std::vector<float> host(static_cast<size_t>(n));
    std::uniform_real_distribution<float> d(low, high);
    for (float& x : host) x = d(rng_);
    auto* p = static_cast<float*>(must(b_.allocate(host.size() * sizeof(float))));
    b_.write(p, host.data(), host.size() * sizeof(float));
    return p;
  }
  int32_t* slots(int64_t n) {
    std::vector<int32_t> host(static_cast<size_t>(n));
    for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int32_t>(i);
    std::shuffle(host.begin(), host.end(), rng_);
    auto* p = static_cast<int32_t*>(must(b_.allocate(host.size() * sizeof(int32_t))));
    b_.write(p, host.data(), host.size() * sizeof(int32_t));
    return p;
  }
  ops::QuantizedRows quantized(int64_t n) {
    ops::QuantizedRows q;
    q.codes = static_cast<int8_t*>(must(b_.allocate(static_cast<size_t>(n))));
    q.d = static_cast<float*>(must(b_.allocate(static_cast<size_t>(n / 8))));
    q.sums = static_cast<int16_t*>(must(b_.allocate(static_cast<size_t>(n / 8))));
    return q;
  }
  // Bytes of the quantised form of n values.
  static int64_t code_bytes(int64_t n) { return n + n / 32 * 8; }

  template <class Args>
  void row(const char* name, int64_t bytes, const Args& a) {
    const double us = microseconds(8, [&] { b_.run(a); });
    print(name, bytes, us);
  }
  void print(const char* name, int64_t bytes, double us) const {
    std::printf("%-28s %8.1f us %8.1f MB %6.2f TB/s %5.1f %% of the copy\n", name, us,
                static_cast<double>(bytes) / 1e6, static_cast<double>(bytes) / us / 1e6,
                100.0 * static_cast<double>(bytes) / us / copy_);
  }

  // Median of one call of f, by events round `calls` calls, 7 samples after one.
  template <class F>
  double microseconds(int calls, F f) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    std::vector<double> all;
    for (int sample = 0; sample < 8; ++sample) {
      b_.queue().flush();
      cudaEventRecord(begin, b_.queue().stream());
      for (int i = 0; i < calls; ++i) f();
      b_.queue().flush();
      cudaEventRecord(end, b_.queue().stream());
      must(b_.finish());
      float ms = 0;
      cudaEventElapsedTime(&ms, begin, end);
      if (sample > 0) all.push_back(ms * 1e3 / calls);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }

 private:
  CudaBackend& b_;
  std::mt19937 rng_{1};
  double copy_ = 0;  // bytes a microsecond
};

void streams(Bench& bench, CudaBackend& b, int64_t T) {
  const int64_t wide = T * kC * kH, narrow = T * kH;
  float *x = bench.floats(wide), *n = bench.floats(wide), *up = bench.floats(wide), *h = bench.floats(narrow),
        *out = bench.floats(narrow);
  const float *w = bench.floats(kC * kH), *inj = bench.floats(T * kC), *shared = bench.floats(narrow),
              *sg = bench.floats(T, 0), *weight = bench.floats(T * kSlots, 0),
              *y = bench.floats(T * kSlots * kH);
  const ops::QuantizedRows nq = bench.quantized(wide), hq = bench.quantized(narrow);
  std::printf("%lld tokens\n", static_cast<long long>(T));
  ops::GrNormArgs norm{x, w, nullptr, nullptr, n, T, kC, kH, 1e-6f, nq};
  bench.row("gr_norm, quantising", 8 * wide + Bench::code_bytes(wide), norm);
  norm.b = out, norm.inj = inj;
  const int64_t norm_bytes = 12 * wide + 4 * narrow + Bench::code_bytes(wide);
  bench.row("gr_norm, adding, quantising", norm_bytes, norm);
  bench.row("gr_apply", 8 * wide + 4 * narrow, ops::GrApplyArgs{x, out, inj, T, kC, kH});
  bench.row("gr_mix, quantising", 8 * wide + 4 * narrow + Bench::code_bytes(narrow),
            ops::GrMixArgs{up, n, h, T, kC, kH, hq});
  const ops::MoeCombineArgs combine{y, bench.slots(T * kSlots), weight, shared, sg, out, T, kSlots, kH};
  bench.row("moe_combine", 4 * narrow * (kSlots + 2), combine);
  // Together the sum of the experts need not go to memory.
  bench.print("moe_combine and gr_norm", norm_bytes - 4 * narrow + 4 * narrow * (kSlots + 1),
              bench.microseconds(8, [&] { b.run_combined_norm(combine, norm); }));
  float* lo = bench.floats(T * kR);
  bench.row("gr_gate, quantising", 8 * T * kR + Bench::code_bytes(T * kR),
            ops::GrGateArgs{lo, nullptr, T, kC, kR, bench.quantized(T * kR)});
  float* g = bench.floats(T * kSlots * kF);
  const float* u = bench.floats(T * kSlots * kF);
  bench.row("swiglu, quantising", 12 * T * kSlots * kF + Bench::code_bytes(T * kSlots * kF),
            ops::SwigluArgs{g, u, g, T * kSlots, kF, bench.quantized(T * kSlots * kF)});
}

void delta(Bench& bench, int64_t T) {
  const ops::GdnShape s{T, kHk, kHv, kD};
  const int64_t ch = channels(s), keys = T * kHk * kD, values = T * kHv * kD;
  float *qn = bench.floats(keys, -0.01f, 0.01f), *kn = bench.floats(keys, -0.1f, 0.1f),
        *vc = bench.floats(values), *gb = bench.floats(T * kHv * 2, 0), *kq = bench.floats(T * kHk),
        *o = bench.floats(values);
  bench.row("gdn_pre", 4 * (T * ch + 2 * keys + values),
            ops::GdnPreArgs{s, bench.floats(T * ch), bench.floats(T * kHv), bench.floats(T * kHv),
                            bench.floats(ch * 4), bench.floats(kHv, -4, 0), bench.floats(kHv),
                            bench.floats(3 * ch), qn, kn, vc, gb, kq, 1e-6f});
  bench.row("gdn_post, quantising", 12 * values + Bench::code_bytes(values),
            ops::GdnPostArgs{s, o, bench.floats(values), bench.floats(kD), bench.floats(values), 1e-6f,
                             bench.quantized(values)});
}

void scan(Bench& bench, CudaBackend& b) {
  const int64_t most = 8192;
  const float *qn = bench.floats(most * kHk * kD, -0.01f, 0.01f),
              *kn = bench.floats(most * kHk * kD, -0.1f, 0.1f), *vc = bench.floats(most * kHv * kD),
              *gb = bench.floats(most * kHv * 2, 0), *kq = bench.floats(most * kHk);
  float *state = bench.floats(kHv * kD * kD), *o = bench.floats(most * kHv * kD);
  for (int64_t T : {1, 16, 64, 512, 1024, 2048, 8192}) {
    const ops::GdnScanArgs a{{T, kHk, kHv, kD}, qn, kn, vc, gb, kq, state, o};
    const double us = bench.microseconds(T <= 64 ? 64 : 4, [&] { b.run(a); });
    const double operations = 4.0 * static_cast<double>(T * kHv * kD * kD);
    std::printf("gdn_scan T %5lld: %8.1f us, %5.2f T operations/s\n", static_cast<long long>(T), us,
                operations / us / 1e6);
  }
}

int run(int argc, char** argv) {
  ScopedFlushSubnormals flush;
  const int64_t T = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2048;
  auto b = must(CudaBackend::create(0));
  Bench bench(*b);
  scan(bench, *b);
  streams(bench, *b, T);
  delta(bench, T);
  return 0;
}

}  // namespace
}  // namespace argon

int main(int argc, char** argv) { return argon::run(argc, argv); }
