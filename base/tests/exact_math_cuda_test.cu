// The goldens of base/exact_math.h and correctly rounded fma on an NVIDIA GPU. CMake does not build it; on a
// machine with a GPU:
//   nvcc -std=c++17 -O2 --fmad=false --ftz=true --prec-div=true -I. -Xcompiler -mfma,-ffp-contract=off \
//     base/tests/exact_math_cuda_test.cu -o /tmp/exact_math_cuda_test && /tmp/exact_math_cuda_test
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/fp_env.h"
#include "base/half.h"
#include "base/tests/checksum.h"
#include "base/tests/exact_math_golden.h"
#include "base/tests/fma_cases.h"

namespace argon::testing {
namespace {

__device__ float apply(MathFn fn, float x) {
  switch (fn) {
    case MathFn::kExp:
      return exp32(x);
    case MathFn::kLog:
      return log32(x);
    case MathFn::kLog1p:
      return log1p32(x);
    case MathFn::kSigmoid:
      return sigmoid32(x);
    case MathFn::kSilu:
      return silu32(x);
    default:
      return softplus32(x);
  }
}

__global__ void sum_kernel(MathFn fn, unsigned long long* sum) {
  unsigned long long own = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kSampleSize; i += gridDim.x * blockDim.x) {
    own += mixed(i, f32_bits(apply(fn, sample(i))));
  }
  atomicAdd(sum, own);
}

__global__ void fma_kernel(const float* a, const float* b, const float* c, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = fma32(a[i], b[i], c[i]);
}

__global__ void half_kernel(float* wide, uint16_t* back) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  wide[i] = f16_to_f32(static_cast<uint16_t>(i));
  back[i] = f32_to_f16(f32_from_bits(i * 65537u));
}

int run() {
  int failures = 0;
  unsigned long long* sum = nullptr;
  cudaMalloc(&sum, sizeof *sum);
  for (MathFn fn : kMathFns) {
    unsigned long long got = 0;
    cudaMemset(sum, 0, sizeof *sum);
    sum_kernel<<<256, 256>>>(fn, sum);
    const bool ok =
        cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess && got == golden(fn);
    std::printf("function %d: %016llx %s\n", static_cast<int>(fn), got, ok ? "equal" : "DIFFERENT");
    failures += !ok;
  }

  constexpr int n = 1 << 24;
  std::vector<float> host[4];
  float* device[4];
  for (int k = 0; k < 4; ++k) {
    host[k].resize(n);
    cudaMalloc(&device[k], n * sizeof(float));
  }
  FmaCases cases(3);
  for (int i = 0; i < n; ++i) cases.next(host[0][i], host[1][i], host[2][i]);
  for (int k = 0; k < 3; ++k)
    cudaMemcpy(device[k], host[k].data(), n * sizeof(float), cudaMemcpyHostToDevice);
  fma_kernel<<<n / 256, 256>>>(device[0], device[1], device[2], device[3], n);
  cudaMemcpy(host[3].data(), device[3], n * sizeof(float), cudaMemcpyDeviceToHost);
  long wrong = 0;
  for (int i = 0; i < n; ++i) {
    const float want = std::fmaf(host[0][i], host[1][i], host[2][i]);
    if (f32_bits(want) == f32_bits(host[3][i]) || (std::isnan(want) && std::isnan(host[3][i]))) continue;
    if (wrong++ < 5) {
      std::printf("fma(%a, %a, %a) = %a, wanted %a\n", host[0][i], host[1][i], host[2][i], host[3][i], want);
    }
  }
  std::printf("fma: %ld of %d differ\n", wrong, n);
  failures += wrong != 0;

  float* wide = nullptr;
  uint16_t* back = nullptr;
  cudaMalloc(&wide, 65536 * sizeof(float));
  cudaMalloc(&back, 65536 * sizeof(uint16_t));
  half_kernel<<<256, 256>>>(wide, back);
  std::vector<float> w(65536);
  std::vector<uint16_t> b(65536);
  cudaMemcpy(w.data(), wide, 65536 * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(b.data(), back, 65536 * sizeof(uint16_t), cudaMemcpyDeviceToHost);
  wrong = 0;
  for (uint32_t i = 0; i < 65536; ++i) {
    wrong += f32_bits(w[i]) != f32_bits(f16_to_f32(static_cast<uint16_t>(i)));
    wrong += b[i] != f32_to_f16(f32_from_bits(i * 65537u));
  }
  std::printf("f16: %ld differ\n", wrong);
  return failures + (wrong != 0);
}

}  // namespace
}  // namespace argon::testing

int main() {
  argon::ScopedFlushSubnormals flush;
  return argon::testing::run() == 0 ? 0 : 1;
}
