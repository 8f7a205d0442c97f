// The indexer: keys of blocks, and the exact selection of the best blocks; contract in ops/qsa_select/qsa_select.h.
//   qsa_block_keys  a simdgroup per block
//   qsa_scores      a simdgroup per token, a thread per block
//   qsa_pick        a threadgroup per token
// Scores are sums of relu from +0, so never negative, and their bits are in order as unsigned integers.
#include <metal_stdlib>
#pragma METAL fp contract(off)

#include "metal/kernels/norms.h"
#include "metal/kernels/qsa_args.h"
#include "metal/kernels/thread_dot.h"

using namespace metal;

constant constexpr uint kPickThreads = 256;
constant constexpr uint kStagedWidth = 128;  // keys up to this width are staged in threadgroup memory

// Element i of the block's mean.
template <class T>
inline float pooled(device const T* raw, uint r, uint di, uint i, float inv_r) {
  float sum = float(raw[i]);
  for (uint j = 1; j < r; ++j) sum = sum + float(raw[j * di + i]);
  return sum * inv_r;
}

template <class T>
kernel void qsa_block_keys(device const T* raw [[buffer(0)]],
                           device const float* w [[buffer(1)]],
                           device const float* rope_table [[buffer(2)]],
                           device float* keys [[buffer(3)]],
                           constant QsaBlockKeysMetalArgs& s [[buffer(4)]],
                           uint tg [[threadgroup_position_in_grid]],
                           uint sg [[simdgroup_index_in_threadgroup]],
                           uint simdgroups [[simdgroups_per_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  const uint u = tg * simdgroups + sg;
  if (u >= s.blocks) return;
  const uint b = s.first + u, di = s.di;
  device const T* rows = raw + ulong(b) * s.r * di;
  const float inv_r = 1.0f / float(s.r);
  float part[8];
  const uint groups = di < 512 ? 1 : 8;
  for (uint g = 0; g < groups; ++g) {
    float acc = 0.0f;
    for (uint i = 32 * g + lane; i < di; i += 32 * groups) {
      const float k = pooled(rows, s.r, di, i, inv_r);
      acc = fma(k, k, acc);
    }
    part[g] = fold32(acc);
  }
  const float ss =
      groups == 1 ? part[0] : ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  const float f = norm_factor(ss, di, s.eps);
  // The mean is made again rather than kept: a lane rotates pairs whose halves other lanes have summed.
  const uint pairs = s.rot / 2;
  device const float* c = rope_table + ulong(b) * s.r * s.rot;
  device float* key = keys + ulong(b) * di;
  for (uint i = lane; i < di; i += 32) {
    if (i >= pairs && i < 2 * pairs) continue;
    const float x1 = (pooled(rows, s.r, di, i, inv_r) * f) * w[i];
    if (i >= pairs) {
      key[i] = x1;
      continue;
    }
    const float x2 = (pooled(rows, s.r, di, i + pairs, inv_r) * f) * w[i + pairs];
    const float cosine = c[i], sine = c[pairs + i];
    key[i] = fma(x1, cosine, -(x2 * sine));
    key[i + pairs] = fma(x2, cosine, x1 * sine);
  }
}
template [[host_name("qsa_block_keys_f32")]] [[kernel]] decltype(qsa_block_keys<float>) qsa_block_keys<float>;
template [[host_name("qsa_block_keys_f16")]] [[kernel]] decltype(qsa_block_keys<half>) qsa_block_keys<half>;

template <class K>
inline float score_of(device const float* iq, K key, uint ni, uint di) {
  float score = 0.0f;
  for (uint h = 0; h < ni; ++h) {
    const float dot = thread_dot(iq + h * di, key, di);
    score = score + (dot > 0.0f ? dot : 0.0f);
  }
  return score;
}

kernel void qsa_scores(device const float* iq [[buffer(0)]],
                       device const float* keys [[buffer(1)]],
                       device uint* scores [[buffer(2)]],
                       constant QsaSelectMetalArgs& s [[buffer(3)]],
                       uint2 tg [[threadgroup_position_in_grid]],
                       uint tid [[thread_index_in_threadgroup]],
                       uint sg [[simdgroup_index_in_threadgroup]],
                       uint simdgroups [[simdgroups_per_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float staged[32 * (kStagedWidth + 1)];  // a word apart, so that lanes read different banks
  const uint b0 = tg.x * 32, b = b0 + lane, di = s.di;
  const uint first_t = s.t0 + tg.y * simdgroups, last_t = min(first_t + simdgroups, s.T) - 1;
  const uint last_blocks = (s.position0 + last_t + 1) / s.r;  // of the tile's last token, which sees most
  if (last_blocks <= s.budget || last_blocks <= b0) return;
  const uint rows = min(32u, last_blocks - b0);
  if (di <= kStagedWidth) {
    device const float* from = keys + ulong(b0) * di;
    for (uint i = tid; i < rows * di; i += 32 * simdgroups) staged[i / di * (kStagedWidth + 1) + i % di] = from[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  const uint t = first_t + sg;
  if (t > last_t) return;
  const uint blocks = (s.position0 + t + 1) / s.r;
  if (blocks <= s.budget || b >= blocks) return;
  device const float* q = iq + ulong(t) * s.ni * di;
  const float score = di <= kStagedWidth
                          ? score_of(q, (threadgroup const float*)(staged + lane * (kStagedWidth + 1)), s.ni, di)
                          : score_of(q, keys + ulong(b) * di, s.ni, di);
  scores[(t - s.t0) * s.stride + b] = as_type<uint>(score);
}

// A radix selection: four passes over the scores' bytes find the budget-th largest. Then each simdgroup lists the kept
// blocks of its share in ascending order, equal scores from the left as far as the budget reaches.
kernel void qsa_pick(device const uint* scores [[buffer(0)]],
                     device int* kept [[buffer(1)]],
                     device int* count [[buffer(2)]],
                     constant QsaSelectMetalArgs& s [[buffer(3)]],
                     uint tg [[threadgroup_position_in_grid]],
                     uint tid [[thread_index_in_threadgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]]) {
  threadgroup atomic_uint histogram[256];
  threadgroup uint found[2];  // the byte, and how many scores are still to be taken from its bin
  threadgroup uint above[8];
  threadgroup uint equal[8];
  const uint t = s.t0 + tg, blocks = (s.position0 + t + 1) / s.r;
  if (blocks <= s.budget) {
    if (tid == 0) count[t] = -1;  // ops::kAllBlocks
    return;
  }
  device const uint* own = scores + ulong(tg) * s.stride;
  uint prefix = 0, left = s.budget;
  for (uint pass = 0; pass < 4; ++pass) {
    const uint shift = 24 - 8 * pass;
    atomic_store_explicit(&histogram[tid], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint b = tid; b < blocks; b += kPickThreads) {
      const uint score = own[b];
      if (pass == 0 || score >> (shift + 8) == prefix)
        atomic_fetch_add_explicit(&histogram[score >> shift & 255], 1u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (sg == 0) {
      // Lane l looks at bins 255-8l .. 248-8l, so that sums run from the largest.
      uint bins[8], sum = 0;
#pragma clang loop unroll(full)
      for (uint i = 0; i < 8; ++i) {
        bins[i] = atomic_load_explicit(&histogram[255 - 8 * lane - i], memory_order_relaxed);
        sum += bins[i];
      }
      uint before = simd_prefix_exclusive_sum(sum);
#pragma clang loop unroll(full)
      for (uint i = 0; i < 8; ++i) {
        if (before < left && before + bins[i] >= left) {
          found[0] = 255 - 8 * lane - i;
          found[1] = left - before;
        }
        before += bins[i];
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    prefix = prefix << 8 | found[0];
    left = found[1];
  }
  // prefix is the smallest kept score; `left` blocks with exactly this score are kept, from the left.
  const uint share = (blocks + kPickThreads - 1) / kPickThreads * 32;
  const uint begin = min(sg * share, blocks), end = min(begin + share, blocks);
  uint more = 0, same = 0;
  for (uint b = begin + lane; b < end; b += 32) {
    const uint score = own[b];
    more += score > prefix ? 1u : 0u;
    same += score == prefix ? 1u : 0u;
  }
  more = simd_sum(more);
  same = simd_sum(same);
  if (lane == 0) above[sg] = more, equal[sg] = same;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint above_before = 0, equal_before = 0;
  for (uint i = 0; i < sg; ++i) above_before += above[i], equal_before += equal[i];
  for (uint b0 = begin; b0 < end; b0 += 32) {
    const uint score = b0 + lane < end ? own[b0 + lane] : 0u;
    const uint is_above = b0 + lane < end && score > prefix ? 1u : 0u;
    const uint is_equal = b0 + lane < end && score == prefix ? 1u : 0u;
    const uint both = is_above | is_equal << 16, before = simd_prefix_exclusive_sum(both);
    const uint rank = equal_before + (before >> 16);  // among the equal
    if (is_above != 0 || (is_equal != 0 && rank < left))
      kept[ulong(t) * s.budget + above_before + (before & 0xffffu) + min(rank, left)] = int(b0 + lane);
    const uint sums = simd_broadcast(before + both, 31);
    above_before += sums & 0xffffu;
    equal_before += sums >> 16;
  }
  if (tid == 0) count[t] = int(s.budget);
}
