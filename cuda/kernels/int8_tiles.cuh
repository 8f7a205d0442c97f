// What kernels on the int8 tensor cores share (matmul_tiles.cu, experts_*.cu): fragments, the product of a
// block of 32 and the float steps after it, Q4_K's scales, rows of x by eights.
#pragma once

#include <type_traits>

#include "cuda/device.cuh"

namespace argon::cuda {

// The exact integer dots of a block of 32, as floats: 16 rows of W by 8 rows of x. (Sums that start from the
// bits of 1.5*2^23 need no conversion, but the instruction reads four registers more: slower here.)
__device__ inline void dots_of_block(const uint32_t* a, const uint32_t* b, float* dots) {
  int c[4];
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
#pragma unroll
  for (int i = 0; i < 4; ++i) dots[i] = static_cast<float>(c[i]);
}

// Bytes of a (0-3) and b (4-7) chosen by the low 4 nibbles of `by`, which are at most 7 (__byte_perm would
// make sure).
__device__ inline uint32_t choose(uint32_t a, uint32_t b, uint32_t by) {
  uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(by));
  return r;
}

__device__ inline void load_matrices(unsigned at, uint32_t* r) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

// One step of the contract's chain for rows lane/4 and lane/4 + 8 (sw[0], sw[1]) and two rows of x.
__device__ inline void add_step(float* acc, const float* dots, const float* sw, float d0, float d1) {
#pragma unroll
  for (int i = 0; i < 4; ++i) acc[i] = __fmaf_rn(sw[i / 2] * (i % 2 == 0 ? d0 : d1), dots[i], acc[i]);
}
// With a minimum; d holds the steps of two rows of x, then the sums of their codes.
__device__ inline void add_min(float* acc, const float* dots, const float* sw, const float* mw,
                               const float4& d) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float di = i % 2 == 0 ? d.x : d.y, sum = i % 2 == 0 ? d.z : d.w;
    acc[i] = __fmaf_rn(sw[i / 2] * di, dots[i], acc[i]);
    acc[i] = __fmaf_rn(-(mw[i / 2] * di), sum, acc[i]);
  }
}

// Bytes as floats: put below the exponent of 2^23. The constants are in registers, as an instruction takes
// one.
struct ByteFloats {
  uint32_t select[4];
  __device__ ByteFloats() {
    asm volatile("mov.b32 %0, 0x7440;" : "=r"(select[0]));
    asm volatile("mov.b32 %0, 0x7441;" : "=r"(select[1]));
    asm volatile("mov.b32 %0, 0x7442;" : "=r"(select[2]));
    asm volatile("mov.b32 %0, 0x7443;" : "=r"(select[3]));
  }
  __device__ float of(uint32_t bytes, int i) const {
    return __uint_as_float(choose(bytes, 0x4b000000u, select[i])) - 8388608.0f;
  }
};

// Six-bit scales and minima of a row's 8 blocks (formats/q4_k.h), one to a byte, and their steps.
struct Q4_KHead {
  uint32_t scales[2], minima[2];  // of blocks 0-3, 4-7
  float2 d;
  __device__ explicit Q4_KHead(const int4& head)
      : d(__half22float2(*reinterpret_cast<const __half2*>(&head.x))) {
    const auto y = static_cast<uint32_t>(head.y), z = static_cast<uint32_t>(head.z),
               w = static_cast<uint32_t>(head.w);
    scales[0] = y & 0x3f3f3f3fu;
    minima[0] = z & 0x3f3f3f3fu;
    scales[1] = (w & 0x0f0f0f0fu) | (y >> 2 & 0x30303030u);
    minima[1] = (w >> 4 & 0x0f0f0f0fu) | (z >> 2 & 0x30303030u);
  }
  // Of block i of the four in these words: scale and minimum.
  __device__ float2 step(const ByteFloats& f, uint32_t scale, uint32_t minimum, int i) const {
    return make_float2(d.x * f.of(scale, i), d.y * f.of(minimum, i));
  }
};

// Rows of x that a block takes next of the `left` rows of an expert: at most kCols, whole eights, about the
// same number each time.
template <int kCols>
__device__ inline int next_rows(int left) {
  const int eights = (left + 7) / 8, times = (eights + kCols / 8 - 1) / (kCols / 8);
  return min(left, (eights + times - 1) / times * 8);
}

// Calls f with the number of eights that `count` rows fill, 1 to kMost, as a constant.
template <int kMost, class F>
__device__ inline void by_eights(int count, F f) {
  if constexpr (kMost > 1) {
    if (count <= 8 * (kMost - 1)) return by_eights<kMost - 1>(count, f);
  }
  f(std::integral_constant<int, kMost>{});
}

// Shared memory of a block that the device allows (the smaller chips of the 8.x series: 99 KiB).
inline size_t most_shared() {
  static const size_t most = [] {
    int device = 0, bytes = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return static_cast<size_t>(bytes);
  }();
  return most;
}

}  // namespace argon::cuda
