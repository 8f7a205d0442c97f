// The work of a pass: how many bytes of weights it must read and how many multiply-adds its matrix products
// are, so that measured times can be held against a machine's limits.
#pragma once

#include <cstdint>

#include "gguf/gguf.h"
#include "model/config.h"

namespace argon {

struct Work {
  double values = 0;         // weights read, each once
  double bytes = 0;          // of these weights in the file
  double multiply_adds = 0;  // of products with weights; attention and the GDN scan are not counted
};

// One pass of T tokens whose last one wants logits. A token takes K of E experts; for more than one token the
// number of distinct experts is the expectation for independent, evenly spread choices: E*(1 - (1-K/E)^T).
Work pass_work(const GgufFile& file, const ModelConfig& config, int64_t T);

}  // namespace argon
