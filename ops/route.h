// One table per operation, four uses: the rows of ops/<op>/<op>_routes.inc declare the CPU kernels, dispatch
// them, and drive the parity test and the bench. A row is
//     ROUTE(kernel, isa, min_rows, max_rows)
// for a function `void kernel(const Args&, int64_t begin, int64_t end)` that computes units begin..end-1 of
// the operation; what a unit is, and what counts as rows (tokens, mostly), is the operation's contract. The
// scalar reference is the row of isa kScalar that covers every size. The first row that fits the machine and
// the size is taken, so faster rows stand first.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>

namespace argon::ops {

// The instruction set levels of the processor family that this is compiled for, each holding those before it,
// and ARGON_IF_<isa>(...): its arguments where the level exists, nothing elsewhere. So a table can name the
// kernels of all families.
#if defined(__x86_64__)
enum class Isa : int { kScalar = 0, kAvx2 = 1, kAvx512 = 2, kAmx = 3 };
#define ARGON_IF_kAvx2(...) __VA_ARGS__
#define ARGON_IF_kAvx512(...) __VA_ARGS__
#define ARGON_IF_kAmx(...) __VA_ARGS__
#define ARGON_IF_kNeon(...)
#else
#if defined(__aarch64__)
enum class Isa : int { kScalar = 0, kNeon = 1 };  // kNeon: with the int8 dot product (Armv8.2 "asimddp")
#define ARGON_IF_kNeon(...) __VA_ARGS__
#else
enum class Isa : int { kScalar = 0 };
#define ARGON_IF_kNeon(...)
#endif
#define ARGON_IF_kAvx2(...)
#define ARGON_IF_kAvx512(...)
#define ARGON_IF_kAmx(...)
#endif
#define ARGON_IF_kScalar(...) __VA_ARGS__

inline constexpr int64_t kAnyRows = std::numeric_limits<int64_t>::max();

template <class Args>
struct Route {
  const char* name;
  Isa isa;
  int64_t min_rows, max_rows;
  void (*run)(const Args&, int64_t begin, int64_t end);
};

template <class Args, std::size_t N>
const Route<Args>& pick_route(const Route<Args> (&routes)[N], Isa isa, int64_t rows) {
  for (const Route<Args>& r : routes) {
    if (r.isa <= isa && r.min_rows <= rows && rows <= r.max_rows) return r;
  }
  return routes[N - 1];
}

// The last row is the reference and covers every size, so dispatch never fails. For static_assert.
template <class Args, std::size_t N>
constexpr bool routes_complete(const Route<Args> (&routes)[N]) {
  return routes[N - 1].isa == Isa::kScalar && routes[N - 1].min_rows == 0 &&
         routes[N - 1].max_rows == kAnyRows;
}

}  // namespace argon::ops
