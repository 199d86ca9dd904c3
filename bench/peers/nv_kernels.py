"""hipflash's NVIDIA forward kernels for Python: compiled by NVRTC, loaded and launched by the driver as the library does it, on
tensors of PyTorch."""
import ctypes as C
import json
import math
import os
import time

import nv_text as text

UNBOUNDED = 1 << 30


class AttentionArgs(C.Structure):
    _fields_ = ([(n, C.c_void_p) for n in ('q', 'k', 'v', 'out', 'lse', 'bias', 'mask', 'alibi', 'sinks',
                                           'cu_seqlens_q', 'cu_seqlens_k', 'kv_lengths', 'kv_batch_index', 'kv_left_padding',
                                           'block_table', 'fault')] +
                [(n, C.c_longlong * 3) for n in ('q_stride', 'k_stride', 'v_stride', 'out_stride', 'lse_stride')] +
                [(n, C.c_longlong * 4) for n in ('bias_stride', 'mask_stride')] +
                [(n, C.c_longlong) for n in ('alibi_batch_stride', 'alibi_head_stride')] +
                [(n, C.c_int) for n in ('batch', 'heads_q', 'heads_kv', 'seq_q', 'seq_k', 'head_dim', 'value_head_dim', 'bias_type',
                                        'diagonal', 'window_left', 'window_right', 'alibi_diagonal')] +
                [(n, C.c_float) for n in ('scale', 'softcap')] +
                [(n, C.c_int) for n in ('offsets_are_64bit', 'bottom_right', 'total_q', 'total_k', 'kv_slots', 'page_size', 'pages',
                                        'pages_per_sequence', 'first_position')] + [('block_table_stride', C.c_longlong)] +
                [(n, C.c_int) for n in ('splits', 'keys_per_split', 'partial_batch', 'partial_seq')] +
                [(n, C.c_void_p) for n in ('partial_out', 'partial_lse', 'counter')])


class LaunchAttribute(C.Structure):
    _fields_ = [('id', C.c_int), ('padding', C.c_int), ('value', C.c_int * 16)]


class LaunchConfig(C.Structure):
    _fields_ = [('grid', C.c_uint * 3), ('block', C.c_uint * 3), ('shared_bytes', C.c_uint), ('stream', C.c_void_p),
                ('attributes', C.POINTER(LaunchAttribute)), ('attribute_count', C.c_uint)]


class Sm90Map(C.Structure):
    _fields_ = [('base', C.c_void_p), ('dims', C.c_ulonglong * 4), ('strides', C.c_ulonglong * 3), ('box', C.c_uint * 4)]


def launch_library():
    lib = text.launch_library()
    for n in ('args_size', 'blocks_sm80', 'pieces_sm90', 'blocks_nvf32', 'blocks_nvf16x3', 'merge_blocks'):
        getattr(lib, n).restype = C.c_longlong
    assert lib.args_size() == C.sizeof(AttentionArgs)
    return lib


FACTS = None
CU = None


def ck(rc, what=''):
    if rc:
        raise RuntimeError(f'{what}: CUresult {rc}')


def key(s):
    return json.dumps(s, sort_keys=True)


class Store:
    """Compiled specs; compiling runs on all cores."""
    def __init__(self):
        self.bin, self.seconds, self.loaded = {}, {}, {}

    def build(self, specs):
        import multiprocessing as mp
        from concurrent.futures import ProcessPoolExecutor
        todo = {key(s): s for s in specs if key(s) not in self.bin}
        if not todo:
            return
        t = time.time()
        with ProcessPoolExecutor(min(os.cpu_count(), len(todo)), mp_context=mp.get_context('spawn')) as pool:
            for k, (b, x) in zip(todo, pool.map(text.compile_spec, todo.values())):
                self.bin[k] = b
                if b is None:
                    print('COMPILE FAILED', k, x, flush=True)
        print(f'[compiled {len(todo)} specs in {time.time() - t:.0f} s]', flush=True)

    def load(self, s):
        k = key(s)
        if k not in self.loaded:
            if k not in self.bin:
                self.build([s])
            if self.bin[k] is None:
                raise RuntimeError('does not compile')
            self.loaded[k] = Kernel(s, self.bin[k])
        return self.loaded[k]


class Kernel:
    def __init__(self, s, binary):
        global CU, FACTS
        CU = CU or C.CDLL('libcuda.so.1')
        FACTS = FACTS or launch_library()
        self.spec, self.module, self.f, self.merge = s, C.c_void_p(), C.c_void_p(), C.c_void_p()
        ck(CU.cuModuleLoadData(C.byref(self.module), binary), 'load')
        ck(CU.cuModuleGetFunction(C.byref(self.f), self.module, b'attention_forward'), 'function')
        if s['family'] != 'sm90':
            ck(CU.cuModuleGetFunction(C.byref(self.merge), self.module, b'attention_merge'), 'merge')
        c = s['config']
        self.tile, self.shared = text.TILES[s['family']](**c), text.shared_bytes(s)
        self.threads = 128 * (1 + c['query_groups']) if s['family'] == 'sm90' else 32 * c['waves']
        ck(CU.cuFuncSetAttribute(self.f, 8, self.shared), 'shared memory')
        x = C.c_int()
        CU.cuFuncGetAttribute(C.byref(x), 4, self.f)
        self.registers = x.value
        CU.cuFuncGetAttribute(C.byref(x), 3, self.f)
        self.local = x.value


