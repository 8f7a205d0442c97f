// Metal's scalar and vector types as clang's vector extensions, for the executor and for the dialect pass.
// Swizzles are the compiler's own. A constructor call such as float4(a, b) is rewritten to
// argon_make<float4>(a, b) before it gets here.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;

template <class T>
struct argon_vec;

#define ARGON_SCALAR(T) \
  template <>           \
  struct argon_vec<T> { \
    typedef T element;  \
    enum { size = 1 };  \
  };
#define ARGON_VECTOR(T, N)                            \
  typedef T T##N __attribute__((ext_vector_type(N))); \
  template <>                                         \
  struct argon_vec<T##N> {                            \
    typedef T element;                                \
    enum { size = N };                                \
  };
#define ARGON_VECTORS(T) ARGON_SCALAR(T) ARGON_VECTOR(T, 2) ARGON_VECTOR(T, 3) ARGON_VECTOR(T, 4)

ARGON_SCALAR(bool)
ARGON_VECTORS(char)
ARGON_VECTORS(uchar)
ARGON_VECTORS(short)
ARGON_VECTORS(ushort)
ARGON_VECTORS(int)
ARGON_VECTORS(uint)
ARGON_VECTORS(long)
ARGON_VECTORS(ulong)
ARGON_VECTORS(half)
ARGON_VECTORS(float)

// Same values, alignment of one element; size 4N (no packed_float3: an extension vector of 3 takes 4).
typedef float packed_float2 __attribute__((ext_vector_type(2), aligned(4)));
typedef float packed_float4 __attribute__((ext_vector_type(4), aligned(4)));

template <class T>
using argon_type = T;  // lets array types be written before a name

template <bool Scalar>
struct argon_element {
  template <class A>
  static A at(A a, int) {
    return a;
  }
};
template <>
struct argon_element<false> {
  template <class A>
  static typename argon_vec<A>::element at(A a, int i) {
    return a[i];
  }
};

template <int At, class V>
inline V argon_put(V v) {
  static_assert(At == argon_vec<V>::size, "a vector constructor got too few or too many components");
  return v;
}
template <int At, class V, class A, class... Rest>
inline V argon_put(V v, A a, Rest... rest) {
  for (int i = 0; i < argon_vec<A>::size; ++i)
    v[At + i] = (typename argon_vec<V>::element)argon_element<argon_vec<A>::size == 1>::at(a, i);
  return argon_put<At + argon_vec<A>::size>(v, rest...);
}
template <bool Scalar>
struct argon_convert {
  template <class V, class A>
  static V to(A a) {
    return (V)(typename argon_vec<V>::element)a;
  }
};
template <>
struct argon_convert<false> {
  template <class V, class A>
  static V to(A a) {
    return __builtin_convertvector(a, V);
  }
};
template <class V, class A>
inline V argon_make(A a) {
  static_assert(argon_vec<A>::size == 1 || argon_vec<A>::size == argon_vec<V>::size,
                "no such vector conversion");
  return argon_convert<argon_vec<A>::size == 1>::template to<V>(a);
}
template <class V, class A, class B, class... Rest>
inline V argon_make(A a, B b, Rest... rest) {
  V v;
  return argon_put<0>(v, a, b, rest...);
}
