#include "cuda/stream_queue.h"

#include <algorithm>
#include <cstring>

#include "cuda/errors.h"
#include "cuda/host_copy.h"

namespace argon::cuda {
namespace {

// A list of this many launches or more is worth a graph; a longer one than the second is cut. Two thirds of
// the tokens of a long answer find the indexer's block unfinished, so a model's steps come in a few variants.
constexpr size_t kShortestGraph = 32, kLongestList = 8192, kMostGraphs = 12;

constexpr size_t kBounce = size_t{2} << 20;

// Up to here a kernel writes to the host's memory, above it copies are faster.
constexpr size_t kSmallRead = size_t{256} << 10;

// After these the process can use the device no more: every call returns the same error.
bool is_lost(cudaError_t e) {
  switch (e) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

DeviceMemory device_memory() {
  size_t free = 0, total = 0;
  static_cast<void>(cudaMemGetInfo(&free, &total));
  return {free, total};
}

}  // namespace

StreamQueue::~StreamQueue() {
  graphs_.clear();
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  cudaFree(scratch_);
  cudaFreeHost(bounce_);
  cudaEventDestroy(read_done_);
  cudaStreamDestroy(stream_);
}

Status StreamQueue::open(int device) {
  cudaDeviceProp p{};
  if (const cudaError_t e = cudaGetDeviceProperties(&p, device); e != cudaSuccess) {
    return resource_error(std::string("no CUDA device ") + std::to_string(device) + ": " +
                          cudaGetErrorString(e));
  }
  if (p.major < 8) {
    return unsupported(std::string(p.name) + " has compute capability " + std::to_string(p.major) + "." +
                       std::to_string(p.minor) + ": wanted 8.0 or newer; use --backend cpu");
  }
  name_ = p.name;
  // Code made for older devices does not wait (device.cuh), whatever the device could do.
  can_start_early_ = use_early_ = p.major >= 9 && early_code_version() >= 90;
  processors_ = p.multiProcessorCount;
  if (!check(cudaSetDevice(device), "choosing the device") ||
      !check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream") ||
      !check(cudaEventCreateWithFlags(&read_done_, cudaEventDisableTiming), "making an event")) {
    return finish();
  }
  if (early_code_version() == 0) {
    return unsupported(name_ + " has compute capability " + std::to_string(p.major) + "." +
                       std::to_string(p.minor) +
                       ", for which this argon holds no code: build it with -DCMAKE_CUDA_ARCHITECTURES=" +
                       std::to_string(p.major) + std::to_string(p.minor) + ", or use --backend cpu");
  }
  return {};
}

bool StreamQueue::check(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return true;
  if (error_.ok()) error_ = failure(e, what);
  return false;
}

// Forgets the error, where it can be forgotten, so that later calls do not report it.
Status StreamQueue::failure(cudaError_t e, const char* doing) const {
  cudaGetLastError();
  const Status s = device_error(name_, doing, cudaGetErrorString(e), is_lost(e));
  if (e != cudaErrorMemoryAllocation) return s;
  return resource_error(s.message() + ": " + memory_advice(device_memory()));
}

Status StreamQueue::refusal(cudaError_t e, size_t bytes, const char* what) const {
  if (e != cudaErrorMemoryAllocation) return failure(e, "getting memory");
  cudaGetLastError();
  return out_of_memory(bytes, what, device_memory());
}

StreamQueue::Graph::~Graph() {
  if (exec != nullptr) cudaGraphExecDestroy(exec);
  if (graph != nullptr) cudaGraphDestroy(graph);
}

void StreamQueue::add(const void* kernel, dim3 grid, int block, size_t shared, bool early, const void* params,
                      size_t bytes) {
  const size_t at = (list_.params.size() + 15) / 16 * 16;
  list_.params.resize(at + bytes);
  std::memcpy(list_.params.data() + at, params, bytes);
  list_.launches.push_back({kernel, grid, block, early, shared, at, bytes});
  if (list_.launches.size() >= kLongestList) flush();
}

uint64_t StreamQueue::signature(const List& list) {
  uint64_t h = list.launches.size();
  for (const Launch& l : list.launches) {
    h = (h ^ reinterpret_cast<uintptr_t>(l.kernel) ^ static_cast<uint64_t>(l.block) << 48) *
        0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return h;
}

bool StreamQueue::launch_one(List& list, const Launch& l) {
  void* args[] = {list.param(l)};
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = l.grid;
  config.blockDim = dim3(static_cast<unsigned>(l.block));
  config.dynamicSmemBytes = l.shared;
  config.stream = stream_;
  config.attrs = &early;
  config.numAttrs = l.early && use_early_ ? 1 : 0;
  return check(cudaLaunchKernelExC(&config, l.kernel, args), "starting a kernel");
}

void StreamQueue::flush() {
  if (list_.launches.empty()) return;
  if (profiling_) {
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin), "timing");
    check(cudaEventCreate(&end), "timing");
    for (const Launch& l : list_.launches) {
      float ms = 0.0f;
      cudaEventRecord(begin, stream_);
      if (!launch_one(list_, l)) break;
      cudaEventRecord(end, stream_);
      cudaEventSynchronize(end);
      cudaEventElapsedTime(&ms, begin, end);
      KernelTime& t = times_[{l.kernel, l.grid.x * l.grid.y * l.grid.z}];
      t.calls += 1;
      t.ms += static_cast<double>(ms);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  } else if (error_.ok() && !(use_graphs_ && list_.launches.size() >= kShortestGraph && launch_graph())) {
    for (const Launch& l : list_.launches) {
      if (!launch_one(list_, l)) break;
    }
  }
  list_.launches.clear();
  list_.params.clear();
}

std::vector<StreamQueue::KernelTime> StreamQueue::take_profile() {
  flush();
  std::vector<KernelTime> all;
  for (auto& [key, t] : times_) {
    const char* name = nullptr;
    t.blocks = key.second;
    if (cudaFuncGetName(&name, key.first) == cudaSuccess && name != nullptr) t.kernel = name;
    all.push_back(t);
  }
  std::sort(all.begin(), all.end(), [](const KernelTime& x, const KernelTime& y) { return x.ms > y.ms; });
  times_.clear();
  profiling_ = false;
  return all;
}

// By recording the stream, which turns early starts into the graph's programmatic edges.
bool StreamQueue::build(Graph& g) {
  if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return false;
  bool good = true;
  for (const Launch& l : g.list.launches) {
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* last = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    size_t count = 0;
    good =
        launch_one(g.list, l) &&
        cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &last, &edges, &count) == cudaSuccess &&
        count == 1;
    if (!good) break;
    g.nodes.push_back(*last);
  }
  good = cudaStreamEndCapture(stream_, &g.graph) == cudaSuccess && good;
  return good && cudaGraphInstantiate(&g.exec, g.graph, 0) == cudaSuccess;
}

// False when the list is to be started kernel by kernel: it is new, or there is no graph to be had.
bool StreamQueue::launch_graph() {
  const uint64_t key = signature(list_);
  Graph* g = nullptr;
  for (const auto& known : graphs_) {
    const auto same = [&](const Launch& x, const Launch& y) {
      return x.kernel == y.kernel && x.block == y.block;
    };
    if (std::equal(known->list.launches.begin(), known->list.launches.end(), list_.launches.begin(),
                   list_.launches.end(), same)) {
      g = known.get();
    }
  }
  if (g == nullptr) {
    if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) {
      if (seen_.size() >= 64) seen_.erase(seen_.begin());
      seen_.push_back(key);
      return false;
    }
    if (graphs_.size() >= kMostGraphs) {
      graphs_.erase(std::min_element(graphs_.begin(), graphs_.end(),
                                     [](const auto& x, const auto& y) { return x->last_use < y->last_use; }));
    }
    auto made = std::make_unique<Graph>();
    made->list = list_;
    if (!build(*made)) {
      cudaGetLastError();
      // A launch that was refused would be refused again; otherwise there are no graphs to be had here.
      if (error_.ok()) use_graphs_ = false;
      return !error_.ok();
    }
    g = made.get();
    graphs_.push_back(std::move(made));
  }
  for (size_t i = 0; i < list_.launches.size(); ++i) {
    const Launch &l = list_.launches[i], &old = g->list.launches[i];
    if (l.grid.x == old.grid.x && l.grid.y == old.grid.y && l.grid.z == old.grid.z &&
        l.shared == old.shared && std::memcmp(list_.param(l), g->list.param(old), l.bytes) == 0) {
      continue;
    }
    void* args[] = {list_.param(l)};
    cudaKernelNodeParams p{};
    p.func = const_cast<void*>(l.kernel);
    p.gridDim = l.grid;
    p.blockDim = dim3(static_cast<unsigned>(l.block));
    p.sharedMemBytes = static_cast<unsigned>(l.shared);
    p.kernelParams = args;
    if (!check(cudaGraphExecKernelNodeSetParams(g->exec, g->nodes[i], &p), "updating a graph")) {
      // Some of its nodes are new, some are old.
      std::erase_if(graphs_, [g](const auto& known) { return known.get() == g; });
      return true;
    }
  }
  g->list = list_;
  g->last_use = ++uses_;
  check(cudaGraphLaunch(g->exec, stream_), "starting a graph");
  return true;
}

