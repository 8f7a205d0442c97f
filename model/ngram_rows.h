// The n-gram table's rows of a pass, fetched from the (mapped) file ahead of their use, for backends whose
// memory the table is not in: which rows a pass reads depends on its tokens alone.
#pragma once

#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "model/config.h"
#include "ops/matmul/matmul.h"

namespace argon {

class NgramRows {
 public:
  // `table` as in the file; it and `config` must outlive the object.
  NgramRows(const ModelConfig& config, const ops::WeightMatrix& table) : c_(config), table_(table) {}
  ~NgramRows() { discard(); }
  NgramRows(const NgramRows&) = delete;
  NgramRows& operator=(const NgramRows&) = delete;

  // Begins to fetch the rows of the tokens of `window` but the first n-1, which are predecessors. A long
  // window is read by threads of its own.
  void start(std::vector<int32_t> window);
  bool started() const { return started_; }
  // The rows, one after another as in the file, (n-1)*G for each token; valid until the next start.
  std::span<const std::byte> take();
  void discard();

 private:
  void fetch(size_t begin, size_t end);

  const ModelConfig& c_;
  const ops::WeightMatrix& table_;
  bool started_ = false;
  std::vector<int32_t> ids_;
  std::vector<std::byte> rows_;
  std::vector<std::future<void>> readers_;
};

}  // namespace argon
