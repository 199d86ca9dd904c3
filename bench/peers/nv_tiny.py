"""Tiny problems on an NVIDIA GPU: libhipflash.so, through its C API, against PyTorch's SDPA backends.

    python3 nv_tiny.py LIBHIPFLASH.SO [--dtype f16|bf16]

Every row is timed as a CUDA graph of calls over buffer sets that together are larger than the L2 cache. Rounds of all
contenders are interleaved; times are medians, the spread is (90th - 10th percentile) / median. Bandwidth counts each
byte of Q, K, V and the output once, and is compared with the faster of two copies of 1 GiB of random numbers in the same
rounds: the driver's and PyTorch's elementwise one."""
import ctypes as C
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {'f16': (torch.float16, 0), 'bf16': (torch.bfloat16, 1)}
BACKENDS = {'flash': SDPBackend.FLASH_ATTENTION, 'cudnn': SDPBackend.CUDNN_ATTENTION,
            'efficient': SDPBackend.EFFICIENT_ATTENTION, 'math': SDPBackend.MATH}
ROUNDS = 11
# batch, heads, queries, keys, head dimension, layout
MANY = [(30720, 16, 1, 2, 128), (30720, 32, 1, 2, 128), (30720, 16, 1, 2, 256), (30720, 32, 1, 2, 256)]
BOARDS = [(64, 24, 64, 64, 32), (64, 12, 64, 64, 64), (64, 8, 64, 64, 96), (64, 6, 64, 64, 128)]


class Tensor(C.Structure):
    _fields_ = [('struct_size', C.c_uint32), ('dtype', C.c_int32), ('data', C.c_void_p)] + \
               [(n, C.c_int64) for n in ('batch', 'seq', 'heads', 'dim', 'stride_batch', 'stride_seq', 'stride_head')]


class Pointers(C.Structure):
    _fields_ = [('struct_size', C.c_uint32), ('reserved', C.c_uint32)] + \
               [(n, C.c_void_p) for n in ('q', 'k', 'v', 'out', 'lse', 'bias', 'mask', 'alibi_slopes', 'sinks', 'cu_seqlens_q',
                                          'cu_seqlens_k', 'kv_lengths', 'kv_batch_index', 'kv_left_padding', 'block_table')]


class Library:
    def __init__(self, path):
        self.c = C.CDLL(path)
        self.c.hipflash_last_error.restype = self.c.hipflash_plan_explain.restype = C.c_char_p
        self.context = C.c_void_p()
        self.check(self.c.hipflash_context_create(b'cuda:0', None, C.byref(self.context)))

    def check(self, status):
        if status:
            raise RuntimeError(self.c.hipflash_last_error().decode())

    def plan(self, q, k, v, out):
        plan = C.c_void_p()
        self.check(self.c.hipflash_plan_create(self.context, *(C.byref(view(t)) for t in (q, k, v, out)), None, C.byref(plan)))
        return plan

    def caller(self, plan, sets):
        """Runs the plan on each set."""
        pointers = [Pointers(C.sizeof(Pointers), 0, *(t.data_ptr() for t in s)) for s in sets]

        def call():
            stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
            for p in pointers:
                self.check(self.c.hipflash_plan_run(plan, C.byref(p), stream))
        return call


def view(t):
    """Of a (batch, heads, seq, dim) view of any strides."""
    b, h, s, d = t.shape
    return Tensor(C.sizeof(Tensor), 0 if t.dtype == torch.float16 else 1, t.data_ptr(), b, s, h, d, t.stride(0), t.stride(2), t.stride(1))


def make(shape, dtype, interleaved):
    b, h, sq, sk, d = shape

    def one(s):
        if interleaved:  # (batch, seq, heads * dim)
            return torch.randn(b, s, h, d, device='cuda', dtype=dtype).transpose(1, 2)
        return torch.randn(b, h, s, d, device='cuda', dtype=dtype)
    q, k, v = one(sq), one(sk), one(sk)
    return q, k, v, torch.full_like(q, float('nan'))


def graph_of(call, times):
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph


