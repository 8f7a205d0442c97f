// metal_stdlib for kernels that run on the CPU: in front of the rewritten text of a .metal file (see
// rewrite.h). Address spaces have been taken out by the rewrite; the dialect pass (dialect.h) is what proves
// them right.
#pragma once
#pragma clang system_header

#include "metal/executor/abi.h"

typedef __fp16 half;  // storage: arithmetic widens to float, so kernels widen, compute and narrow explicitly
#include "metal/executor/shim/types.h"

extern argon_exec::Hooks argon_hooks;
extern argon_exec::Library argon_library;

#define ARGON_UNINSTRUMENTED __attribute__((noinline, disable_sanitizer_instrumentation))
#ifdef ARGON_CHECKED
#define ARGON_EXECUTORS_OWN ARGON_UNINSTRUMENTED  // touches the executor's memory, not the kernel's
#else
#define ARGON_EXECUTORS_OWN
#endif
#define ARGON_SITE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()
#define ARGON_NO_ORDER \
  __attribute__((      \
      unavailable("its order of summation is not documented: write the shuffles out (NUMERICS.md)")))

template <class T, class U>
inline T as_type(U u) {
  static_assert(sizeof(T) == sizeof(U), "as_type between types of different size");
  return __builtin_bit_cast(T, u);
}

struct atomic_uint {
  uint value;
};
struct atomic_int {
  int value;
};

namespace metal {

#include "metal/executor/shim/math.h"

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((uint)a | (uint)b); }

inline void threadgroup_barrier(mem_flags flags, ARGON_SITE) {
  argon_hooks.threadgroup_barrier((uint)flags, file, line);
}
inline void simdgroup_barrier(mem_flags flags, ARGON_SITE) {
  argon_hooks.simdgroup_barrier((uint)flags, file, line);
}

struct argon_lanes {
  argon_exec::Exchange x;
  template <class T>
  ARGON_EXECUTORS_OWN T at(uint lane) const {
    T v;
    __builtin_memcpy(&v, x.slots + lane * argon_exec::kSlotBytes, sizeof(T));
    return v;
  }
};
template <class T>
inline argon_lanes argon_exchange(const char* operation, T v, const char* file, unsigned line) {
  static_assert(sizeof(T) <= argon_exec::kSlotBytes, "simd operations take up to 16 bytes");
  argon_lanes l;
  l.x = argon_hooks.exchange(operation, &v, sizeof(T), file, line);
  return l;
}
template <class T>
inline T argon_shuffle(const char* operation, T v, uint from, const char* file, unsigned line) {
  const argon_lanes l = argon_exchange(operation, v, file, line);
  if (from >= l.x.lanes) argon_hooks.fault(argon_exec::kLane, operation, file, line);
  return l.at<T>(from);
}

template <class T>
inline T simd_shuffle(T v, ushort lane, ARGON_SITE) {
  return argon_shuffle("simd_shuffle", v, lane, file, line);
}
template <class T>
inline T simd_broadcast(T v, ushort lane, ARGON_SITE) {
  return argon_shuffle("simd_broadcast", v, lane, file, line);
}
template <class T>
inline T simd_broadcast_first(T v, ARGON_SITE) {
  return argon_shuffle("simd_broadcast_first", v, 0, file, line);
}
template <class T>
inline T simd_shuffle_xor(T v, ushort mask, ARGON_SITE) {
  const argon_lanes l = argon_exchange("simd_shuffle_xor", v, file, line);
  const uint from = l.x.lane ^ mask;
  if (from >= l.x.lanes) argon_hooks.fault(argon_exec::kLane, "simd_shuffle_xor", file, line);
  return l.at<T>(from);
}
// Lanes whose source would lie outside the simdgroup keep their own value.
template <class T>
inline T simd_shuffle_down(T v, ushort delta, ARGON_SITE) {
  const argon_lanes l = argon_exchange("simd_shuffle_down", v, file, line);
  return l.x.lane + delta < l.x.lanes ? l.at<T>(l.x.lane + delta) : v;
}
template <class T>
inline T simd_shuffle_up(T v, ushort delta, ARGON_SITE) {
  const argon_lanes l = argon_exchange("simd_shuffle_up", v, file, line);
  return l.x.lane >= delta ? l.at<T>(l.x.lane - delta) : v;
}

class simd_vote {
 public:
  typedef ulong vote_t;
  explicit simd_vote(vote_t v) : v_(v) {}
  explicit operator vote_t() const { return v_; }

 private:
  vote_t v_;
};
inline simd_vote simd_ballot(bool p, ARGON_SITE) {
  const argon_lanes l = argon_exchange("simd_ballot", p, file, line);
  ulong v = 0;
  for (uint i = 0; i < l.x.lanes; ++i) v |= (ulong)l.at<bool>(i) << i;
  return simd_vote(v);
}
inline bool simd_any(bool p, ARGON_SITE) { return (ulong)simd_ballot(p, file, line) != 0; }
inline bool simd_all(bool p, ARGON_SITE) { return (ulong)simd_ballot(!p, file, line) == 0; }