STORE = Store()
KEEP = []


def stream():
    import torch
    return C.c_void_p(torch.cuda.current_stream().cuda_stream)


def strides(t, order=(0, 2, 1)):
    return (C.c_longlong * 3)(*(t.stride(i) for i in order))  # (batch, seq, head) of a (batch, heads, seq, d) view


def launcher(s, q, k, v, out, lse, diagonal=None, window=(None, None), softcap=0.0, alibi=None, bias=None, mask=None, scale=None,
             splits=1, static=False):
    """A callable that launches the spec on (batch, heads, seq, d) views of any strides."""
    import torch
    kernel = STORE.load(s)
    a = AttentionArgs()
    a.q, a.k, a.v, a.out, a.lse = q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), lse.data_ptr() if lse is not None else None
    a.q_stride, a.k_stride, a.v_stride, a.out_stride = map(strides, (q, k, v, out))
    a.batch, a.heads_q, a.seq_q, a.head_dim = q.shape
    a.heads_kv, a.seq_k, a.value_head_dim = k.shape[1], k.shape[2], v.shape[3]
    if lse is not None:
        a.lse_stride = strides(lse)
    a.diagonal = a.seq_k - a.seq_q if diagonal is None else diagonal
    a.alibi_diagonal = a.seq_k - a.seq_q
    a.window_left, a.window_right = (UNBOUNDED if w is None else w for w in window)
    a.scale, a.softcap = a.head_dim ** -0.5 if scale is None else scale, softcap
    if alibi is not None:
        a.alibi, a.alibi_batch_stride, a.alibi_head_stride = alibi.data_ptr(), alibi.stride(0), alibi.stride(1)
    if bias is not None:
        a.bias, a.bias_stride = bias.data_ptr(), (C.c_longlong * 4)(*bias.stride())
        a.bias_type = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}[bias.dtype]
    if mask is not None:
        a.mask, a.mask_stride = mask.data_ptr(), (C.c_longlong * 4)(*mask.stride())
    a.splits = splits
    a.partial_batch, a.partial_seq = a.batch, a.seq_q
    keep = [q, k, v, out, lse, alibi, bias, mask]
    if splits > 1:
        po = torch.full((splits, a.batch, a.heads_q, a.seq_q, a.value_head_dim), math.nan, device='cuda')
        pl = torch.full((splits, a.batch, a.heads_q, a.seq_q), math.nan, device='cuda')
        a.partial_out, a.partial_lse = po.data_ptr(), pl.data_ptr()
        keep += [po, pl]
    holders = [a]
    if s['family'] == 'sm90':
        assert FACTS.takes_sm90(C.byref(a), dict(f16=0, bf16=1)[s['dtype']], 0, 0)
        maps = (Sm90Map * 3)()
        FACTS.maps_sm90(C.byref(kernel.tile), C.byref(a), maps)
        for m in maps:
            buf = C.create_string_buffer(192)
            at = (C.addressof(buf) + 63) // 64 * 64
            ck(CU.cuTensorMapEncodeTiled(C.c_void_p(at), 9 if s['dtype'] == 'bf16' else 6, 4, C.c_void_p(m.base), m.dims, m.strides,
                                         m.box, (C.c_uint * 4)(1, 1, 1, 1), 0, 3, 2, 0), 'tensor map')
            holders.append((C.c_char * 128).from_address(at))
            keep.append(buf)
        grid = FACTS.pieces_sm90(C.byref(kernel.tile), C.byref(a))
        if not static:
            counter = torch.zeros(1, dtype=torch.int32, device='cuda')
            keep.append(counter)
            a.counter = counter.data_ptr()
            grid = min(grid, torch.cuda.get_device_properties(0).multi_processor_count)
    elif s['family'] == 'sm80':
        grid = FACTS.blocks_sm80(C.byref(kernel.tile), C.byref(a))
    elif s['family'] == 'f16x3':
        grid = FACTS.blocks_nvf16x3(C.byref(kernel.tile), C.byref(a))
    else:
        grid = FACTS.blocks_nvf32(C.byref(kernel.tile), C.byref(a))
    params = (C.c_void_p * len(holders))(*(C.addressof(h) for h in holders))
    one = (C.c_void_p * 1)(C.addressof(a))
    parts = s['config'].get('key_parts', 1)
    f, threads, shared, merge = kernel.f, kernel.threads, kernel.shared, kernel.merge
    early = LaunchAttribute(6, 0, (C.c_int * 16)(1))  # the merge may begin while the forward kernel runs
    merge_config = LaunchConfig((C.c_uint * 3)(FACTS.merge_blocks(C.byref(a)), 1, 1), (C.c_uint * 3)(FACTS.merge_threads(), 1, 1), 0, None,
                                C.pointer(early), 1)

    def run():
        ck(CU.cuLaunchKernel(f, grid, 1, 1, threads, parts, 1, shared, stream(), params, None), 'launch')
        if splits > 1:
            merge_config.stream = stream()
            ck(CU.cuLaunchKernelEx(C.byref(merge_config), merge, one, None), 'merge')
    run.keep, run.kernel, run.args = [merge_config] + keep, kernel, a
    return run


ROWS = []


def rec(**k):
    ROWS.append(k)
    print(' '.join(f'{a}={v}' for a, v in k.items()), flush=True)