void StreamQueue::write(void* to, const void* from_host, size_t bytes) {
  if (bytes > 0 && bytes <= kSmallWrite) return small_write(*this, to, from_host, bytes);
  flush();
  if (bytes == 0 || !error_.ok()) return;
  // From pageable memory: the call returns once the bytes are staged, so the caller may reuse them.
  check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_), "copying to the device");
}

void StreamQueue::read(void* to_host, const void* from, size_t bytes) {
  flush();
  if (bytes == 0 || !error_.ok()) return;
  if (bounce_ == nullptr && cudaMallocHost(reinterpret_cast<void**>(&bounce_), kBounce) != cudaSuccess) {
    cudaGetLastError();
    bounce_ = nullptr;
  }
  if (bytes > kBounce || bounce_ == nullptr) {
    if (check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_),
              "copying from the device"))
      check(cudaStreamSynchronize(stream_), "computing");
    return;
  }
  if (check(cudaMemcpyAsync(bounce_, from, bytes, cudaMemcpyDeviceToHost, stream_),
            "copying from the device") &&
      check(cudaStreamSynchronize(stream_), "computing")) {
    std::memcpy(to_host, bounce_, bytes);
  }
}

void StreamQueue::read_begin(std::span<const ops::ReadPart> parts) {
  size_t all = 0;
  for (const ops::ReadPart& p : parts) all += p.bytes;
  const bool small = all <= kSmallRead && parts.size() <= HostCopy::kMost;
  if (small) {
    HostCopy c{};
    for (const ops::ReadPart& p : parts) {
      c.parts[c.count++] = {static_cast<uint8_t*>(p.to_host), static_cast<const uint8_t*>(p.from),
                            static_cast<int64_t>(p.bytes)};
    }
    copy_to_host(*this, c);
  }
  flush();
  if (!error_.ok()) return;
  for (const ops::ReadPart& p : parts) {
    if (small || p.bytes == 0) continue;
    if (!check(cudaMemcpyAsync(p.to_host, p.from, p.bytes, cudaMemcpyDeviceToHost, stream_),
               "copying from the device"))
      return;
  }
  check(cudaEventRecord(read_done_, stream_), "marking a copy");
}

