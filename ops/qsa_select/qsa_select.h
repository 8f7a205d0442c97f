// The indexer of Qwen sparse attention: which blocks of r tokens a query attends to (MODEL.md "Attention
// layer").
//
//   qsa_block_keys  key of block b = rotary(rmsnorm(mean of its r raw keys), position r*b):
//                   pooled = (((k0+k1)+k2)+...)*(1/r); norm as in rms_norm (n = di); rotary as in rope.
//   qsa_select      n = position+1 visible tokens give floor(n/r) complete blocks; score[b] = over heads in
//   order, from
//                   +0: sum of relu(iq_head . key_b) (dot as in sums.h); the min(budget, blocks) best are
//                   kept, ties to the lower block, listed ascending. When all blocks are kept nothing is
//                   scored and count = -1.
//
// Shapes  raw [tokens][di] of the cache's type; keys [blocks][di] float32; iq [T][ni][di] (normed, rotated);
//         kept [T][budget] block ids; count [T]. budget = B/r blocks. -0 and +0 scores are equal.
// Units   block_keys: blocks; select: tokens.   Every token after the last complete block is always kept
// (qsa_attention). Source  NUMERICS.md "Operations" (indexer).
#pragma once

#include <cstdint>

#include "ops/kv_store/kv_store.h"
#include "ops/route.h"

namespace argon::ops {

inline constexpr int32_t kAllBlocks = -1;

struct QsaBlockKeysArgs {
  const void* raw;
  KvType type;
  const float* w;           // [di] norm weight
  const float* rope_table;  // [positions][rot]
  float* keys;
  int64_t first, blocks;  // computes keys first .. first+blocks-1
  int64_t r, di, rot;
  float eps;
};

struct QsaSelectArgs {
  const float* iq;
  const float* keys;
  int32_t* kept;
  int32_t* count;
  int64_t T, position0, ni, di, r, budget;
};

inline int64_t units(const QsaBlockKeysArgs& a) { return a.blocks; }
inline int64_t units(const QsaSelectArgs& a) { return a.T; }
void qsa_block_keys_ref(const QsaBlockKeysArgs&, int64_t begin, int64_t end);
void qsa_select_ref(const QsaSelectArgs&, int64_t begin, int64_t end);

// The selection alone: the `budget` largest of n scores, ties to the lower index, as ascending indices.
void select_blocks(const float* scores, int64_t n, int64_t budget, int32_t* kept);

}  // namespace argon::ops
