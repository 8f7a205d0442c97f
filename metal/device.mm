// metal/device.h on a Mac. UNTESTED: written with care against the framework's documentation; no Mac has compiled or run it
// yet (metal/README.md). Nothing above device.h may depend on a difference between this file and the executor.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "metal/device.h"
#include "metal/source.h"

namespace argon::metal {

struct PipelineState {
  id<MTLComputePipelineState> state;
  std::string path, entry;
  struct Binding {
    std::string name;
    size_t index;
    size_t bytes, align;  // of the pointed-to type
    bool threadgroup, writable;
  };
  std::vector<Binding> bindings;  // those that the function constants leave in
  size_t arguments = 0;           // one more than the highest buffer index in use
};

namespace {

std::string text_of(NSError* error) { return error == nil ? "no reason given" : std::string(error.localizedDescription.UTF8String); }

size_t page_round(size_t n) {
  const auto page = static_cast<size_t>(getpagesize());
  return (std::max<size_t>(n, 1) + page - 1) / page * page;
}

// The framework's compiler gives positions as "program_source:LINE:COLUMN" or by the #line directives that
// metal/source.h leaves in the text; with those, messages already name the .metal file.
class MacDevice final : public Device {
 public:
  MacDevice(id<MTLDevice> device, id<MTLCommandQueue> queue, const DeviceOptions& o) : device_(device), queue_(queue), options_(o) {}
  ~MacDevice() override { (void)finish(); }

  std::string description() const override { return std::string(device_.name.UTF8String); }
  bool is_gpu() const override { return true; }

  Result<void*> allocate(size_t bytes) override {
    id<MTLBuffer> buffer = [device_ newBufferWithLength:page_round(bytes) options:MTLResourceStorageModeShared];
    if (buffer == nil) return resource_error("no GPU memory for a buffer of " + std::to_string(bytes) + " bytes");
    std::memset(buffer.contents, 0, buffer.length);
    memory_[reinterpret_cast<uintptr_t>(buffer.contents)] = {buffer, bytes, false};
    return buffer.contents;
  }

  Status wrap(const void* base, size_t bytes) override {
    const auto p = reinterpret_cast<uintptr_t>(base);
    if (base == nullptr || bytes == 0 || p % page_round(1) != 0) {
      return bad_input("only page-aligned memory of at least one byte can be wrapped");
    }
    // A length that is a multiple of the page is wanted; the rest of a mapping's last page exists too.
    id<MTLBuffer> buffer = [device_ newBufferWithBytesNoCopy:const_cast<void*>(base)
                                                      length:page_round(bytes)
                                                     options:MTLResourceStorageModeShared
                                                 deallocator:nil];
    if (buffer == nil) return resource_error("the GPU refuses to share " + std::to_string(bytes) + " bytes of mapped memory");
    memory_[p] = {buffer, bytes, true};
    return {};
  }

  size_t max_buffer_bytes() const override { return device_.maxBufferLength; }

  size_t extent(const void* p) const override {
    const auto it = holding(p);
    return it == memory_.end() ? 0 : it->first + it->second.bytes - reinterpret_cast<uintptr_t>(p);
  }

  void release(const void* base) override {
    wait();
    memory_.erase(reinterpret_cast<uintptr_t>(base));
  }

  Result<Pipeline> pipeline(const std::string& path, const std::string& entry, std::span<const Constant> constants) override {
    @autoreleasepool {
      ARGON_ASSIGN_OR_RETURN(id<MTLLibrary> library, library_of(path));
      MTLFunctionConstantValues* values = [MTLFunctionConstantValues new];
      for (const Constant& c : constants) {
        const bool flag = c.bits != 0;
        const MTLDataType type = c.type == Constant::Type::kBool   ? MTLDataTypeBool
                                 : c.type == Constant::Type::kInt  ? MTLDataTypeInt
                                 : c.type == Constant::Type::kUint ? MTLDataTypeUInt
                                                                   : MTLDataTypeFloat;
        const void* value = c.type == Constant::Type::kBool ? static_cast<const void*>(&flag) : &c.bits;
        [values setConstantValue:value type:type atIndex:c.index];
      }
      NSString* name = [NSString stringWithUTF8String:entry.c_str()];
      if (![library.functionNames containsObject:name]) {
        std::string names;
        for (NSString* n in library.functionNames) names += (names.empty() ? "" : ", ") + std::string(n.UTF8String);
        return bad_input(path + ":1: error: no kernel '" + entry + "' in this file; it has: " + names);
      }
      NSError* error = nil;
      id<MTLFunction> function = [library newFunctionWithName:name constantValues:values error:&error];
      if (function == nil) return bad_input(path + ":1: error: kernel '" + entry + "': " + text_of(error));
      MTLComputePipelineReflection* reflection = nil;
      id<MTLComputePipelineState> made =
          [device_ newComputePipelineStateWithFunction:function
                                               options:MTLPipelineOptionBindingInfo | MTLPipelineOptionBufferTypeInfo
                                            reflection:&reflection
                                                 error:&error];
      if (made == nil) return bad_input(path + ":1: error: kernel '" + entry + "': " + text_of(error));
      if (made.threadExecutionWidth != 32) return unsupported("kernels are written for simdgroups of 32 threads; this GPU has others");
      auto state = std::make_shared<PipelineState>();
      state->state = made;
      state->path = path;
      state->entry = entry;
      for (id<MTLBinding> b in reflection.bindings) {
        const bool threadgroup = b.type == MTLBindingTypeThreadgroupMemory;
        if (!threadgroup && b.type != MTLBindingTypeBuffer) continue;
        size_t bytes = 1, align = 1;
        if (!threadgroup) {
          id<MTLBufferBinding> buffer = static_cast<id<MTLBufferBinding>>(b);
          bytes = buffer.bufferDataSize;
          align = buffer.bufferAlignment;
          state->arguments = std::max<size_t>(state->arguments, b.index + 1);
        }
        state->bindings.push_back({b.name.UTF8String, b.index, bytes, align, threadgroup, b.access != MTLBindingAccessReadOnly});
      }
      return Pipeline(state);
    }
  }

