// Instructions of compute capability 9.0: what the warpgroup products are made of.
#pragma once

#include <cuda.h>

#include "cuda/kernels/copy_async.cuh"

namespace argon::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Rows of 128 bytes from `p` on (a multiple of 1024 in eights of rows), chunk c of 16 bytes at c ^ (row & 7);
// a block of 32 further on is 2 more, a row 8 more.
__device__ inline uint64_t rows_of_128(const void* p) {
  const unsigned low = __shfl_sync(kAllLanes, (shared_at(p) & 0x3ffffu) >> 4 | 1u << 16, 0);
  return low | uint64_t{64} << 32 | uint64_t{1} << 62;
}
// Before a product: registers that it reads are written. After: its sums belong to it until they are waited
// for.
__device__ inline void begin_sums() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_sums() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wait_for_sums() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Keeps the compiler from moving uses of c across this point.
template <int kCount>
__device__ inline void hold(int* c) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(c[i])::"memory");
}

// c = the dots of 64 rows of w with 64 rows of x, 32 codes each; c lies as in m16n8k32, an eight of columns
// after the other.
__device__ inline void group_dot(int (&c)[32], uint64_t w, uint64_t x) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 0;"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
        "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
        "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]),
        "+r"(c[23]), "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]),
        "+r"(c[30]), "+r"(c[31])
      : "l"(w), "l"(x));
}
__device__ inline void group_dot(int (&c)[64], uint64_t w, uint64_t x) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 0;"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
        "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
        "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]),
        "+r"(c[23]), "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]),
        "+r"(c[30]), "+r"(c[31]), "+r"(c[32]), "+r"(c[33]), "+r"(c[34]), "+r"(c[35]), "+r"(c[36]),
        "+r"(c[37]), "+r"(c[38]), "+r"(c[39]), "+r"(c[40]), "+r"(c[41]), "+r"(c[42]), "+r"(c[43]),
        "+r"(c[44]), "+r"(c[45]), "+r"(c[46]), "+r"(c[47]), "+r"(c[48]), "+r"(c[49]), "+r"(c[50]),
        "+r"(c[51]), "+r"(c[52]), "+r"(c[53]), "+r"(c[54]), "+r"(c[55]), "+r"(c[56]), "+r"(c[57]),
        "+r"(c[58]), "+r"(c[59]), "+r"(c[60]), "+r"(c[61]), "+r"(c[62]), "+r"(c[63])
      : "l"(w), "l"(x));
}

// Barriers in shared memory whose phases end when `count` arrivals have come.
__device__ inline void make_barrier(uint64_t* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(count) : "memory");
}
__device__ inline void arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(b)) : "memory");
}
// Before other threads and copies of whole tiles use new barriers; then a barrier of the block.
__device__ inline void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// An arrival; the phase also waits for `bytes` of copy_tile.
__device__ inline void arrive_with(uint64_t* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(b)), "r"(bytes)
               : "memory");
}
// The box of a map (in the kernel's parameters) from `byte` of row `row` on, as rows_of_128 expects it; zeros
// where the matrix has ended.
__device__ inline void copy_tile(void* to, const CUtensorMap* map, int byte, int row, uint64_t* b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(shared_at(to)),
      "l"(map), "r"(byte), "r"(row), "r"(shared_at(b))
      : "memory");
}
// Until the phase of this parity has ended.
__device__ inline void wait_for_phase(uint64_t* b, unsigned parity) {
  uint32_t done = 0;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_at(b)), "r"(parity)
        : "memory");
  } while (done == 0);
}
// Of the 128 threads of a warpgroup; `which` from 1 on.
__device__ inline void sync_group(int which) { asm volatile("bar.sync %0, 128;" ::"r"(which) : "memory"); }
// Of kGroups warpgroups.
template <int kGroups>
__device__ inline void sync_groups() {
  asm volatile("bar.sync 15, %0;" ::"n"(kGroups * 128) : "memory");
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#endif

}  // namespace argon::cuda
