// The floating-point mode of the numeric contract: subnormals count as zero, as inputs and as results, in
// every thread that computes numbers. It is a mode of the CPU per thread, so it is set where numbers are
// computed and put back where libraries parse text.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace argon {

// While alive, this thread flushes subnormals (x86: MXCSR FTZ and DAZ; AArch64: FPCR.FZ), rounds to nearest
// even.
class ScopedFlushSubnormals {
 public:
  ScopedFlushSubnormals() : saved_(read()) {
#if defined(__x86_64__)
    write((saved_ & ~0x6000u) | 0x8040u);
#elif defined(__aarch64__)
    write((saved_ & ~(3ull << 22)) | (1ull << 24));
#endif
  }
  ~ScopedFlushSubnormals() { write(saved_); }
  ScopedFlushSubnormals(const ScopedFlushSubnormals&) = delete;
  ScopedFlushSubnormals& operator=(const ScopedFlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  using Word = unsigned;
  static Word read() { return _mm_getcsr(); }
  static void write(Word w) { _mm_setcsr(w); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static Word read() {
    Word w;
    asm volatile("mrs %0, fpcr" : "=r"(w));
    return w;
  }
  static void write(Word w) { asm volatile("msr fpcr, %0" : : "r"(w)); }
#else
#error "no flush-to-zero mode known for this processor"
#endif
  Word saved_;
};

}  // namespace argon
