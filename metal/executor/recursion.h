// Metal forbids recursion; clang's OpenCL front end does not look for it.
#pragma once

#include <string>

#include "base/status.h"

namespace argon::metal {

// `ir`: LLVM assembly with line tables. An error names the first function found that can reach itself.
Status check_recursion(const std::string& ir);

}  // namespace argon::metal
