// What a kernel library (a .metal file compiled for the CPU) and the executor know of each other. Included by
// both sides, so it uses built-in types only: kernels are compiled without any standard header.
#pragma once

namespace argon_exec {

constexpr unsigned kAbi = 4;
constexpr unsigned kLanes = 32;       // threads of a simdgroup, as on every Apple GPU
constexpr unsigned kSlotBytes = 16;   // widest value that a simd operation exchanges (float4)
constexpr unsigned kMaxBuffers = 31;  // Metal's argument table
constexpr unsigned kMaxThreadgroupArgs = 31;

struct Uint3 {
  unsigned x, y, z;
};

// One thread's arguments and position, made by the executor, read by the generated entry functions.
struct Call {
  void* buffer[kMaxBuffers];  // nullptr where the argument is absent
  void* threadgroup[kMaxThreadgroupArgs];
  Uint3 thread_position_in_threadgroup;
  Uint3 threadgroup_position_in_grid;
  Uint3 thread_position_in_grid;
  Uint3 threads_per_threadgroup;
  Uint3 threadgroups_per_grid;
  Uint3 threads_per_grid;
  unsigned thread_index_in_threadgroup;
  unsigned thread_index_in_simdgroup;
  unsigned simdgroup_index_in_threadgroup;
  unsigned simdgroups_per_threadgroup;
  unsigned threads_per_simdgroup;
};

enum ParamKind : unsigned { kPointer, kReference, kThreadgroupPointer };

// One argument of an entry point that the host binds (built-ins are not listed).
struct Param {
  const char* name;
  unsigned kind;
  unsigned index;
  unsigned long bytes;  // size of the pointed-to type: the least that must be bound
  unsigned long align;
  bool writable;
  const bool* condition;  // the function constant that makes the argument exist, or nullptr
};

struct Entry {
  const char* name;
  const char* file;
  unsigned line;
  unsigned max_threads;  // [[max_total_threads_per_threadgroup]], or 0
  const Param* params;
  unsigned n_params;
  void (*call)(const Call&);
  Entry* next;
};

enum ConstantKind : unsigned { kBool, kInt, kUint, kFloat, kShort, kUshort };

struct FunctionConstant {
  const char* name;
  unsigned index;
  unsigned kind;
  unsigned bytes;
  void* value;
  FunctionConstant* next;
};

// The lanes' values of one simd operation: lane i at slots + i*kSlotBytes. Valid until the caller's next simd
// operation.
struct Exchange {
  const char* slots;
  unsigned lane;
  unsigned lanes;  // threads that exist in this simdgroup
};

// kNatural is added where the compiler takes the address to be a multiple of the size.
enum AccessKind : unsigned { kRead, kWrite, kAtomic, kNatural = 4 };
enum FaultKind : unsigned { kWrap, kMisaligned, kIndex, kLane, kOther };

// Services of the executor. `site` values are file name and line of the kernel's source.
struct Hooks {
  void (*threadgroup_barrier)(unsigned flags, const char* file, unsigned line);
  void (*simdgroup_barrier)(unsigned flags, const char* file, unsigned line);
  Exchange (*exchange)(const char* operation, const void* value, unsigned bytes, const char* file,
                       unsigned line);
  void* (*threadgroup_variable)(unsigned id, unsigned long bytes, unsigned long align, const char* file,
                                unsigned line);
  void (*access)(const void* address, unsigned long bytes, unsigned kind, const void* pc);
  void (*fault)(unsigned kind, const char* what, const char* file, unsigned line);
};

struct Library {
  unsigned abi;
  bool checked;
  Entry* entries;
  FunctionConstant* constants;
};

}  // namespace argon_exec

// The one symbol that a kernel library exports: hands over the services, returns what the library holds.
extern "C" argon_exec::Library* argon_exec_bind(const argon_exec::Hooks* hooks);
