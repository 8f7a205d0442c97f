// ARGON_ISA_NS: the inline namespace of every header function that kernels call.
//
// The trap: an `inline` function (or a template) that two object files define is merged by the linker, which
// keeps either copy. If one file was compiled with -mavx2 and the other for plain x86-64, the plain file may
// end up calling the AVX2 copy, and the binary dies with SIGILL on an old machine. So header code used by
// kernels lives in an inline namespace named after the instruction set it is compiled for: copies of one
// level merge, copies of two never do. Plain data (structs without functions, constant tables) may stay
// outside. For the same reason a kernel compiled with ISA flags calls no out-of-line standard templates
// (std::vector, std::function, std::sort, ...), and no struct declared outside this namespace has member
// functions that a kernel calls.
#pragma once

#if defined(__METAL_VERSION__)
#define ARGON_ISA_NS isa_metal
#elif defined(__CUDACC__)
#define ARGON_ISA_NS isa_cuda
#elif defined(ARGON_EMULATE_AVX512)
#define ARGON_ISA_NS isa_emulated
#elif defined(__AMX_INT8__)
#define ARGON_ISA_NS isa_amx
#elif defined(__AVX512F__)
#define ARGON_ISA_NS isa_avx512
#elif defined(__AVX2__)
#define ARGON_ISA_NS isa_avx2
#elif defined(__ARM_FEATURE_DOTPROD)
#define ARGON_ISA_NS isa_neon
#elif defined(__FMA__)
#define ARGON_ISA_NS isa_fma
#else
#define ARGON_ISA_NS isa_base
#endif
