// How launches of one stream follow one another.
#pragma once

namespace hipflash {

// A launch may begin while the one before it in its stream still runs: launch_next() lets it, where
// every block of this one has said so, and wait_for_launch_before() waits until that one is through
// with everything.
HF_DEVICE void launch_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
HF_DEVICE void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace hipflash
