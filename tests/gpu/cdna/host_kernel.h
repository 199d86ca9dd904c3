// A kernel text compiled for the host with one Spec: that of CDNA, or of another family whose
// header (gpu/rdna/host_dot.h) says which. A file that includes this defines HF_HOST_KERNEL, the
// name of the kernel, and HF_HOST_SPEC, the members of `struct Spec`; everything in the text then
// has that name, so that many such files make one program. It may define HF_HOST_RAGGED, see
// host_registry.h.
#include "gpu/cdna/host_registry.h"

#ifndef HF_HOST_TEXT
#define HF_HOST_TEXT "gpu/attention_forward_cdna.hip"
#define HF_HOST_PREFIX           // of the kernel's name
#define HF_HOST_MORE             // members of Spec that all kernels of the family share
#define HF_HOST_ROWS kBlockRows  // of a block
#endif

#define HF_JOIN_AGAIN(a, b) a##b
#define HF_JOIN(a, b) HF_JOIN_AGAIN(a, b)
#define HF_QUOTE_AGAIN(a) #a
#define HF_QUOTE(a) HF_QUOTE_AGAIN(a)
#define HF_HOST_NAME HF_JOIN(HF_HOST_PREFIX, HF_HOST_KERNEL)
#define hipflash HF_JOIN(hipflash_, HF_HOST_NAME)
#define attention_forward HF_JOIN(attention_forward_, HF_HOST_NAME)
#define attention_merge HF_JOIN(attention_merge_, HF_HOST_NAME)

#include "common/attention_args.h"
namespace hipflash {
struct Spec {
  HF_HOST_SPEC
  HF_HOST_RAGGED
  HF_HOST_MORE
};
}  // namespace hipflash
#include HF_HOST_TEXT

#include "gpu/host_words.h"

namespace hipflash {
namespace {
AttentionArgs arguments(const void* bytes) {  // the same struct by another name
  AttentionArgs args;
  std::memcpy(static_cast<void*>(&args), bytes, sizeof(args));
  return args;
}
const cdna_test::HostKernel registered({HF_QUOTE(HF_HOST_NAME),
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
                                        HF_HOST_ROWS,
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
