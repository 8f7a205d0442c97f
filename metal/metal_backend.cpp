#include "metal/metal_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "formats/format.h"
#include "metal/kernels/memory_args.h"
#include "metal/rooms/rooms.h"

namespace argon {
namespace {

using metal::Argument;

const char* const kMemory = "metal/kernels/memory.metal";

// Ranges of up to this size are copied to the device's own memory: norms and their like may lie in the host's
// heap, whose pages are not the weights' alone.
constexpr size_t kCopyBytes = size_t{256} << 10;
constexpr size_t kPoolBytes = size_t{1} << 20;
// Wrapped ranges that touch are joined up to this size. A GPU makes a whole buffer resident when a kernel
// uses any part of it.
constexpr size_t kJoinBytes = size_t{1} << 30;
// Larger writes wait for the work in flight instead of going through a copy.
constexpr size_t kStageBytes = size_t{1} << 20;

uintptr_t page_floor(uintptr_t p) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return p / page * page;
}

// The widest type that divides addresses and size.
const char* width_of(uintptr_t bits) { return bits % 16 == 0 ? "16" : bits % 4 == 0 ? "4" : "1"; }

uint64_t units_of(size_t bytes, const std::string& width) {
  return bytes / static_cast<size_t>(std::stoi(width));
}

metal::Grid memory_grid(uint64_t n) {
  constexpr uint32_t kThreads = 256;
  return metal::grid(static_cast<int64_t>(std::min<uint64_t>((n + kThreads - 1) / kThreads, 4096)), kThreads);
}

}  // namespace

bool metal_available() {
  const auto d = metal::Device::open({});
  return d.ok();
}

Result<std::unique_ptr<ops::Backend>> make_metal_backend(const metal::DeviceOptions& options) {
  ARGON_ASSIGN_OR_RETURN(std::unique_ptr<ops::Backend> b, MetalBackend::create(options));
  return b;
}

Result<std::unique_ptr<MetalBackend>> MetalBackend::create(const metal::DeviceOptions& options) {
  ARGON_ASSIGN_OR_RETURN(std::unique_ptr<metal::Device> device, metal::Device::open(options));
  return std::unique_ptr<MetalBackend>(new MetalBackend(std::move(device)));
}

MetalBackend::~MetalBackend() { launcher_.wait(); }

std::string MetalBackend::name() const { return "metal (" + launcher_.device().description() + ")"; }

Result<void*> MetalBackend::allocate(size_t bytes) {
  return launcher_.device().allocate(std::max<size_t>(bytes, 1));
}

void MetalBackend::free(void* p, size_t) {
  launcher_.wait();
  launcher_.device().release(p);
}

Result<const void*> MetalBackend::place_copy(const void* host, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(host);
  if (const auto found = copies_.find(at); found != copies_.end() && found->second.bytes >= bytes) {
    return found->second.data;
  }
  const size_t size = (bytes + 255) / 256 * 256;
  if (size > pool_left_) {
    ARGON_ASSIGN_OR_RETURN(void* const block, launcher_.device().allocate(kPoolBytes));
    pool_ = static_cast<std::byte*>(block);
    pool_left_ = kPoolBytes;
  }
  std::memcpy(pool_, host, bytes);
  const void* data = pool_;
  copies_[at] = {bytes, data};
  pool_ += size;
  pool_left_ -= size;
  return data;
}

Result<const void*> MetalBackend::place(const void* host, size_t bytes) {
  if (bytes <= kCopyBytes) return place_copy(host, bytes);
  const auto p = reinterpret_cast<uintptr_t>(host);
  if (const auto at = wrapped_.upper_bound(p); at != wrapped_.begin()) {
    const auto& [base, size] = *std::prev(at);
    if (p + bytes <= base + size) return host;
  }
  const uintptr_t base = page_floor(p);
  size_t& size = pending_[base];
  size = std::max(size, p + bytes - base);
  return host;
}

void MetalBackend::settle() {
  if (pending_.empty()) return;
  // What is there already and shares more than a page with something new is wrapped again, joined.
  for (auto it = wrapped_.begin(); it != wrapped_.end();) {
    const auto& [base, size] = *it;
    const uintptr_t first = base, last_page = page_floor(base + size - 1);
    const bool touched = std::any_of(pending_.begin(), pending_.end(), [&](const auto& p) {
      return p.first < last_page && page_floor(p.first + p.second - 1) > first;
    });
    if (!touched) {
      ++it;
      continue;
    }
    launcher_.device().release(reinterpret_cast<const void*>(base));
    size_t& again = pending_[base];
    again = std::max(again, size);
    it = wrapped_.erase(it);
  }
  const size_t most = std::min(kJoinBytes, launcher_.device().max_buffer_bytes());
  while (!pending_.empty()) {
    const uintptr_t base = pending_.begin()->first;
    uintptr_t end = base + pending_.begin()->second;
    pending_.erase(pending_.begin());
    while (!pending_.empty()) {
      const auto& [next, size] = *pending_.begin();
      const uintptr_t joined = std::max(end, next + size);
      // Two ranges may share one page at their seam (metal/device.h); more must be one range.
      if (next > end || (joined - base > most && next >= page_floor(end - 1))) break;
      end = joined;
      pending_.erase(pending_.begin());
    }
    const Status s = launcher_.device().wrap(reinterpret_cast<const void*>(base), end - base);
    if (!s.ok()) return launcher_.fail(s);
    wrapped_[base] = end - base;
  }
}

