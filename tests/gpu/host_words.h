// The functions that gpu/tile/amd/host.h asks for. Included behind the kernel text, whose namespace
// may have another name there, or in a library that such text is linked with.
#include "gpu/host_lanes.h"

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
}  // namespace hipflash
