#include "gpu/fibers.h"

#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define FIBERS_ARE_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS_ARE_WATCHED 1
#endif
#endif
#if defined(FIBERS_ARE_WATCHED)
#include <sanitizer/common_interface_defs.h>
#endif

#define FIBERS_UNWATCHED __attribute__((noinline, no_sanitize("address", "undefined")))

namespace fibers {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;

Fiber* running = nullptr;
Fiber* left = nullptr;  // the one that ran before it

}  // namespace

Fiber::Fiber(void (*main)())
    : memory_(std::make_unique_for_overwrite<char[]>(kStackBytes)),
      main_(main),
      begun_(false),
      bottom_(memory_.get()),
      bytes_(kStackBytes) {
  ::getcontext(&first_);
  first_.uc_stack.ss_sp = memory_.get();
  first_.uc_stack.ss_size = kStackBytes;
  first_.uc_link = nullptr;
  ::makecontext(&first_, enter, 0);
}

FIBERS_UNWATCHED void Fiber::arrive() {
#if defined(FIBERS_ARE_WATCHED)
  __sanitizer_finish_switch_fiber(running->fake_stack_, &left->bottom_, &left->bytes_);
#endif
}

void Fiber::enter() {
  arrive();
  running->main_();
  std::abort();  // nothing to go on with
}

#if defined(FIBERS_HAVE_SETJMP)
FIBERS_UNWATCHED void Fiber::go_to(Place& place) {
  __builtin_longjmp(place.registers, 1);
}
FIBERS_UNWATCHED void Fiber::jump(Fiber& next) {
  if (__builtin_setjmp(place_.registers) != 0) return;
  if (next.begun_) go_to(next.place_);
  next.begun_ = true;
  ::setcontext(&next.first_);
}
#else
FIBERS_UNWATCHED void Fiber::jump(Fiber& next) {
  ucontext_t& to = next.begun_ ? next.place_ : next.first_;
  next.begun_ = true;
  ::swapcontext(&place_, &to);
}
#endif

FIBERS_UNWATCHED void Fiber::leave_for(Fiber& next) {
#if defined(FIBERS_ARE_WATCHED)
  __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.bytes_);
#endif
  left = this;
  running = &next;
  jump(next);
  arrive();
}

}  // namespace fibers
