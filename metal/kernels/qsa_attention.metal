// Attention over the kept tokens; contract in ops/qsa_attention/qsa_attention.h.
//
// A threadgroup takes a query and a head of K and V, each of its simdgroups one of the query heads that share it. Scores:
// the tile's 32 rows of K are staged in threadgroup memory and a lane takes a token, holding all 32 lanes of its sum.
// Values: a lane owns `Own` neighbouring values of the output and adds the tile's tokens in ascending order. With few
// queries each segment of 128 tokens is a threadgroup of its own and qsa_attention_merge joins them from the left.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "base/exact_math.h"
#include "metal/kernels/norms.h"
#include "metal/kernels/qsa_args.h"
#include "metal/kernels/thread_dot.h"

using namespace metal;

constant bool split [[function_constant(0)]];

constant constexpr uint kTile = 32;
constant constexpr uint kSegment = 128;
constant constexpr uint kMaxHeads = 16;  // simdgroups of a threadgroup

// The kept tokens of one query, by rank.
struct KeptTokens {
  device const int* blocks;
  uint all, r, in_blocks, tail, size;

  uint at(uint i) const {
    if (all != 0) return i;
    return i < in_blocks ? uint(blocks[i / r]) * r + i % r : i + tail;
  }
};

inline void find_tokens(thread KeptTokens* k, device const int* kept, device const int* count,
                        constant QsaAttentionMetalArgs& s, uint t) {
  const int n = count[t];
  const uint visible = s.position0 + t + 1;
  k->blocks = kept + ulong(t) * s.budget;
  k->all = n < 0 ? 1 : 0;
  k->r = s.r;
  k->in_blocks = n < 0 ? visible : uint(n) * s.r;
  k->tail = n < 0 ? 0 : visible - visible % s.r - k->in_blocks;
  k->size = n < 0 ? visible : k->in_blocks + visible % s.r;
}

inline float max32(float v) {
  for (ushort mask = 16; mask >= 1; mask /= 2) v = max(v, simd_shuffle_xor(v, mask));
  return v;
}

