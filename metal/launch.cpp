#include "metal/launch.h"

#include <algorithm>
#include <cstring>

namespace argon::metal {

Launcher::~Launcher() { static_cast<void>(device_->finish()); }

int Launcher::Less::compare(const Key& a, const View& b) {
  if (const int c = a.path.compare(b.path); c != 0) return c;
  if (const int c = a.entry.compare(b.entry); c != 0) return c;
  const size_t n = std::min(a.constants.size(), b.constants.size());
  for (size_t i = 0; i < n; ++i) {
    const std::pair<uint32_t, uint32_t> other{b.constants[i].index, b.constants[i].bits};
    if (a.constants[i] != other) return a.constants[i] < other ? -1 : 1;
  }
  return a.constants.size() == b.constants.size() ? 0 : a.constants.size() < b.constants.size() ? -1 : 1;
}

void Launcher::dispatch(const char* path, const char* entry, std::span<const Constant> constants,
                        std::span<const Argument> arguments, const Grid& grid) {
  const Size3& g = grid.threadgroups;
  if (failed() || g.x == 0 || g.y == 0 || g.z == 0) return;
  auto at = pipelines_.find(View{path, entry, constants});
  if (at == pipelines_.end()) {
    Result<Pipeline> made = device_->pipeline(path, entry, constants);
    if (!made.ok()) return fail(made.status());
    Key key{path, entry, {}};
    for (const Constant& c : constants) key.constants.emplace_back(c.index, c.bits);
    at = pipelines_.emplace(std::move(key), std::move(made).value()).first;
  }
  in_flight_ = true;
  const Status s = device_->dispatch(at->second, arguments, grid);
  if (!s.ok()) fail(s);
}

bool Launcher::reserve(Memory& m, size_t bytes) {
  if (failed()) return false;
  if (bytes <= m.size) return true;
  const size_t size = std::max({bytes, 2 * m.size, size_t{1} << 16});
  Result<void*> p = device_->allocate(size);
  if (!p.ok()) {
    fail(p.status());
    return false;
  }
  if (m.data != nullptr) retired_.push_back(m.data);
  m = {static_cast<std::byte*>(*p), size, 0};
  return true;
}

void* Launcher::scratch(size_t bytes) { return reserve(scratch_, bytes) ? scratch_.data : nullptr; }

const void* Launcher::stage(const void* host, size_t bytes) {
  constexpr size_t kAlign = 64;
  if (!reserve(staging_, staging_.used + bytes)) return nullptr;
  std::byte* to = staging_.data + staging_.used;
  std::memcpy(to, host, bytes);
  staging_.used += (bytes + kAlign - 1) / kAlign * kAlign;
  return to;
}

void Launcher::wait() {
  if (!in_flight_) return;
  const Status s = device_->finish();
  if (!s.ok()) fail(s);
  in_flight_ = false;
  staging_.used = 0;
  for (void* p : retired_) device_->release(p);
  retired_.clear();
}

Status Launcher::finish() {
  wait();
  Status s = error_;
  error_ = {};
  return s;
}

}  // namespace argon::metal
