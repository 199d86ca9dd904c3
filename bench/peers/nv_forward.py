"""hipflash's NVIDIA forward kernels on a GPU: checked against float64, timed against PyTorch's SDPA backends.

    python3 nv_forward.py check [--quick] | bench [--rows NAME] | sweep NAME | smoke
    OUT=folder: rows also go to folder/nv_forward.json

NVRTC and the driver are called as the library calls them; PyTorch supplies memory, the peers and the reference."""
import json
import os
import sys
import time

from nv_bench import mode_bench, mode_sweep
from nv_check import mode_check, mode_smoke
from nv_kernels import ROWS

MODES = {'check': mode_check, 'smoke': mode_smoke, 'bench': mode_bench, 'sweep': mode_sweep}


def main():
    import torch
    torch.manual_seed(int(time.time()))
    torch.zeros(1, device='cuda')
    print('card', torch.cuda.get_device_name(0), 'torch', torch.__version__, 'cudnn', torch.backends.cudnn.version(), flush=True)
    for m in sys.argv[1:]:
        if m in MODES:
            t = time.time()
            MODES[m]()
            print(f'[{m}: {time.time() - t:.0f} s]', flush=True)
    if os.environ.get('OUT'):
        json.dump(ROWS, open(os.path.join(os.environ['OUT'], 'nv_forward.json'), 'w'), indent=0)


if __name__ == '__main__':
    main()