def time_all(graphs, calls):
    """Microseconds a call, by name: (median, spread)."""
    took = {name: [] for name in graphs}
    for round_ in range(ROUNDS + 1):
        for name, graph in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if round_:
                took[name].append(begin.elapsed_time(end) * 1000 / calls[name])
    result = {}
    for name, x in took.items():
        x.sort()
        mid = statistics.median(x)
        result[name] = (mid, (x[int(0.9 * (len(x) - 1))] - x[int(0.1 * (len(x) - 1))]) / mid)
    return result


def error_of(q, k, v, out):
    n = min(q.shape[0], 512)
    q, k, v, out = (t[-n:].double() for t in (q, k, v, out))
    ref = torch.softmax(q @ k.transpose(2, 3) * q.shape[3] ** -0.5, -1) @ v
    return ((out - ref).norm() / ref.norm()).item()


def row(library, shape, dtype, interleaved, copy):
    b, h, sq, sk, d = shape
    size = 2 * b * h * d * (2 * sq + 2 * sk)
    count = max(2, min(8, (200 << 20) // size + 1))
    sets = [make(shape, dtype, interleaved) for _ in range(count)]
    plan = library.plan(*sets[0])
    calls, graphs = {}, {}
    repeat = max(1, 24 // count) if interleaved else 1
    graphs['hipflash'], calls['hipflash'] = graph_of(library.caller(plan, sets), repeat), repeat * count
    torch.cuda.synchronize()
    errors = [error_of(*s) for s in sets]
    for name, backend in BACKENDS.items():
        if name == 'math' and b * h * d >= 30720 * 32 * 256:
            continue  # its intermediate results do not fit
        try:
            with sdpa_kernel(backend):
                def call():
                    for q, k, v, _ in sets:
                        torch.nn.functional.scaled_dot_product_attention(q, k, v)
                graphs[name], calls[name] = graph_of(call, repeat), repeat * count
        except RuntimeError as error:
            print('   ', name, 'does not take it:', str(error).split('\n')[0][:100])
            torch.cuda.synchronize()
    source, target = copy
    graphs['copy'], calls['copy'] = graph_of(lambda: target.copy_(source), 1), 1
    graphs['elementwise'], calls['elementwise'] = graph_of(lambda: torch.mul(source, 1, out=target), 1), 1
    took = time_all(graphs, calls)
    ours, spread = took['hipflash']
    peers = {n: t for n, t in took.items() if n not in ('hipflash', 'copy', 'elementwise')}
    best = min(peers, key=lambda n: peers[n][0])
    rate = size / ours / 1e6
    copied = 2 * 4 * source.numel() / min(took['copy'][0], took['elementwise'][0]) / 1e6
    print(f'b{b} h{h} q{sq} kv{sk} d{d}: {ours:.2f} us (spread {100 * spread:.1f}%), {rate:.3f} TB/s = {100 * rate / copied:.1f}% of '
          f'a copy ({copied:.3f}); {peers[best][0] / ours:.2f}x the best backend ({best} {peers[best][0]:.1f}); '
          + ', '.join(f'{n} {t[0]:.1f}' for n, t in peers.items()) + f'; error {max(errors):.1e}', flush=True)
    if not max(errors) < 1e-2:
        raise SystemExit('wrong result')
    print('   ', library.c.hipflash_plan_explain(plan).decode().replace('\n', ' | ')[:230])
    library.c.hipflash_plan_destroy(plan)


def main():
    dtype = DTYPES[sys.argv[sys.argv.index('--dtype') + 1] if '--dtype' in sys.argv else 'f16'][0]
    library = Library(sys.argv[1])
    print(torch.cuda.get_device_name(), 'PyTorch', torch.__version__, 'cuDNN', torch.backends.cudnn.version())
    copy = tuple(torch.randn(1 << 28, device='cuda') for _ in range(2))
    for shape in BOARDS + [(64, 12, 128, 128, 64), (64, 12, 32, 32, 64), (64, 12, 96, 96, 64)] * ('--more' in sys.argv):
        row(library, shape, dtype, True, copy)
    for shape in MANY:
        row(library, shape, dtype, False, copy)
        torch.cuda.empty_cache()


if __name__ == '__main__':
    main()
