// hipflash-measure: runs the configs that `hipflash tune` tries. Started by the tuner only.
#include <sys/socket.h>

#include <cstdio>

#include "autotune/worker.h"

int main() {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fputs("hipflash-measure is started by hipflash tune\n", stderr);
    return 2;
  }
  return hipflash::autotune::serve_measuring();
}