void MetalBackend::write(void* to, const void* from_host, size_t bytes) {
  if (bytes == 0) return;
  if (launcher_.in_flight() && bytes <= kStageBytes) {
    if (const void* staged = launcher_.stage(from_host, bytes)) return copy(to, staged, bytes);
  }
  launcher_.wait();
  std::memcpy(to, from_host, bytes);
}

void MetalBackend::read(void* to_host, const void* from, size_t bytes) {
  launcher_.wait();
  if (bytes != 0) std::memcpy(to_host, from, bytes);
}

void MetalBackend::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (!launcher_.in_flight()) {
    std::memcpy(to, from, bytes);
    return;
  }
  settle();
  const char* width = width_of(reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes);
  const MemoryMetalArgs args{units_of(bytes, width)};
  launcher_.dispatch(kMemory, (std::string("copy_") + width).c_str(), {},
                     {metal::bytes(from, bytes), metal::bytes(to, bytes), Argument::value(args)},
                     memory_grid(args.n));
}

void MetalBackend::zero(void* to, size_t bytes) {
  if (bytes == 0) return;
  if (!launcher_.in_flight()) {
    std::memset(to, 0, bytes);
    return;
  }
  const char* width = width_of(reinterpret_cast<uintptr_t>(to) | bytes);
  const MemoryMetalArgs args{units_of(bytes, width)};
  launcher_.dispatch(kMemory, (std::string("zero_") + width).c_str(), {},
                     {metal::bytes(to, bytes), Argument::value(args)}, memory_grid(args.n));
}

Status MetalBackend::finish() {
  settle();
  return launcher_.finish();
}

bool MetalBackend::can_compute(WeightType type) const { return find_format(type) != nullptr; }

template <class Args>
void MetalBackend::start(const Args& a) {
  settle();
  metal::run(launcher_, a);
}

void MetalBackend::run(const ops::QuantizeArgs& a) { start(a); }
void MetalBackend::run(const ops::MatmulArgs& a) { start(a); }
void MetalBackend::run(const ops::MatmulGroupedArgs& a) { start(a); }
void MetalBackend::run(const ops::EmbedArgs& a) { start(a); }
void MetalBackend::run(const ops::RmsNormArgs& a) { start(a); }
void MetalBackend::run(const ops::RopeArgs& a) { start(a); }
void MetalBackend::run(const ops::KvStoreArgs& a) { start(a); }
void MetalBackend::run(const ops::MoeCombineArgs& a) { start(a); }
void MetalBackend::run(const ops::SwigluArgs& a) { start(a); }
void MetalBackend::run(const ops::QsaAttentionArgs& a) { start(a); }
void MetalBackend::run(const ops::GrNormArgs& a) { start(a); }
void MetalBackend::run(const ops::GrApplyArgs& a) { start(a); }
void MetalBackend::run(const ops::GrGateArgs& a) { start(a); }
void MetalBackend::run(const ops::GrMixArgs& a) { start(a); }
void MetalBackend::run(const ops::GdnPreArgs& a) { start(a); }
void MetalBackend::run(const ops::GdnScanArgs& a) { start(a); }
void MetalBackend::run(const ops::GdnPostArgs& a) { start(a); }
void MetalBackend::run(const ops::QsaBlockKeysArgs& a) { start(a); }
void MetalBackend::run(const ops::QsaSelectArgs& a) { start(a); }
void MetalBackend::run(const ops::MoeRouteArgs& a) { start(a); }
void MetalBackend::run(const ops::MoeGroupArgs& a) { start(a); }
void MetalBackend::run(const ops::NgramHashArgs& a) { start(a); }
void MetalBackend::run(const ops::NgramGateArgs& a) { start(a); }
void MetalBackend::run(const ops::NgramConvArgs& a) { start(a); }

void MetalBackend::run_combined_norm(const ops::MoeCombineArgs& combine, const ops::GrNormArgs& norm) {
  settle();
  metal::run_combined_norm(launcher_, combine, norm);
}

}  // namespace argon