  Status dispatch(const Pipeline& p, std::span<const Argument> arguments, const Grid& grid) override {
    if (p == nullptr) return bad_input("dispatch without a pipeline");
    ARGON_RETURN_IF_ERROR(check(*p, arguments, grid));
    if (encoder_ == nil) ARGON_RETURN_IF_ERROR(begin());
    [encoder_ setComputePipelineState:p->state];
    for (const PipelineState::Binding& b : p->bindings) {
      if (b.threadgroup) {
        [encoder_ setThreadgroupMemoryLength:(grid.threadgroup_bytes[b.index] + 15u) & ~15u atIndex:b.index];
        continue;
      }
      const Argument& a = arguments[b.index];
      if (a.is_value) {
        [encoder_ setBytes:a.inline_value.data() length:a.bytes atIndex:b.index];
      } else {
        const auto it = holding(a.pointer);
        [encoder_ setBuffer:it->second.buffer offset:reinterpret_cast<uintptr_t>(a.pointer) - it->first atIndex:b.index];
      }
    }
    [encoder_ dispatchThreadgroups:MTLSizeMake(grid.threadgroups.x, grid.threadgroups.y, grid.threadgroups.z)
             threadsPerThreadgroup:MTLSizeMake(grid.threads.x, grid.threads.y, grid.threads.z)];
    if (++encoded_ == kDispatchesPerCommit) commit();
    return {};
  }

  Status finish() override {
    wait();
    Status s = fault_;
    fault_ = {};
    return s;
  }

  Counters counters() const override { return counters_; }
  void reset_counters() override { counters_ = {}; }
  Status watch(std::span<const void* const> bases) override {
    return bases.empty() ? Status() : unsupported("a GPU does not tell which bytes it touches; use the executor");
  }
  Result<Locality> locality(size_t, uint32_t) const override {
    return unsupported("a GPU does not tell which bytes it touches; use the executor");
  }

 private:
  struct Memory {
    id<MTLBuffer> buffer;
    size_t bytes;
    bool wrapped;
  };

  Result<id<MTLLibrary>> library_of(const std::string& path) {
    if (const auto it = libraries_.find(path); it != libraries_.end()) return it->second;
    const std::string root = options_.root.empty() ? ARGON_SOURCE_DIR : options_.root;
    ARGON_ASSIGN_OR_RETURN(const Source source, read_source(root, path));
    MTLCompileOptions* options = [MTLCompileOptions new];
    options.languageVersion = MTLLanguageVersion3_1;
    // The numeric contract: no reassociation, no contraction, correctly rounded division and square root.
    if (@available(macOS 15.0, *)) {
      options.mathMode = MTLMathModeSafe;
      options.mathFloatingPointFunctions = MTLMathFloatingPointFunctionsPrecise;
    } else {
      options.fastMathEnabled = NO;
    }
    NSError* error = nil;
    NSString* text = [NSString stringWithUTF8String:source.text.c_str()];
    id<MTLLibrary> library = [device_ newLibraryWithSource:text options:options error:&error];
    if (library == nil) return bad_input(path + ":1: error: does not compile: " + text_of(error));
    libraries_[path] = library;
    return library;
  }

  static Status error_at(const PipelineState& p, const std::string& what) {
    return bad_input(p.path + ":1: error: kernel '" + p.entry + "': " + what);
  }

