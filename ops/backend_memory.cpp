#include "ops/backend_memory.h"

#include <algorithm>
#include <cstdlib>

namespace argon::ops {
namespace {

size_t bytes_of(const ExpertMatrix& m) {
  return static_cast<size_t>(m.experts - 1) * m.expert_bytes +
         static_cast<size_t>(m.first.rows) * m.first.row_bytes;
}

}  // namespace

Status BackendMemory::place_experts(std::span<ExpertMatrix* const> of_a_layer) {
  // Views of one tensor overlap; each overlapping range is placed as a whole.
  struct Range {
    const std::byte *begin, *end;
  };
  const auto range = [](const ExpertMatrix& m) {
    const auto* data = static_cast<const std::byte*>(m.first.data);
    return Range{data, data + bytes_of(m)};
  };
  std::vector<Range> hosts;
  for (const ExpertMatrix* m : of_a_layer) {
    Range all = range(*m);
    std::erase_if(hosts, [&](const Range& r) {
      const bool overlaps = all.begin < r.end && r.begin < all.end;
      if (overlaps) all = {std::min(all.begin, r.begin), std::max(all.end, r.end)};
      return overlaps;
    });
    hosts.push_back(all);
  }
  std::vector<const std::byte*> placed;
  for (const Range& r : hosts) {
    ARGON_ASSIGN_OR_RETURN(const void* p, place(r.begin, static_cast<size_t>(r.end - r.begin)));
    placed.push_back(static_cast<const std::byte*>(p));
  }
  for (ExpertMatrix* m : of_a_layer) {
    const auto* data = static_cast<const std::byte*>(m->first.data);
    for (size_t i = 0; i < hosts.size(); ++i) {
      if (data >= hosts[i].begin && data < hosts[i].end) {
        m->first.data = placed[i] + (data - hosts[i].begin);
        break;
      }
    }
  }
  return {};
}

Result<ExpertMatrix> BackendMemory::allocate_experts(const ExpertMatrix& like, int64_t count, bool) {
  ExpertMatrix m = like;
  m.experts = count;
  m.expert_bytes = expert_room(like);
  ARGON_ASSIGN_OR_RETURN(m.first.data, allocate(static_cast<size_t>(count) * m.expert_bytes));
  return m;
}

void BackendMemory::put_expert(const ExpertMatrix& to, int64_t at, const void* host) {
  auto* base = static_cast<std::byte*>(const_cast<void*>(to.first.data));
  write(base + static_cast<size_t>(at) * to.expert_bytes, host,
        static_cast<size_t>(to.first.rows) * to.first.row_bytes);
}

Result<void*> BackendMemory::allocate_host(size_t bytes) {
  void* p = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (p == nullptr) return resource_error("cannot get " + std::to_string(bytes >> 20) + " MiB of memory");
  return p;
}

void BackendMemory::free_host(void* p, size_t) { std::free(p); }

}  // namespace argon::ops
