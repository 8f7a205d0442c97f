// metal_stdlib for the dialect pass: C++ for OpenCL with Metal's address spaces mapped to its own. Nothing
// here runs; this pass only refuses what a Metal compiler would refuse and the executor's C++ would let
// through: a pointer in the wrong address space, double, function pointers, virtual functions, new, and so
// on.
#pragma clang system_header
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

#define device __global
#define constant __constant
#define threadgroup __local
#define thread __private
#define atomic_uint argon_atomic_uint
#define atomic_int argon_atomic_int

#include "metal/executor/shim/types.h"

template <class T>
__local T& argon_threadgroup_variable();
template <class T, class U>
T as_type(U);

struct atomic_uint {
  uint value;
};
struct atomic_int {
  int value;
};

namespace metal {

#include "metal/executor/shim/math.h"

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
mem_flags operator|(mem_flags a, mem_flags b);
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);

template <class T>
T simd_shuffle(T, ushort);
template <class T>
T simd_broadcast(T, ushort);
template <class T>
T simd_broadcast_first(T);
template <class T>
T simd_shuffle_xor(T, ushort);
template <class T>
T simd_shuffle_down(T, ushort);
template <class T>
T simd_shuffle_up(T, ushort);
#define ARGON_FOLD(name) \
  template <class T>     \
  T name(T);
ARGON_FOLD(simd_sum)
ARGON_FOLD(simd_product)
ARGON_FOLD(simd_min)
ARGON_FOLD(simd_max)
ARGON_FOLD(simd_and)
ARGON_FOLD(simd_or)
ARGON_FOLD(simd_xor)
ARGON_FOLD(simd_prefix_exclusive_sum)
ARGON_FOLD(simd_prefix_inclusive_sum)

// Only the explicit conversion to its bits; any() and all() are simd_any and simd_all.
enum class simd_vote : ulong {};
simd_vote simd_ballot(bool);
bool simd_all(bool);
bool simd_any(bool);

enum memory_order { memory_order_relaxed };
#define ARGON_ATOMIC(name, SPACE, A, T) T name(SPACE A*, T, memory_order);
#define ARGON_ATOMICS(name)                       \
  ARGON_ATOMIC(name, __global, atomic_uint, uint) \
  ARGON_ATOMIC(name, __local, atomic_uint, uint)  \
  ARGON_ATOMIC(name, __global, atomic_int, int)   \
  ARGON_ATOMIC(name, __local, atomic_int, int)
ARGON_ATOMICS(atomic_fetch_add_explicit)
ARGON_ATOMICS(atomic_fetch_sub_explicit)
ARGON_ATOMICS(atomic_fetch_or_explicit)
ARGON_ATOMICS(atomic_fetch_and_explicit)
ARGON_ATOMICS(atomic_fetch_xor_explicit)
ARGON_ATOMICS(atomic_exchange_explicit)
void atomic_store_explicit(__global atomic_uint*, uint, memory_order);
void atomic_store_explicit(__local atomic_uint*, uint, memory_order);
void atomic_store_explicit(__global atomic_int*, int, memory_order);
void atomic_store_explicit(__local atomic_int*, int, memory_order);
uint atomic_load_explicit(const __global atomic_uint*, memory_order);
uint atomic_load_explicit(const __local atomic_uint*, memory_order);
int atomic_load_explicit(const __global atomic_int*, memory_order);
int atomic_load_explicit(const __local atomic_int*, memory_order);

}  // namespace metal

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX 3.402823466e+38f
