#define ARGON_LOOP(name) name##_base
#include "base/tests/exact_math_loops.inc"
