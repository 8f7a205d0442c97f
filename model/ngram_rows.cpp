#include "model/ngram_rows.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "ops/ngram_embed/ngram_embed.h"

namespace argon {
namespace {

// Rows are far apart, so where the file is not in memory each is a wait for the disk: many at a time.
constexpr size_t kReaders = 8, kFewRows = 1024;

}  // namespace

void NgramRows::start(std::vector<int32_t> window) {
  discard();
  const int64_t T = static_cast<int64_t>(window.size()) - (c_.ngram - 1);
  ids_.resize(static_cast<size_t>(T * c_.ple_heads()));
  rows_.resize(ids_.size() * table_.row_bytes);
  ops::ngram_hash_ref({window.data(), c_.multipliers.data(), c_.head_sizes.data(), c_.head_offsets.data(),
                       ids_.data(), T, c_.ngram, c_.G, c_.ple_eos},
                      0, T);
  started_ = true;
  if (ids_.size() <= kFewRows) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    for (const int32_t id : ids_) {
      const uintptr_t at =
          reinterpret_cast<uintptr_t>(table_.data) + static_cast<size_t>(id) * table_.row_bytes;
      const uintptr_t first = at / page * page;
      // A hint: that the memory is no mapped file is no matter.
      static_cast<void>(
          posix_madvise(reinterpret_cast<void*>(first), at + table_.row_bytes - first, POSIX_MADV_WILLNEED));
    }
    return fetch(0, ids_.size());
  }
  for (size_t i = 0; i < kReaders; ++i) {
    readers_.push_back(std::async(std::launch::async, [this, i] {
      fetch(ids_.size() * i / kReaders, ids_.size() * (i + 1) / kReaders);
    }));
  }
}

void NgramRows::fetch(size_t begin, size_t end) {
  const auto* table = static_cast<const std::byte*>(table_.data);
  for (size_t i = begin; i < end; ++i) {
    std::memcpy(rows_.data() + i * table_.row_bytes, table + static_cast<size_t>(ids_[i]) * table_.row_bytes,
                table_.row_bytes);
  }
}

std::span<const std::byte> NgramRows::take() {
  discard();
  return rows_;
}

void NgramRows::discard() {
  for (auto& r : readers_) r.wait();
  readers_.clear();
  started_ = false;
}

}  // namespace argon
