// The dot family's text compiled for the host with one Spec, registered for the host backend's test
// (tests/gpu/cdna/host_backend_test.cpp); see gpu/cdna/host_kernel.h.
#define HF_HOST_TEXT "gpu/attention_forward_dot.hip"
#define HF_HOST_PREFIX dot_
#define HF_HOST_MORE static constexpr bool lse = true;
#define HF_HOST_ROWS kQueries
#include "gpu/cdna/host_kernel.h"
