#define ARGON_LOOP(name) name##_avx2
#include "base/tests/exact_math_loops.inc"
