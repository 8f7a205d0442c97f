// The kernels for AVX-512 and AMX against the references on a processor that has neither: their own source,
// with every 512-bit and tile instruction computed in plain arithmetic. Where the processor has them,
// cpu_parity tests the real ones as well.
#include <gtest/gtest.h>

#define ARGON_EMULATE_AVX512
#define gdn_scan_avx512 gdn_scan_emulated_avx512
#define qsa_attention_avx512 qsa_attention_emulated_avx512
#define qsa_select_avx512 qsa_select_emulated_avx512
#define matmul_avx512 matmul_emulated_avx512
#define matmul_grouped_avx512 matmul_grouped_emulated_avx512
#define matmul_amx matmul_emulated_amx
#define matmul_grouped_amx matmul_grouped_emulated_amx
#include "cpu/kernels/gdn_avx512.cpp"
//
#include "cpu/kernels/matmul_avx512.cpp"
//
#include "cpu/kernels/matmul_amx.cpp"
//
#include "cpu/kernels/qsa_attention_avx512.cpp"
//
#include "cpu/kernels/qsa_select_avx512.cpp"
#undef gdn_scan_avx512
#undef qsa_attention_avx512
#undef qsa_select_avx512
#undef matmul_avx512
#undef matmul_grouped_avx512
#undef matmul_amx
#undef matmul_grouped_amx
#include "ops/gdn/gdn_cases.h"
#include "ops/matmul/matmul_cases.h"
#include "ops/qsa_attention/qsa_attention_cases.h"
#include "ops/qsa_select/qsa_select_cases.h"

namespace argon::testing {
namespace {

template <class Args>
void check(const ParityCases<Args>& cases, void (*reference)(const Args&, int64_t, int64_t),
           void (*kernel)(const Args&, int64_t, int64_t), uint64_t every = 3) {
  uint64_t seed = 1;
  for (const ParityCase<Args>& c : cases) {
    if (++seed % every != 0) continue;  // enough for every type, length and count; each case takes a while
    TestArena expected(seed, 0x7fc0dead), found(seed, 0x7fc0beef);
    const Args e = c.make(expected), f = c.make(found);
    reference(e, 0, units(e));
    kernel(f, 0, units(f));
    ASSERT_EQ(found.difference(expected), "") << c.name;
    ASSERT_TRUE(found.flip_a_bit(seed * 7919));
    ASSERT_NE(found.difference(expected), "") << "the harness missed a flipped bit";
  }
}

TEST(EmulatedParity, MatmulAvx512) {
  check(ops::matmul_cases(), ops::matmul_ref, ops::matmul_emulated_avx512);
}
TEST(EmulatedParity, MatmulGroupedAvx512) {
  check(ops::matmul_grouped_cases(), ops::matmul_grouped_ref, ops::matmul_grouped_emulated_avx512);
}
TEST(EmulatedParity, GdnScanAvx512) {
  check(ops::gdn_scan_cases(), ops::gdn_scan_ref, ops::gdn_scan_emulated_avx512);
}
TEST(EmulatedParity, QsaAttentionAvx512) {
  check(ops::qsa_attention_cases(), ops::qsa_attention_ref, ops::qsa_attention_emulated_avx512, 1);
}
TEST(EmulatedParity, QsaSelectAvx512) {
  check(ops::qsa_select_cases(), ops::qsa_select_ref, ops::qsa_select_emulated_avx512, 1);
}
TEST(EmulatedParity, MatmulAmx) { check(ops::matmul_cases(), ops::matmul_ref, ops::matmul_emulated_amx); }
TEST(EmulatedParity, MatmulGroupedAmx) {
  check(ops::matmul_grouped_cases(), ops::matmul_grouped_ref, ops::matmul_grouped_emulated_amx);
}

}  // namespace
}  // namespace argon::testing