  Status check(const PipelineState& p, std::span<const Argument> arguments, const Grid& grid) {
    const Size3 &g = grid.threadgroups, &t = grid.threads;
    const uint64_t threads = uint64_t{t.x} * t.y * t.z;
    if (threads == 0 || threads > p.state.maxTotalThreadsPerThreadgroup) {
      return error_at(p, "threadgroups of " + std::to_string(threads) + " threads; wanted 1 to " +
                             std::to_string(p.state.maxTotalThreadsPerThreadgroup) + " in all");
    }
    if (uint64_t{g.x} * g.y * g.z == 0 || std::max({uint64_t{g.x} * t.x, uint64_t{g.y} * t.y, uint64_t{g.z} * t.z}) > 0xffffffffull) {
      return error_at(p, "each dimension of the grid must have 1 to 2^32-1 threads");
    }
    if (arguments.size() < p.arguments) {
      return error_at(p, "got " + std::to_string(arguments.size()) + " arguments, wanted " + std::to_string(p.arguments));
    }
    uint64_t shared = p.state.staticThreadgroupMemoryLength;
    for (uint32_t b : grid.threadgroup_bytes) shared += (b + 15u) & ~15u;
    if (shared > kMaxThreadgroupBytes) return error_at(p, std::to_string(shared) + " bytes of threadgroup memory; at most 32768 are there");
    for (const PipelineState::Binding& b : p.bindings) {
      const std::string what = "argument '" + b.name + "' [[buffer(" + std::to_string(b.index) + ")]]";
      if (b.threadgroup) {
        if (b.index >= grid.threadgroup_bytes.size()) return error_at(p, "threadgroup argument '" + b.name + "' has no size");
        continue;
      }
      const Argument& a = arguments[b.index];
      if (!a.is_value && a.pointer == nullptr) return error_at(p, what + " is missing");
      if (a.bytes < b.bytes) {
        return error_at(p, what + " has " + std::to_string(a.bytes) + " bytes, wanted at least " + std::to_string(b.bytes));
      }
      if (a.is_value && b.writable) return error_at(p, what + " is written by the kernel; a value cannot be bound to it");
      if (a.is_value) continue;
      const auto it = holding(a.pointer);
      if (it == memory_.end()) return error_at(p, what + " points into no buffer of this device");
      if (reinterpret_cast<uintptr_t>(a.pointer) % std::max<size_t>(b.align, 1) != 0) {
        return error_at(p, what + " is not aligned to " + std::to_string(b.align) + " bytes");
      }
      if (b.writable && it->second.wrapped) return error_at(p, what + " is written by the kernel, but the memory is wrapped (read-only)");
      const size_t offset = reinterpret_cast<uintptr_t>(a.pointer) - it->first;
      if (offset + a.bytes > it->second.bytes) return error_at(p, what + " ends behind its buffer of " + std::to_string(it->second.bytes));
    }
    return {};
  }

  std::map<uintptr_t, Memory>::const_iterator holding(const void* pointer) const {
    const auto p = reinterpret_cast<uintptr_t>(pointer);
    auto it = memory_.upper_bound(p);
    if (it == memory_.begin()) return memory_.end();
    --it;
    return p < it->first + std::max<size_t>(it->second.bytes, 1) ? it : memory_.end();
  }

  Status begin() {
    @autoreleasepool {
      commands_ = [queue_ commandBuffer];
      // Serial: each dispatch sees what those before it wrote. Between command buffers of one queue the
      // framework's own tracking of buffers does the same.
      encoder_ = [commands_ computeCommandEncoderWithDispatchType:MTLDispatchTypeSerial];
      if (encoder_ == nil) return resource_error("the GPU gives no command encoder");
      return {};
    }
  }

  // Hands what has been encoded to the GPU, which works on it while the next dispatches are encoded.
  void commit() {
    if (encoder_ == nil) return;
    [encoder_ endEncoding];
    [commands_ commit];
    submitted_.push_back(commands_);
    encoder_ = nil;
    commands_ = nil;
    encoded_ = 0;
  }

  void wait() {
    @autoreleasepool {
      commit();
      for (id<MTLCommandBuffer> c : submitted_) {
        [c waitUntilCompleted];
        if (c.status == MTLCommandBufferStatusError && fault_.ok()) {
          fault_ = internal_error("the GPU stopped: " + text_of(c.error));
        }
        counters_.gpu_seconds += c.GPUEndTime - c.GPUStartTime;
      }
      submitted_.clear();
    }
  }

  // Enough that a command buffer's start (tens of microseconds) is small beside its work, few enough that the
  // GPU does not wait for the encoding of a whole pass.
  static constexpr int kDispatchesPerCommit = 64;

  id<MTLDevice> device_;
  id<MTLCommandQueue> queue_;
  id<MTLCommandBuffer> commands_ = nil;
  id<MTLComputeCommandEncoder> encoder_ = nil;
  int encoded_ = 0;
  std::vector<id<MTLCommandBuffer>> submitted_;
  const DeviceOptions options_;
  std::map<uintptr_t, Memory> memory_;
  std::map<std::string, id<MTLLibrary>> libraries_;
  Counters counters_;
  Status fault_;
};

}  // namespace

Result<std::unique_ptr<Device>> Device::open(const DeviceOptions& options) {
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
  if (device == nil) return unsupported("this machine has no GPU that Metal can use; use --backend cpu");
  if (![device supportsFamily:MTLGPUFamilyApple7]) return unsupported("Metal needs an Apple GPU (M1 or later); use --backend cpu");
  id<MTLCommandQueue> queue = [device newCommandQueue];
  if (queue == nil) return resource_error("the GPU gives no command queue");
  return std::unique_ptr<Device>(new MacDevice(device, queue, options));
}

}  // namespace argon::metal
