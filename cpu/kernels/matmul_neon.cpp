// Routes matmul_neon and matmul_grouped_neon, and the quantisation of their inputs.
#include "cpu/kernels/matmul_wide.h"

namespace argon::ops {

void matmul_neon(const MatmulArgs& a, int64_t begin, int64_t end) { matmul_units(a, begin, end, any_rows); }

void matmul_grouped_neon(const MatmulGroupedArgs& a, int64_t begin, int64_t end) {
  grouped_units(a, begin, end, any_rows);
}

void quantize_neon(const QuantizeArgs& a, int64_t begin, int64_t end) {
  for (int64_t i = begin * (a.K / 32); i < end * (a.K / 32); ++i) {
    float32x4_t x[8];
    uint32x4_t most = vdupq_n_u32(0);
    for (int v = 0; v < 8; ++v) {
      x[v] = vld1q_f32(a.x + i * 32 + 4 * v);
      most = vmaxq_u32(most, vandq_u32(vreinterpretq_u32_f32(x[v]), vdupq_n_u32(0x7fffffff)));
    }
    const uint32_t bits = vmaxvq_u32(most);
    const float max = f32_from_bits(bits);
    const bool zero = max < 0x1p-100f, finite = bits < 0x7f800000u;
    a.q.d[i] = zero ? 0.0f : max / 127.0f;
    // A block that is not finite gets codes 0: its values are masked, since infinity times 0 is not 0.
    const float32x4_t up = vdupq_n_f32(zero || !finite ? 0.0f : 127.0f / max);
    const uint32x4_t keep = vdupq_n_u32(finite ? 0xffffffffu : 0u);
    for (int h = 0; h < 2; ++h) {
      int16x4_t c[4];
      for (int v = 0; v < 4; ++v) {
        const float32x4_t kept = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x[4 * h + v]), keep));
        c[v] = vmovn_s32(vcvtnq_s32_f32(vmulq_f32(kept, up)));
      }
      const int16x8_t low = vcombine_s16(c[0], c[1]), high = vcombine_s16(c[2], c[3]);
      vst1q_s8(a.q.codes + i * 32 + 16 * h, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
      a.q.sums[i * 2 + h] = vaddvq_s16(vaddq_s16(low, high));
    }
  }
}

}  // namespace argon::ops