// Reductions and prefix sums of integers are exact in any order. Of floats they are refused.
#define ARGON_SIMD_FOLD(name, begin, first, step)                                               \
  template <class T>                                                                            \
  inline T name(T v, ARGON_SITE) {                                                              \
    static_assert(sizeof(T) == 0 || T(1) / 2 == 0, #name " of floats: write the shuffles out"); \
    const argon_lanes l = argon_exchange(#name, v, file, line);                                 \
    T r = first;                                                                                \
    for (uint i = begin; i < l.x.lanes; ++i) {                                                  \
      const T o = l.at<T>(i);                                                                   \
      step;                                                                                     \
    }                                                                                           \
    return r;                                                                                   \
  }                                                                                             \
  ARGON_NO_ORDER float name(float);                                                             \
  ARGON_NO_ORDER half name(half);
ARGON_SIMD_FOLD(simd_sum, 0, (T)0, r = (T)(r + o))
ARGON_SIMD_FOLD(simd_product, 0, (T)1, r = (T)(r * o))
ARGON_SIMD_FOLD(simd_min, 1, l.at<T>(0), r = o < r ? o : r)
ARGON_SIMD_FOLD(simd_max, 1, l.at<T>(0), r = r < o ? o : r)
ARGON_SIMD_FOLD(simd_and, 1, l.at<T>(0), r = (T)(r & o))
ARGON_SIMD_FOLD(simd_or, 1, l.at<T>(0), r = (T)(r | o))
ARGON_SIMD_FOLD(simd_xor, 1, l.at<T>(0), r = (T)(r ^ o))
ARGON_SIMD_FOLD(simd_prefix_exclusive_sum, 0, (T)0, if (i < l.x.lane) r = (T)(r + o))
ARGON_SIMD_FOLD(simd_prefix_inclusive_sum, 0, (T)0, if (i <= l.x.lane) r = (T)(r + o))

enum memory_order { memory_order_relaxed };
#define ARGON_ATOMICS(name, builtin)                                                    \
  template <class A, class T>                                                           \
  ARGON_UNINSTRUMENTED decltype(A::value) name(A* a, T v, memory_order) {               \
    argon_hooks.access(&a->value, 4, argon_exec::kAtomic, __builtin_return_address(0)); \
    return builtin(&a->value, (decltype(A::value))v, __ATOMIC_RELAXED);                 \
  }
ARGON_ATOMICS(atomic_fetch_add_explicit, __atomic_fetch_add)
ARGON_ATOMICS(atomic_fetch_sub_explicit, __atomic_fetch_sub)
ARGON_ATOMICS(atomic_fetch_or_explicit, __atomic_fetch_or)
ARGON_ATOMICS(atomic_fetch_and_explicit, __atomic_fetch_and)
ARGON_ATOMICS(atomic_fetch_xor_explicit, __atomic_fetch_xor)
ARGON_ATOMICS(atomic_exchange_explicit, __atomic_exchange_n)
template <class A, class T>
ARGON_UNINSTRUMENTED void atomic_store_explicit(A* a, T v, memory_order) {
  argon_hooks.access(&a->value, 4, argon_exec::kAtomic, __builtin_return_address(0));
  __atomic_store_n(&a->value, (decltype(A::value))v, __ATOMIC_RELAXED);
}
template <class A>
ARGON_UNINSTRUMENTED decltype(A::value) atomic_load_explicit(A* a, memory_order) {
  argon_hooks.access(&a->value, 4, argon_exec::kAtomic, __builtin_return_address(0));
  return __atomic_load_n(&a->value, __ATOMIC_RELAXED);
}

}  // namespace metal

template <class T>
inline T& argon_threadgroup_variable(unsigned id, const char* file, unsigned line) {
  return *(T*)argon_hooks.threadgroup_variable(id, sizeof(T), alignof(T), file, line);
}

// A built-in argument in the type that the kernel declares: scalars take x.
template <class T, bool Scalar = argon_vec<T>::size == 1>
struct argon_builtin {
  static T of(const argon_exec::Uint3& v) { return (T)v.x; }
  static T of(unsigned v) { return (T)v; }
};
template <class T>
struct argon_builtin<T, false> {
  static T of(const argon_exec::Uint3& v) {
    const unsigned c[3] = {v.x, v.y, v.z};
    T r;
    for (int i = 0; i < argon_vec<T>::size; ++i) r[i] = (typename argon_vec<T>::element)c[i];
    return r;
  }
};

template <class T>
struct argon_pointee;
template <class T>
struct argon_pointee<T*> {
  typedef T type;
  enum { writable = 1 };
};
template <class T>
struct argon_pointee<const T*> {
  typedef T type;
  enum { writable = 0 };
};
template <class T>
struct argon_pointee<T&> : argon_pointee<T*> {};
template <class T>
struct argon_size {
  enum : unsigned long { bytes = sizeof(T), align = alignof(T) };
};
template <>
struct argon_size<void> {
  enum : unsigned long { bytes = 1, align = 1 };
};

template <class T>
struct argon_constant_kind;
#define ARGON_CONSTANT_KIND(T, K)  \
  template <>                      \
  struct argon_constant_kind<T> {  \
    enum { kind = argon_exec::K }; \
  };
ARGON_CONSTANT_KIND(bool, kBool)
ARGON_CONSTANT_KIND(int, kInt)
ARGON_CONSTANT_KIND(uint, kUint)
ARGON_CONSTANT_KIND(float, kFloat)
ARGON_CONSTANT_KIND(short, kShort)
ARGON_CONSTANT_KIND(ushort, kUshort)

struct argon_constant : argon_exec::FunctionConstant {
  template <class T>
  argon_constant(const char* n, unsigned i, T* v)
      : argon_exec::FunctionConstant{n,         i, (unsigned)argon_constant_kind<T>::kind,
                                     sizeof(T), v, argon_library.constants} {
    argon_library.constants = this;
  }
};
struct argon_entry : argon_exec::Entry {
  argon_entry(const char* n, const char* f, unsigned l, unsigned max, const argon_exec::Param* p, unsigned np,
              void (*c)(const argon_exec::Call&))
      : argon_exec::Entry{n, f, l, max, p, np, c, argon_library.entries} {
    argon_library.entries = this;
  }
};

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX 3.402823466e+38f
