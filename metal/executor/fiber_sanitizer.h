// Tells AddressSanitizer and ThreadSanitizer of fiber switches; without them, nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define ARGON_FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define ARGON_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARGON_FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define ARGON_FIBER_TSAN 1
#endif
#endif

#if defined(ARGON_FIBER_ASAN)
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
extern "C" void __asan_unpoison_memory_region(void const volatile* address, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* size);
#elif defined(ARGON_FIBER_TSAN)
extern "C" void* __tsan_get_current_fiber();
extern "C" void* __tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void* fiber);
extern "C" void __tsan_switch_to_fiber(void* fiber, unsigned flags);
#endif

namespace argon::metal {

// The scheduler's side, one per runner: its own stack's bounds, learnt at the first switch.
struct HostStack {
  void* fake = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
  void* tsan = nullptr;
};

struct FiberStack {
  char* bottom = nullptr;
  size_t size = 0;
  void* fake = nullptr;
  void* tsan = nullptr;
};

inline void before_resume([[maybe_unused]] HostStack& host, [[maybe_unused]] FiberStack& fiber) {
#if defined(ARGON_FIBER_ASAN)
  __sanitizer_start_switch_fiber(&host.fake, fiber.bottom, fiber.size);
#elif defined(ARGON_FIBER_TSAN)
  host.tsan = __tsan_get_current_fiber();
  if (fiber.tsan == nullptr) fiber.tsan = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(fiber.tsan, 0);
#endif
}
inline void after_resume([[maybe_unused]] HostStack& host) {
#if defined(ARGON_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(host.fake, nullptr, nullptr);
#endif
}
inline void entered_fiber([[maybe_unused]] HostStack& host, [[maybe_unused]] void* fake) {
#if defined(ARGON_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(fake, &host.bottom, &host.size);
#endif
}
// `last`: the fiber will not be entered again where it stands.
inline void before_yield([[maybe_unused]] HostStack& host, [[maybe_unused]] FiberStack& fiber,
                         [[maybe_unused]] bool last) {
#if defined(ARGON_FIBER_ASAN)
  __sanitizer_start_switch_fiber(last ? nullptr : &fiber.fake, host.bottom, host.size);
#elif defined(ARGON_FIBER_TSAN)
  __tsan_switch_to_fiber(host.tsan, 0);
#endif
}
// The fiber's frames are given up where they stand.
inline void release_fiber([[maybe_unused]] FiberStack& fiber) {
#if defined(ARGON_FIBER_ASAN)
  __asan_unpoison_memory_region(fiber.bottom, fiber.size);
#elif defined(ARGON_FIBER_TSAN)
  if (fiber.tsan != nullptr) __tsan_destroy_fiber(fiber.tsan);
  fiber.tsan = nullptr;
#endif
}

}  // namespace argon::metal
