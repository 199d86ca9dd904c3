// Attention through the C API of the shared library that the argument names: exit code 0 if it is
// right, 1 with the library's sentence if the call failed, 2 if the result is wrong.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "hipflash/c.h"

namespace {

constexpr int kKeys = 4, kDim = 64;

template <class F>
F* function(void* library, const char* name) {
  return reinterpret_cast<F*>(::dlsym(library, name));
}

hipflash_tensor tensor(std::vector<float>& data) {
  hipflash_tensor t = HIPFLASH_TENSOR_INIT;
  t.data = data.data();
  t.batch = t.heads = 1;
  t.seq = static_cast<int64_t>(data.size()) / kDim;
  t.dim = t.stride_seq = t.stride_head = kDim;
  t.stride_batch = static_cast<int64_t>(data.size());
  return t;
}

}  // namespace

int main(int count, char** arguments) {
  void* const library = count == 2 ? ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", count == 2 ? ::dlerror() : "usage: library_program LIBRARY");
    return 3;
  }
  auto* const create =
      function<decltype(hipflash_context_create)>(library, "hipflash_context_create");
  auto* const destroy =
      function<decltype(hipflash_context_destroy)>(library, "hipflash_context_destroy");
  auto* const attend =
      function<decltype(hipflash_attention_forward)>(library, "hipflash_attention_forward");
  auto* const sentence = function<decltype(hipflash_last_error)>(library, "hipflash_last_error");
  if (!create || !destroy || !attend || !sentence) return 3;

  // A query of zeros weighs all keys alike.
  std::vector<float> q(kDim), k(kKeys * kDim, 1.0f), v(kKeys * kDim), out(kDim, NAN);
  for (int i = 0; i < kKeys * kDim; ++i) v[i] = static_cast<float>(i);
  const hipflash_tensor q_view = tensor(q), k_view = tensor(k), v_view = tensor(v),
                        out_view = tensor(out);
  hipflash_context* context = nullptr;
  if (create("cpu", nullptr, &context) != HIPFLASH_OK ||
      attend(context, &q_view, &k_view, &v_view, &out_view, nullptr, nullptr) != HIPFLASH_OK) {
    std::fprintf(stderr, "%s\n", sentence());
    return 1;
  }
  destroy(context);
  for (int i = 0; i < kDim; ++i) {
    const float mean = static_cast<float>(i) + 0.5f * (kKeys - 1) * kDim;
    if (!(std::fabs(out[i] - mean) <= 1e-4f * mean + 1e-4f)) return 2;
  }
  return 0;
}
