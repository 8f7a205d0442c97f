// The queue of one CUDA stream: launches, copies and fills in order, the first error kept for finish().
//
// Launches are collected until something needs them done. A long list whose kernels came in the same order
// before (a step of the model) becomes a CUDA graph: from then on only the nodes whose parameters or grid
// changed are updated, and the whole list is started by one call. Early kernels (queue.h) keep their freedom
// in both ways. Small writes from the host travel as a kernel's parameters, so that they do not cut a list.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cuda/queue.h"
#include "ops/backend_memory.h"

namespace argon::cuda {

class StreamQueue final : public Queue {
 public:
  StreamQueue() = default;
  ~StreamQueue() override;
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;
  // kResource when the device cannot be used.
  Status open(int device);

  void write(void* to, const void* from_host, size_t bytes);
  void read(void* to_host, const void* from, size_t bytes);
  void copy(void* to, const void* from, size_t bytes);
  // Starts copies into memory of cudaMallocHost and all that was collected before; they are there after
  // read_end.
  void read_begin(std::span<const ops::ReadPart> parts);
  void read_end();
  void zero(void* to, size_t bytes);

  // Waits; the first error since the last call.
  Status finish();
  // Hands everything collected to the device.
  void flush();
  // Lists are replayed as graphs (the default) or always started kernel by kernel.
  void use_graphs(bool on) { use_graphs_ = on; }
  // Early kernels may start early (the default where device and code can) or wait like all others.
  void use_early(bool on) { use_early_ = on && can_start_early_; }
  // For benches: from now on each launch is timed on its own, until the times are taken: kernel, calls, ms.
  struct KernelTime {
    std::string kernel;
    unsigned blocks;
    int64_t calls;
    double ms;
  };
  void start_profile() { profiling_ = true; }
  std::vector<KernelTime> take_profile();
  cudaStream_t stream() const { return stream_; }
  const std::string& device_name() const { return name_; }

  void* scratch(size_t bytes) override;
  int processors() const override { return processors_; }
  bool ok() const { return error_.ok(); }  // no error is kept
  // Keeps the first error.
  bool check(cudaError_t e, const char* what);
  // What to say of an error, and of a refusal of `bytes` of the device's memory (cuda/errors.h).
  Status failure(cudaError_t e, const char* doing) const;
  Status refusal(cudaError_t e, size_t bytes, const char* what) const;

 private:
  void add(const void* kernel, dim3 grid, int block, size_t shared, bool early, const void* params,
           size_t bytes) override;

  struct Launch {
    const void* kernel;
    dim3 grid;
    int block;
    bool early;
    size_t shared, at, bytes;  // of the parameters in the list's block of them
  };
  struct List {
    std::vector<Launch> launches;
    std::vector<unsigned char> params;
    void* param(const Launch& l) { return params.data() + l.at; }
  };
  struct Graph {
    List list;  // as the nodes stand
    std::vector<cudaGraphNode_t> nodes;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    uint64_t last_use = 0;
    ~Graph();
  };
  bool launch_graph();
  bool launch_one(List& list, const Launch& l);
  bool build(Graph& g);
  static uint64_t signature(const List& list);

  List list_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<uint64_t> seen_;  // signatures of lists that came once
  uint64_t uses_ = 0;
  bool use_graphs_ = true, use_early_ = false, can_start_early_ = false, profiling_ = false;
  std::map<std::pair<const void*, unsigned>, KernelTime> times_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t read_done_ = nullptr;
  int processors_ = 1;
  std::string name_;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  uint8_t* bounce_ = nullptr;  // host memory that the device copies to at full speed, for read()
  Status error_;
};

}  // namespace argon::cuda