void StreamQueue::read_end() {
  if (error_.ok()) check(cudaEventSynchronize(read_done_), "computing");
}

void StreamQueue::copy(void* to, const void* from, size_t bytes) {
  flush();
  if (bytes == 0 || !error_.ok()) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copying on the device");
}

void StreamQueue::zero(void* to, size_t bytes) {
  flush();
  if (bytes == 0 || !error_.ok()) return;
  check(cudaMemsetAsync(to, 0, bytes, stream_), "clearing memory");
}

void* StreamQueue::scratch(size_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  flush();
  check(cudaStreamSynchronize(stream_), "computing");
  cudaFree(scratch_);
  scratch_ = nullptr;
  scratch_bytes_ = 0;
  const size_t wanted = std::max(bytes, size_t{16} << 20);
  if (const cudaError_t e = cudaMalloc(&scratch_, wanted); e != cudaSuccess) {
    scratch_ = nullptr;
    if (error_.ok()) error_ = refusal(e, wanted, "working memory of kernels");
    return nullptr;
  }
  scratch_bytes_ = wanted;
  return scratch_;
}

Status StreamQueue::finish() {
  flush();
  if (stream_ != nullptr) check(cudaStreamSynchronize(stream_), "computing");
  Status s = std::move(error_);
  error_ = {};
  return s;
}

}  // namespace argon::cuda
