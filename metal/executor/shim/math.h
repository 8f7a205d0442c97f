// The arithmetic of metal_stdlib whose result is fixed to the last bit: everything here is exact or correctly
// rounded. exp, log, sin, pow, rsqrt and their like are left out on purpose: their roundings are Apple's own,
// and a kernel that used them could not keep the numeric contract. min and max of floats give the first
// argument when both compare equal.
#define ARGON_UNARY(name, T, expression) \
  inline T name(T a) { return expression; }
#define ARGON_LANEWISE1(name, T, N)                   \
  inline T##N name(T##N a) {                          \
    T##N r;                                           \
    for (int i = 0; i < N; ++i) r[i] = name((T)a[i]); \
    return r;                                         \
  }
#define ARGON_LANEWISE2(name, T, N)                            \
  inline T##N name(T##N a, T##N b) {                           \
    T##N r;                                                    \
    for (int i = 0; i < N; ++i) r[i] = name((T)a[i], (T)b[i]); \
    return r;                                                  \
  }
#define ARGON_LANEWISE3(name, T, N)                                     \
  inline T##N name(T##N a, T##N b, T##N c) {                            \
    T##N r;                                                             \
    for (int i = 0; i < N; ++i) r[i] = name((T)a[i], (T)b[i], (T)c[i]); \
    return r;                                                           \
  }
#define ARGON_EACH_WIDTH(M, name, T) M(name, T, 2) M(name, T, 3) M(name, T, 4)

#define ARGON_MINMAX(T)                                           \
  inline T min(T a, T b) { return b < a ? b : a; }                \
  inline T max(T a, T b) { return a < b ? b : a; }                \
  inline T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); } \
  ARGON_EACH_WIDTH(ARGON_LANEWISE2, min, T)                       \
  ARGON_EACH_WIDTH(ARGON_LANEWISE2, max, T)                       \
  ARGON_EACH_WIDTH(ARGON_LANEWISE3, clamp, T)
ARGON_MINMAX(char)
ARGON_MINMAX(uchar)
ARGON_MINMAX(short)
ARGON_MINMAX(ushort)
ARGON_MINMAX(int)
ARGON_MINMAX(uint)
ARGON_MINMAX(long)
ARGON_MINMAX(ulong)
ARGON_MINMAX(float)

ARGON_UNARY(abs, char, (char)(a < 0 ? -a : a))
ARGON_UNARY(abs, short, (short)(a < 0 ? -a : a))
ARGON_UNARY(abs, int, a < 0 ? -a : a)
ARGON_UNARY(abs, long, a < 0 ? -a : a)
ARGON_UNARY(abs, float, __builtin_fabsf(a))
ARGON_UNARY(fabs, float, __builtin_fabsf(a))
ARGON_UNARY(sqrt, float, __builtin_sqrtf(a))
ARGON_UNARY(rint, float, __builtin_rintf(a))
ARGON_UNARY(floor, float, __builtin_floorf(a))
ARGON_UNARY(ceil, float, __builtin_ceilf(a))
ARGON_UNARY(trunc, float, __builtin_truncf(a))
ARGON_EACH_WIDTH(ARGON_LANEWISE1, abs, int)
ARGON_EACH_WIDTH(ARGON_LANEWISE1, abs, float)
ARGON_EACH_WIDTH(ARGON_LANEWISE1, fabs, float)
ARGON_EACH_WIDTH(ARGON_LANEWISE1, rint, float)
ARGON_EACH_WIDTH(ARGON_LANEWISE1, floor, float)
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ARGON_EACH_WIDTH(ARGON_LANEWISE3, fma, float)
inline float copysign(float a, float b) { return __builtin_copysignf(a, b); }
inline bool isnan(float a) { return a != a; }
inline bool isinf(float a) { return __builtin_fabsf(a) == __builtin_inff(); }
inline bool isfinite(float a) { return __builtin_fabsf(a) < __builtin_inff(); }

template <class T>
inline T select(T a, T b, bool c) {
  return c ? b : a;
}
inline uint popcount(uint a) { return (uint)__builtin_popcount(a); }
inline ulong popcount(ulong a) { return (ulong)__builtin_popcountl(a); }
inline uint clz(uint a) { return a == 0 ? 32u : (uint)__builtin_clz(a); }
inline uint ctz(uint a) { return a == 0 ? 32u : (uint)__builtin_ctz(a); }
inline uint mulhi(uint a, uint b) { return (uint)(((ulong)a * b) >> 32); }

namespace precise {
inline float sqrt(float a) { return __builtin_sqrtf(a); }
}  // namespace precise
