// The dot family's text compiled for the host with one Spec, registered for the host backend's test
// (tests/gpu/cdna/host_backend_test.cpp). A file that includes this defines HF_HOST_KERNEL, the
// name of the kernel, and HF_HOST_SPEC, members of `struct Spec`. It may define HF_HOST_RAGGED, see
// host_registry.h.
#include "gpu/cdna/host_registry.h"

#define HF_JOIN_AGAIN(a, b) a##b
#define HF_JOIN(a, b) HF_JOIN_AGAIN(a, b)
#define HF_QUOTE_AGAIN(a) #a
#define HF_QUOTE(a) HF_QUOTE_AGAIN(a)
#define hipflash HF_JOIN(hipflash_dot_, HF_HOST_KERNEL)
#define attention_forward HF_JOIN(attention_forward_dot_, HF_HOST_KERNEL)
#define attention_merge HF_JOIN(attention_merge_dot_, HF_HOST_KERNEL)

#include "common/attention_args.h"
namespace hipflash {
struct Spec {
  HF_HOST_SPEC
  HF_HOST_RAGGED
  static constexpr bool lse = true;
};
}  // namespace hipflash
#include "gpu/attention_forward_dot.hip"

namespace hipflash {
namespace host {
int thread_id() {
  return host_lanes::thread_id();
}
int block_id() {
  return host_lanes::block_id();
}
char* shared_memory(int bytes) {
  return host_lanes::shared_memory(bytes);
}
void barrier() {
  host_lanes::barrier();
}
const char* exchange(const void* mine, int bytes) {
  return host_lanes::exchange(mine, bytes);
}
}  // namespace host

namespace {
AttentionArgs arguments(const void* bytes) {  // the same struct by another name
  AttentionArgs args;
  std::memcpy(static_cast<void*>(&args), bytes, sizeof(args));
  return args;
}
const cdna_test::HostKernel registered({"dot_" HF_QUOTE(HF_HOST_KERNEL),
                                        static_cast<int>(Spec::element),
                                        Spec::head_dim,
                                        Spec::value_head_dim,
                                        Spec::window_left,
                                        Spec::window_right,
                                        Spec::softcap,
                                        Spec::alibi,
                                        Spec::bias,
                                        Spec::mask,
                                        Spec::split_keys,
                                        Spec::aligned,
                                        kThreads,
                                        kQueries,
                                        [](const void* args) {
                                          attention_forward(arguments(args));
                                        },
                                        [](const void* args) { attention_merge(arguments(args)); },
                                        Spec::ragged,
                                        Spec::paged,
                                        Spec::sinks,
                                        Spec::pack_heads != 0});
}  // namespace
}  // namespace hipflash
