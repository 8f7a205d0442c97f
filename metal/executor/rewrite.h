// From the text of a .metal file to C++ that clang compiles for the CPU, or to C++ for OpenCL for the dialect
// pass.
//
// The input has been preprocessed (line markers kept), so macros and includes are gone. What C++ cannot say
// is turned into what it can, line by line, so that every message still names the kernel's own file and line:
//   address spaces                    dropped (exec) or mapped by the dialect's macros
//   kernel void f(args [[buffer(0)]]) a plain function; its arguments are described in a table at the end
//   template [[host_name("x")]] [[kernel]] decltype(f<4>) f<4>;   an entry of that name
//   constant bool c [[function_constant(0)]];                     a variable that a dispatch sets
//   threadgroup float x[8];           a reference into the threadgroup's memory
//   float4(a, b)                      argon_make<float4>(a, b)
// Refused here, with file and line, because neither pass would: double, goto, lambdas and other words that
// Metal lacks, attributes it does not know, pointers and references without an address space, threadgroup
// variables outside functions.
#pragma once

#include <string>

#include "base/status.h"

namespace argon::metal {

struct Rewritten {
  std::string exec;
  std::string dialect;
};

// `preprocessed` as `clang -E` wrote it; `name` is used for lines before the first marker.
Result<Rewritten> rewrite_kernels(const std::string& preprocessed, const std::string& name);

}  // namespace argon::metal
