// What the CUDA benches share: ending at the first error, and the clock.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/status.h"

namespace argon {

template <class T>
T must(Result<T> r) {
  if (!r.ok()) {
    std::fprintf(stderr, "%s\n", r.status().message().c_str());
    std::exit(1);
  }
  return std::move(r).value();
}
inline void must(const Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "%s\n", s.message().c_str());
  std::exit(1);
}

// Seconds from some fixed point.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace argon
