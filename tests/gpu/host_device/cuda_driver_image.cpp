// Code for the CUDA driver of the host device, as its NVRTC makes it: a kernel whose argument is
// the function that its threads call.
extern "C" {
__attribute__((visibility("default"))) extern const char host_gpu_arch[] = "sm_80";
__attribute__((visibility("default"))) extern const unsigned host_gpu_sizes_call[] = {
    sizeof(void (*)()), 0};
__attribute__((visibility("default"))) void host_gpu_call_call(void* arguments) {
  (*static_cast<void (**)()>(arguments))();
}
}
