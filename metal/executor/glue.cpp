// Linked into every kernel library: the services' table, and the callbacks that clang's instrumentation calls
// in the checked form (-fsanitize=thread for every access, -fsanitize=unsigned-integer-overflow and others
// with file and line). They are hidden symbols of this library, so they never meet a sanitizer that the
// executor itself runs under.
#include "metal/executor/abi.h"

argon_exec::Hooks argon_hooks;
argon_exec::Library argon_library;

extern "C" __attribute__((visibility("default"))) argon_exec::Library* argon_exec_bind(
    const argon_exec::Hooks* hooks) {
  argon_hooks = *hooks;
  argon_library.abi = argon_exec::kAbi;
#ifdef ARGON_CHECKED
  argon_library.checked = true;
#endif
  return &argon_library;
}

#ifdef ARGON_CHECKED
using argon_exec::kNatural;
using argon_exec::kRead;
using argon_exec::kWrite;

// Static initialisers run while the library is loaded, before it is bound.
static void touch(const void* address, unsigned long bytes, unsigned kind, const void* pc) {
  if (argon_hooks.access != nullptr) argon_hooks.access(address, bytes, kind, pc);
}

#define ARGON_PC __builtin_return_address(0)
#define ARGON_TSAN(N)                                                         \
  void __tsan_read##N(void* a) { touch(a, N, kRead | kNatural, ARGON_PC); }   \
  void __tsan_write##N(void* a) { touch(a, N, kWrite | kNatural, ARGON_PC); } \
  void __tsan_unaligned_read##N(void* a) { touch(a, N, kRead, ARGON_PC); }    \
  void __tsan_unaligned_write##N(void* a) { touch(a, N, kWrite, ARGON_PC); }  \
  void __tsan_read_write##N(void* a) {                                        \
    touch(a, N, kRead, ARGON_PC);                                             \
    touch(a, N, kWrite, ARGON_PC);                                            \
  }                                                                           \
  void __tsan_unaligned_read_write##N(void* a) {                              \
    touch(a, N, kRead, ARGON_PC);                                             \
    touch(a, N, kWrite, ARGON_PC);                                            \
  }

struct Site {
  const char* file;
  unsigned line, column;
};
struct TypeName {
  unsigned short kind, info;  // an integer's info is log2(bits) << 1 | signed
  char name[1];
};
struct OverflowData {
  Site site;
  const TypeName* type;
};
struct MismatchData {
  Site site;
  const TypeName* type;
  unsigned char log_alignment, kind;
};
struct BoundsData {
  Site site;
  const TypeName *array, *index;
};

// 64-bit arithmetic may wrap (hashes do); an index computed in 32 bits may not.
static void wrapped(const OverflowData* d, const char* what) {
  if (d->type->kind == 0 && (d->type->info >> 1) == 5)
    argon_hooks.fault(argon_exec::kWrap, what, d->site.file, d->site.line);
}

extern "C" {
ARGON_TSAN(1)
ARGON_TSAN(2)
ARGON_TSAN(4)
ARGON_TSAN(8)
ARGON_TSAN(16)
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_read_range(void* a, unsigned long n) { touch(a, n, kRead, ARGON_PC); }
void __tsan_write_range(void* a, unsigned long n) { touch(a, n, kWrite, ARGON_PC); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// The instrumentation turns block copies into calls to these.
void* memcpy(void* to, const void* from, unsigned long n) {
  touch(from, n, kRead, ARGON_PC);
  touch(to, n, kWrite, ARGON_PC);
  for (unsigned long i = 0; i < n; ++i)
    static_cast<volatile char*>(to)[i] = static_cast<const char*>(from)[i];
  return to;
}
void* memmove(void* to, const void* from, unsigned long n) {
  touch(from, n, kRead, ARGON_PC);
  touch(to, n, kWrite, ARGON_PC);
  volatile char* t = static_cast<char*>(to);
  const volatile char* f = static_cast<const char*>(from);
  for (unsigned long i = 0; i < n; ++i) t < f ? t[i] = f[i] : t[n - 1 - i] = f[n - 1 - i];
  return to;
}
void* memset(void* to, int value, unsigned long n) {
  touch(to, n, kWrite, ARGON_PC);
  for (unsigned long i = 0; i < n; ++i) static_cast<volatile char*>(to)[i] = static_cast<char>(value);
  return to;
}

void __ubsan_handle_add_overflow(OverflowData* d, unsigned long, unsigned long) { wrapped(d, "an addition"); }
void __ubsan_handle_sub_overflow(OverflowData* d, unsigned long, unsigned long) {
  wrapped(d, "a subtraction");
}
void __ubsan_handle_mul_overflow(OverflowData* d, unsigned long, unsigned long) {
  wrapped(d, "a multiplication");
}
void __ubsan_handle_negate_overflow(OverflowData* d, unsigned long) { wrapped(d, "a negation"); }
void __ubsan_handle_type_mismatch_v1(MismatchData* d, unsigned long) {
  argon_hooks.fault(argon_exec::kMisaligned, d->type->name, d->site.file, d->site.line);
}
void __ubsan_handle_out_of_bounds(BoundsData* d, unsigned long) {
  argon_hooks.fault(argon_exec::kIndex, d->array->name, d->site.file, d->site.line);
}
}
#endif
