// Asynchronous copies into shared memory (cp.async): sm_80 and up.
#pragma once

namespace hipflash {

// Copies `bytes` (0 to 16) bytes and fills the rest of the 16 with zeros. What is read only once
// goes from the L2 cache before anything else.
template <bool kOnce = false>
HF_DEVICE void copy_piece(unsigned to, const char* from, int bytes) {
  if constexpr (kOnce) {
    unsigned long long first_out;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first_out));
    asm volatile(
        "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(to),
        "l"(from), "r"(bytes), "l"(first_out)
        : "memory");
    return;
  }
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
}
// Copies four bytes, or writes four zeros.
HF_DEVICE void copy_word(unsigned to, const char* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 4 : 0)
               : "memory");
}
HF_DEVICE void copies_issued() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
HF_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

HF_DEVICE void store_element(unsigned to, unsigned short x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(x) : "memory");
}
HF_DEVICE void store_word(unsigned to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}

HF_DEVICE void barrier() {
  __syncthreads();
}

// A truth value with a type of its own, so that a generic lambda is compiled for each.
template <bool kValue>
struct Constant {
  static constexpr bool value = kValue;
};

}  // namespace hipflash