// T, T4: the cache's type and four of it. Width: how many values of a row of K are staged at a time; 0: none, for heads
// whose sums have 256 lanes. dh is a multiple of 4, at most 32*Own.
template <class T, class T4, uint Own, uint Width>
kernel void qsa_attention(device const float* q [[buffer(0)]],
                          device const T* k [[buffer(1)]],
                          device const T* v [[buffer(2)]],
                          device const int* kept [[buffer(3)]],
                          device const int* count [[buffer(4)]],
                          device float* out [[buffer(5)]],  // split: [T][nq][segments][dh + 2], M and l first
                          constant QsaAttentionMetalArgs& s [[buffer(6)]],
                          uint3 tg [[threadgroup_position_in_grid]],
                          uint tid [[thread_index_in_threadgroup]],
                          uint sg [[simdgroup_index_in_threadgroup]],
                          uint simdgroups [[simdgroups_per_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
  constexpr uint pad = 4 / sizeof(T);  // an odd number of words from row to row
  constexpr uint pitch = Width + pad;
  threadgroup T rows[kTile * pitch];
  threadgroup float probability[kMaxHeads * kTile];
  threadgroup uint token[kMaxHeads * kTile];

  const uint t = tg.x, per_kv = s.nq / s.nkv, dh = s.dh;
  // y: the head of K and V, and which of its query heads when they are more than the simdgroups.
  const uint parts = (per_kv + simdgroups - 1) / simdgroups;
  const uint kv = tg.y / parts, in_kv = tg.y % parts * simdgroups + sg;
  const bool exists = in_kv < per_kv;
  const uint head = kv * per_kv + min(in_kv, per_kv - 1);
  const ulong u = ulong(t) * s.nq + head;
  device const float* own_q = q + u * 2 * dh;
  threadgroup float* p_row = probability + sg * kTile;
  threadgroup uint* tokens = token + sg * kTile;
  const float scale = inverse_root(dh);
  KeptTokens tokens_of;
  find_tokens(&tokens_of, kept, count, s, t);
  const uint size = tokens_of.size;
  const uint first_segment = split ? tg.z * kSegment : 0;
  if (first_segment >= size) return;
  const uint last = split ? min(size, first_segment + kSegment) : size;

  float o[Own], total_o[Own], total_m = 0.0f, total_l = 0.0f;
#pragma clang loop unroll(full)
  for (uint i = 0; i < Own; ++i) total_o[i] = 0.0f;
  for (uint s0 = first_segment; s0 < last; s0 += kSegment) {
    const uint stop = min(s0 + kSegment, last);
    float m = 0.0f, l = 0.0f;
#pragma clang loop unroll(full)
    for (uint i = 0; i < Own; ++i) o[i] = 0.0f;
    for (uint first = s0; first < stop; first += kTile) {
      const uint tile = min(kTile, stop - first);
      const uint mine = tokens_of.at(first + min(lane, tile - 1));
      float score = as_type<float>(0xff800000u);
      if (Width == 0) {
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (lane < tile) score = thread_dot(own_q, k + (ulong(mine) * s.nkv + kv) * dh, dh) * scale;
      } else {
        float sum[32];
#pragma clang loop unroll(full)
        for (uint j = 0; j < 32; ++j) sum[j] = 0.0f;
        for (uint d0 = 0; d0 < dh; d0 += Width) {
          const uint width = min(Width, dh - d0), quads = width / 4;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint i = tid; i < tile * quads; i += 32 * simdgroups) {
            const uint j = i / quads, at = i % quads * 4;
            const ulong row = (ulong(tokens_of.at(first + j)) * s.nkv + kv) * dh + d0;
            const T4 x = *(device const T4*)(k + row + at);
            threadgroup T* to = rows + j * pitch + at;
            to[0] = x.x;
            to[1] = x.y;
            to[2] = x.z;
            to[3] = x.w;
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (lane < tile) add_products(sum, own_q + d0, (threadgroup const T*)(rows + lane * pitch), width, 0, 32);
        }
        if (lane < tile) score = fold32_of(sum) * scale;
      }
      const float tile_max = max32(score);
      if (first == s0) m = tile_max;
      const float m_new = max(m, tile_max), c = argon::exp32(m - m_new);
      const float p = lane < tile ? argon::exp32(score - m_new) : 0.0f;
      l = fma(l, c, fold32(p));
      m = m_new;
      p_row[lane] = p;
      tokens[lane] = mine;
      simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
      for (uint i = 0; i < Own; ++i) o[i] = o[i] * c;
      const uint at = lane * Own;
      for (uint j = 0; j < tile; ++j) {
        device const T* row = v + (ulong(tokens[j]) * s.nkv + kv) * dh + at;
        const float pj = p_row[j];
        if (Own % 4 == 0) {
#pragma clang loop unroll(full)
          for (uint i = 0; i + 3 < Own; i += 4) {
            if (at + i >= dh) continue;
            const float4 x = float4(*(device const T4*)(row + i));
            o[i] = fma(pj, x.x, o[i]);
            o[i + 1] = fma(pj, x.y, o[i + 1]);
            o[i + 2] = fma(pj, x.z, o[i + 2]);
            o[i + 3] = fma(pj, x.w, o[i + 3]);
          }
        } else {
#pragma clang loop unroll(full)
          for (uint i = 0; i < Own; ++i) {
            if (at + i < dh) o[i] = fma(pj, float(row[i]), o[i]);
          }
        }
      }
    }
    if (s0 == first_segment) {
      total_m = m;
      total_l = l;
#pragma clang loop unroll(full)
      for (uint i = 0; i < Own; ++i) total_o[i] = o[i];
      continue;
    }
    const float most = max(total_m, m), ca = argon::exp32(total_m - most), cb = argon::exp32(m - most);
    total_m = most;
    total_l = fma(l, cb, total_l * ca);
#pragma clang loop unroll(full)
    for (uint i = 0; i < Own; ++i) total_o[i] = fma(o[i], cb, total_o[i] * ca);
  }
  if (!exists) return;
  device float* to = split ? out + (u * s.segments + tg.z) * (dh + 2) : out + u * dh;
  if (split && lane == 0) {
    to[0] = total_m;
    to[1] = total_l;
  }
#pragma clang loop unroll(full)
  for (uint i = 0; i < Own; ++i) {
    const uint at = lane * Own + i;
    if (at >= dh) continue;
    if (split) {
      to[2 + at] = total_o[i];
    } else {
      to[at] = (total_o[i] / total_l) * argon::sigmoid32(own_q[dh + at]);
    }
  }
}
#define ARGON_ATTENTION(name, T, Own, Width) \
  template [[host_name(name)]] [[kernel]] decltype(qsa_attention<T, T##4, Own, Width>) qsa_attention<T, T##4, Own, Width>;
ARGON_ATTENTION("qsa_attention_f32_64", float, 2, 64)
ARGON_ATTENTION("qsa_attention_f32_128", float, 4, 128)
ARGON_ATTENTION("qsa_attention_f32_256", float, 8, 128)
ARGON_ATTENTION("qsa_attention_f32_1024", float, 32, 0)
ARGON_ATTENTION("qsa_attention_f16_64", half, 2, 64)
ARGON_ATTENTION("qsa_attention_f16_128", half, 4, 128)
ARGON_ATTENTION("qsa_attention_f16_256", half, 8, 256)
ARGON_ATTENTION("qsa_attention_f16_1024", half, 32, 0)

// A thread per value of a head's output.
kernel void qsa_attention_merge(device const float* partial [[buffer(0)]],
                                device const float* q [[buffer(1)]],
                                device const int* kept [[buffer(2)]],
                                device const int* count [[buffer(3)]],
                                device float* out [[buffer(4)]],
                                constant QsaAttentionMetalArgs& s [[buffer(5)]],
                                uint2 at [[thread_position_in_grid]]) {
  const uint i = at.x, dh = s.dh;
  const ulong u = at.y;
  if (i >= dh) return;
  KeptTokens tokens;
  find_tokens(&tokens, kept, count, s, at.y / s.nq);
  const uint n = min((tokens.size + kSegment - 1) / kSegment, s.segments);
  device const float* part = partial + u * s.segments * (dh + 2);
  float m = part[0], l = part[1], o = part[2 + i];
  for (uint k = 1; k < n; ++k) {
    part += dh + 2;
    const float most = max(m, part[0]), ca = argon::exp32(m - most), cb = argon::exp32(part[0] - most);
    m = most;
    l = fma(part[1], cb, l * ca);
    o = fma(part[2 + i], cb, o * ca);
  }
  out[u * dh + i] = (o / l) * argon::sigmoid32(q[u * 2 * dh + dh + i]);
}
