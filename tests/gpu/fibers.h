// Stacks that take turns in one thread of the host: what the threads of a block run on
// (host_block.h).
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <memory>

// GCC's __builtin_setjmp, since swapcontext() enters the kernel each time and, under
// AddressSanitizer, clears the shadow of the whole stack. Clang's, which few processors have, loses
// its way at -O2.
#if !defined(__clang__)
#define FIBERS_HAVE_SETJMP 1
#endif

namespace fibers {

class Fiber {
 public:
  // The stack that runs now, to be left and come back to.
  Fiber() = default;
  // A stack of its own, on which `main` begins when somebody first leaves for it; it never returns.
  explicit Fiber(void (*main)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves this stack, which runs, for `next`; returns when somebody leaves for this one.
  void leave_for(Fiber& next);

 private:
#if defined(FIBERS_HAVE_SETJMP)
  struct Place {
    void* registers[5];
  };
#else
  using Place = ucontext_t;
#endif

  static void enter();
  static void arrive();
  static void go_to(Place& place);
  void jump(Fiber& next);

  std::unique_ptr<char[]> memory_;
  void (*main_)() = nullptr;
  bool begun_ = true;
  ucontext_t first_;  // where it begins
  Place place_;       // where it goes on
  // As AddressSanitizer wants to know them.
  [[maybe_unused]] const void* bottom_ = nullptr;
  [[maybe_unused]] std::size_t bytes_ = 0;
  [[maybe_unused]] void* fake_stack_ = nullptr;
};

}  // namespace fibers
