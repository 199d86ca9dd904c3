"""hipflash's NVIDIA forward kernels on a GPU: checked against float64, timed against PyTorch's SDPA backends.

    python3 nv_forward.py check [--quick] | bench [--rows NAME] | sweep NAME | smoke
    OUT=folder: rows also go to folder/nv_forward.json

NVRTC and the driver are called as the library calls them; PyTorch supplies memory, the peers and the reference."""
import ctypes as C
import json
import math
import os
import statistics
import sys
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


# ---------------------------------------------------------------- reference and checks
def reference(q, k, v, diagonal=None, window=(None, None), softcap=0.0, alibi=None, bias=None, mask=None, scale=None):
    import torch
    q, k, v = (x.double() for x in (q, k, v))
    g = q.shape[1] // max(k.shape[1], 1)
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    sq, sk = q.shape[2], k.shape[2]
    i = torch.arange(sq, device=q.device)[:, None]
    j = torch.arange(sk, device=q.device)[None]
    seen = torch.ones(1, 1, sq, sk, dtype=torch.bool, device=q.device)
    d = sk - sq if diagonal is None else diagonal
    if window[0] is not None:
        seen = seen & (j >= i + d - window[0])
    if window[1] is not None:
        seen = seen & (j <= i + d + window[1])
    if mask is not None:
        seen = seen & mask
    s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if alibi is not None:
        s = s - alibi.double()[:, :, None, None] * (i + sk - sq - j).abs()
    if bias is not None:
        s = s + bias.double()
        seen = seen & (bias > -math.inf)
    s = torch.where(seen, s, torch.full_like(s, -math.inf))
    lse = torch.logsumexp(s, -1) if sk else torch.full(s.shape[:3], -math.inf, device=q.device, dtype=torch.float64)
    p = torch.exp(s - torch.where(lse == -math.inf, torch.zeros_like(lse), lse)[..., None])
    # values that no row sees count as nothing, whatever they hold
    hidden = ~seen.expand(q.shape[0], q.shape[1], sq, sk).any(2)
    v = torch.where(hidden[..., None], torch.zeros_like(v), v)
    return p @ v, lse


def make(shape, layout, dtype, pad=0, std=1.0):
    """A (batch, heads, seq, d) view; everything around it in memory is NaN."""
    import torch
    b, h, s, d = shape
    if layout == 'far':  # batches more than 2^31 elements apart
        t = torch.empty((b - 1) * ((1 << 31) + 64) + h * s * d, device='cuda', dtype=dtype).as_strided(shape, ((1 << 31) + 64, s * d, d, 1))
    elif layout == 'bhsd':
        t = torch.full((b, h, s + 3, d + pad), math.nan, device='cuda', dtype=dtype)[:, :, :s, :d]
    else:
        t = torch.full((b, s + 3, h, d + pad), math.nan, device='cuda', dtype=dtype)[:, :s, :, :d].transpose(1, 2)
    t.copy_(torch.randn(shape, device='cuda') * std)
    return t


def check(s, shape, layout='bshd', pad=0, std=1.0, causal=None, window=None, softcap=0.0, alibi=None, bias=None, mask=None, scale=None,
          splits=1, poison=False, static=False):
    """One case; returns (ok, words). shape: batch, heads_q, heads_kv, seq_q, seq_k."""
    import torch
    b, hq, hk, sq, sk = shape
    d, dv = s['d'] or s['run_d'], s['dv'] or s['run_dv']
    dt = dict(f16=torch.float16, bf16=torch.bfloat16, f32=torch.float32)[s['dtype']]
    q, k = make((b, hq, sq, d), layout, dt, pad, std), make((b, hk, sk, d), layout, dt, pad, std)
    v = make((b, hk, sk, dv), dict(bshd='bhsd', bhsd='bshd').get(layout, layout), dt, pad)
    opt = dict(softcap=softcap, scale=scale)
    opt['diagonal'] = 0 if causal == 'top' else sk - sq
    opt['window'] = window or (None, 0 if causal else None)
    if alibi:
        opt['alibi'] = torch.rand(b if alibi == 'batch' else 1, hq, device='cuda').expand(b, hq)
    if bias:
        bt = dict(f16=torch.float16, bf16=torch.bfloat16, f32=torch.float32)[bias]
        x = torch.randn(1, hq, sq, sk, device='cuda').to(bt)
        x[:, :, :, sk // 2:sk // 2 + 3] = -math.inf
        opt['bias'] = x.expand(b, hq, sq, sk)
    if mask == 'random':
        opt['mask'] = (torch.rand(b, 1, sq, sk, device='cuda') < 0.6).expand(b, hq, sq, sk)
        opt['mask'][:, :, sq // 2] = False
    elif mask == 'pad':
        opt['mask'] = (torch.arange(sk, device='cuda')[None] < torch.randint(0, sk + 1, (b, 1), device='cuda'))[:, None, None].expand(b, hq, sq, sk)
    if poison:  # what no query of the call sees may be anything
        i, j = torch.arange(sq, device='cuda')[:, None], torch.arange(sk, device='cuda')[None]
        seen = torch.ones(b, sq, sk, dtype=torch.bool, device='cuda')
        dg, (l, r) = opt['diagonal'], opt['window']
        seen &= (j >= i + dg - (l if l is not None else UNBOUNDED)) & (j <= i + dg + (r if r is not None else UNBOUNDED))
        if mask:
            seen &= opt['mask'][:, 0]
        if bias:
            seen &= (opt['bias'][:, :1].amax(1) > -math.inf)
        dead = ~seen.any(1)
        for t in (k, v):
            t.copy_(torch.where(dead[:, None, :, None], torch.full_like(t, math.nan), t))
    ro, rl = reference(q, torch.nan_to_num(k) if poison else k, v, **opt)
    base = torch.full((b, sq + 2, hq, dv + pad), math.nan, device='cuda', dtype=dt)
    out = base[:, :sq, :, :dv].transpose(1, 2)
    lse = torch.full((b, hq, sq), math.nan, device='cuda')
    if 'mask' in opt:
        opt['mask'] = opt['mask'] if opt['mask'].stride(1) == 0 else opt['mask'].contiguous()
    run = launcher(s, q, k, v, out, lse, splits=splits, static=static, **opt)
    run()
    o1, l1 = out.clone(), lse.clone()
    out.fill_(math.nan)
    lse.fill_(math.nan)
    run()
    torch.cuda.synchronize()
    seen_rows = rl > -math.inf
    rel = ((out.double() - ro).norm() / max(ro.norm().item(), 1e-30)).item() if ro.numel() else 0.0
    el = (lse.double() - rl)[seen_rows].abs().max().item() if seen_rows.any() else 0.0
    limit = dict(f16=1e-3, bf16=6e-3, f32=3e-6)[s['dtype']] * (3 if std > 2 else 1)
    if s['dtype'] == 'f32' and (softcap or std > 2):
        limit = 3e-5
    edge = base[:, :sq, :, dv:]
    faults = [n for n, bad in (('rel', not (rel < limit) and seen_rows.any()), ('lse', not el < (1e-4 if std <= 1 else 5e-4)),
                               ('empty lse', not (lse[~seen_rows] == -math.inf).all()), ('empty out', not (out[~seen_rows] == 0).all()),
                               ('repeat', not (torch.equal(out, o1) and torch.equal(lse, l1))),
                               ('outside', not (torch.isnan(base[:, sq:]).all() and torch.isnan(edge).all()))) if bad]
    if s['family'] == 'sm90' and not static and int(run.keep[-1][0]) != 0:
        faults.append('counter')
    return not faults, f'{" ".join(faults)} rel {rel:.1e} lse {el:.1e}'


SHAPES = ((2, 4, 2, 127, 200), (1, 3, 3, 300, 513), (2, 2, 1, 200, 127), (1, 2, 2, 64, 64), (1, 2, 2, 1, 77), (1, 1, 1, 513, 1024), (1, 2, 2, 130, 1),
          (3, 40, 20, 200, 300))


def cases(quick=False):
    """(spec, list of check arguments)."""
    S = text.spec
    out = []
    causal = dict(window_right=True)
    window = dict(window_left=True, window_right=True)
    everything = dict(window, softcap=True, alibi=True, bias=True, mask=True, split_keys=True)
    dims = (64, 128, 256) if quick else (8, 32, 40, 64, 80, 96, 128, 160, 192, 256)
    for d in dims:
        for dtype in ('f16', 'bf16'):
            for family in ('sm80', 'sm90'):
                p = dict(pad=8, layout='bshd')
                out.append((S(family, d, dtype=dtype), [dict(p, shape=x, std=6.0 if i == 5 else 1.0, static=i == 1) for i, x in enumerate(SHAPES)]))
                out.append((S(family, d, dtype=dtype, **causal), [dict(p, shape=x, causal='bottom', layout='bhsd', static=i == 1) for i, x in enumerate(SHAPES)] +
                            [dict(p, shape=(2, 4, 2, 130, 400), causal='top', poison=True)]))
                if dtype == 'f16':
                    out.append((S(family, d, dtype=dtype, **window), [dict(p, shape=(2, 4, 2, 300, 500), window=w, poison=True) for w in ((40, 30), (0, 0), (None, 5), (99, None), (300, -20), (1000, 1000))] +
                                [dict(p, shape=(1, 2, 2, 500, 300), window=(70, 10)), dict(p, shape=(1, 2, 1, 700, 1700), window=(200, 0), causal='top', poison=True)]))
                    out.append((S(family, d, dtype=dtype, softcap=True, alibi=True, **causal),
                                [dict(p, shape=(2, 4, 2, 150, 260), softcap=5.0, causal='bottom'), dict(p, shape=(2, 4, 2, 150, 260), alibi='batch'),
                                 dict(p, shape=(1, 4, 4, 260, 150), alibi='head', softcap=30.0), dict(p, shape=(1, 2, 2, 100, 300), scale=0.0), dict(p, shape=(1, 2, 2, 100, 300), scale=-0.3, causal='bottom')]))
    features = [dict(shape=(2, 4, 2, 150, 260), bias='f32'), dict(shape=(2, 4, 2, 150, 260), bias='f16', causal='bottom', poison=True), dict(shape=(2, 4, 4, 70, 131), mask='random', bias='bf16'),
                dict(shape=(3, 4, 2, 150, 260), mask='pad', poison=True), dict(shape=(2, 2, 2, 33, 47), mask='random', softcap=10.0, alibi='head', window=(20, 3)), dict(shape=(2, 6, 2, 5, 700), splits=4, causal='bottom'),
                dict(shape=(2, 6, 2, 5, 1000), splits=7, mask='pad', poison=True), dict(shape=(2, 4, 4, 100, 260), splits=3, alibi='batch'), dict(shape=(1, 2, 1, 64, 0)), dict(shape=(1, 2, 1, 64, 0), causal='bottom', splits=2),
                dict(shape=(1, 2, 2, 100, 300), scale=0.0, mask='random'), dict(shape=(1, 2, 2, 100, 300), scale=-0.3, causal='bottom'), dict(shape=(1, 2, 1, 9, 40), splits=5)]
    for d, dv in (((64, 64), (128, 128), (128, 64), (40, 128), (256, 256)) if quick else ((64, 64), (128, 128), (128, 64), (40, 128), (256, 256), (192, 128), (33, 47), (512, 512), (384, 128), (1, 1), (320, 300))):
        aligned = d % 8 == 0 and dv % 8 == 0
        for dtype in ('f16', 'bf16') if d == 64 else ('f16',):
            s = S('sm80', d, dv, dtype=dtype, aligned=False, **everything)
            out.append((s, [dict(c, pad=1) for c in features]))
        if aligned:
            out.append((S('sm80', d, dv, **everything), [dict(c, pad=8) for c in features]))
            out.append((S('sm80', d, dv, config=dict(text.default_config('sm80', d, dv, **everything), pack_heads=True), **everything),
                        [dict(c, pad=8) for c in features if 'bias' not in c] + [dict(shape=(2, 8, 2, 3, 500), causal='bottom', splits=2)]))
    for d, waves, blocks, parts in ((128, 1, 4, 1), (64, 1, 4, 1), (128, 2, 3, 1), (128, 1, 1, 3), (64, 1, 2, 2), (128, 2, 1, 2)):  # few queries: a tile of the heads of a group
        few = dict(tile_keys=64, waves=waves, row_tiles=1, stages=2, blocks_per_sm=blocks, q_in_registers=False, pack_heads=True, key_parts=parts)
        out.append((S('sm80', d, config=few, split_keys=True, window_right=True),
                    [dict(shape=(2, 8, 2, q, k), pad=8, splits=n, causal='bottom') for q, k, n in ((1, 700, 4), (3, 1000, 7), (9, 333, 1), (40, 50, 2))]))
    out.append((S('sm80', 36, 44), [dict(shape=x, pad=4, layout='bhsd') for x in SHAPES]))  # rows aligned, width not
    for family in ('sm80', 'sm90'):
        out.append((S(family, 64, **causal), [dict(shape=(2, 2, 1, 100, 200), layout='far', causal='bottom')]))
    out.append((S('sm90', 128, seq_k=512, **causal), [dict(shape=x, pad=8, causal='bottom') for x in SHAPES]))
    for d, dv in ((192, 128), (64, 128), (128, 64), (24, 56), (128, 256)):
        out.append((S('sm90', d, dv, **causal), [dict(shape=x, pad=8, causal='bottom') for x in SHAPES]))
    for d, dv in ((64, 64), (128, 128), (40, 96), (256, 256), (33, 47), (512, 512), (1, 1), (300, 280)):
        aligned = d % 4 == 0 and dv % 4 == 0
        p = dict(pad=4 if aligned else 1)
        for family in ('f32', 'f16x3'):
            out.append((S(family, d, dv, dtype='f32', aligned=aligned, **causal), [dict(p, shape=x, causal='bottom', std=6.0 if i == 5 else 1.0) for i, x in enumerate(SHAPES)]))
            out.append((S(family, d, dv, dtype='f32', aligned=aligned), [dict(p, shape=x) for x in SHAPES]))
            out.append((S(family, d, dv, dtype='f32', aligned=False, **everything), [dict(c, pad=1) for c in features]))
    general = dict(S('sm80', 0, 0, config=text.default_config('sm80', 512, 512, aligned=False, **everything), aligned=False, **everything))
    for d, dv in ((50, 64), (300, 280)):
        out.append((dict(general, run_d=d, run_dv=dv), [dict(c, pad=1) for c in features[:6]]))
    return out


ROWS = []


def rec(**k):
    ROWS.append(k)
    print(' '.join(f'{a}={v}' for a, v in k.items()), flush=True)


def label(s):
    return f"{s['family']} d{s['d']}/{s['dv']} {s['dtype']} " + ','.join(k for k, v in s['flags'].items() if v != text.FLAGS[k]) + \
        (' packed' if s['config'].get('pack_heads') else '')


def run_cases(todo):
    import torch
    STORE.build([s for s, _ in todo])
    n = wrong = 0
    worst = {}
    for s, checks in todo:
        for c in checks:
            n += 1
            try:
                ok, words = check(s, **c)
            except Exception as e:
                ok, words = False, 'EXCEPTION ' + str(e).split('\n')[0][:200]
            torch.cuda.synchronize()
            if not ok:
                wrong += 1
                if wrong <= 60:
                    print('WRONG', label(s), c, words, flush=True)
            else:
                rel, lse = (float(words.split()[i]) for i in (-3, -1))
                w = worst.setdefault((s['family'], s['dtype'], 'std6' if c.get('std', 1) > 2 else 'std1'), [0, 0])
                w[0], w[1] = max(w[0], rel), max(w[1], lse)
    for k, w in worst.items():
        rec(mode='check', family=k[0], dtype=k[1], data=k[2], worst_rel=w[0], worst_lse=w[1])
    rec(mode='check', cases=n, wrong=wrong)


def mode_check():
    """All cases, or a quick subset, or those of one family (--family sm90)."""
    todo = cases('--quick' in sys.argv)
    if '--family' in sys.argv:
        todo = [x for x in todo if x[0]['family'] == sys.argv[sys.argv.index('--family') + 1]]
    run_cases(todo)


# ---------------------------------------------------------------- timing
def bench(fns, rounds=9, calls=2):
    """Interleaved: each round runs every contender once, as a graph of `calls` calls. Returns {name: median ms}."""
    import torch
    ms, graphs = {}, {}
    side = torch.cuda.Stream()
    for n, f in fns.items():
        try:
            with torch.cuda.stream(side):
                f()
                f()
                side.synchronize()
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g, stream=side):
                    for _ in range(calls):
                        f()
            graphs[n], ms[n] = g, []
        except Exception as e:
            print('   ', n, 'failed:', str(e).split('\n')[0][:120], flush=True)
            torch.cuda.synchronize()
    for _ in range(rounds):
        for n, g in graphs.items():
            e0, e1 = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            g.replay()  # untimed: warms caches, hides the launch
            e0.record()
            g.replay()
            e1.record()
            ms[n].append((e0, e1))
    torch.cuda.synchronize()
    return {n: statistics.median(a.elapsed_time(b) / calls for a, b in x) for n, x in ms.items()}


def sdpa(name, q, k, v, causal):
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend as B
    from torch.nn.attention import sdpa_kernel
    backend = {'flash': B.FLASH_ATTENTION, 'cudnn': B.CUDNN_ATTENTION, 'efficient': B.EFFICIENT_ATTENTION, 'math': B.MATH}[name]
    q, k, v = (x.detach().requires_grad_(True) for x in (q, k, v))  # so that the peers write their LSE too

    def f():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return f


def tflops(b, h, sq, sk, d, causal, ms):
    return round(4 * b * h * sq * sk * d * (0.5 if causal else 1) / ms / 1e9, 1)


def compare(d, hq, hk, b, s, dtype, causal, ours, peers=('flash', 'cudnn'), rounds=9):
    """ours: {name: spec}."""
    import torch
    dt = dict(f16=torch.float16, bf16=torch.bfloat16, f32=torch.float32)[dtype]
    q, k, v = (torch.randn(b, h, s, d, device='cuda', dtype=dt) for h in (hq, hk, hk))
    out, lse = torch.empty_like(q), torch.empty(b, hq, s, device='cuda')
    fns = {p: sdpa(p, q, k, v, bool(causal)) for p in peers}
    for n, x in ours.items():
        try:
            fns[n] = launcher(x, q, k, v, out, lse, window=(None, 0 if causal else None))
        except Exception as e:
            print('   skip', n, str(e)[:100])
    calls = max(1, min(16, int(3e11 / (4 * b * hq * s * s * d))))
    ms = bench(fns, rounds, calls)
    row = dict(mode='bench', d=d, h=f'{hq}/{hk}', b=b, s=s, dtype=dtype, causal=causal)
    for n, x in ms.items():
        row[n] = tflops(b, hq, s, s, d, causal, x)
    best = [p for p in ('cudnn', 'flash', 'efficient') if p in ms]
    for n in ours:
        if n in ms:
            for p in best:
                row[f'{n}/{p}'] = round(ms[p] / ms[n], 2)
    rec(**row)
    return ms


def specs_for(d, dtype, causal, seq_k, families=('sm90', 'sm80')):
    return {f: text.spec(f, d, dtype=dtype, seq_k=seq_k, window_right=bool(causal)) for f in families}


SIZES = ((32, 512), (16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384))


def mode_bench():
    todo = []
    rows = sys.argv[sys.argv.index('--rows') + 1].split(',') if '--rows' in sys.argv else ['mha', 'gqa', 'odd', 'f32']
    for d, h in ((64, 32), (128, 16), (256, 8)):
        for dtype in ('f16', 'bf16'):
            for b, s in SIZES:
                for causal in (0, 1):
                    if 'mha' in rows:
                        todo.append((d, h, h, b, s, dtype, causal))
                    if 'gqa' in rows and dtype == 'bf16' and s in (512, 2048, 8192):
                        todo.append((d, 2 * h, h // 2, max(1, b // 2), s, dtype, causal))
    if 'f32' in rows:
        for d, h in ((32, 16), (64, 16), (96, 8), (128, 8), (256, 4)):
            for b, s in ((16, 512), (4, 2048), (1, 8192)):
                for causal in (0, 1):
                    todo.append((d, h, h, b, s, 'f32', causal))
    if 'odd' in rows:
        for d, h in ((40, 16), (80, 16), (96, 16)):
            for b, s in ((8, 2048), (2, 8192)):
                for causal in (0, 1):
                    todo.append((d, h, h, b, s, 'f16', causal))
    ours = [specs_for(t[0], t[5], t[6], t[4], ('f16x3', 'f32') if t[5] == 'f32' else ('sm90', 'sm80')) for t in todo]
    STORE.build([x for o in ours for x in o.values()])
    for t, o in zip(todo, ours):
        compare(*t, o, peers=dict(f16=('flash', 'cudnn'), bf16=('cudnn',), f32=('efficient',))[t[5]])


def mode_sweep():
    """Tile configs of one family and head dimension: sweep sm90:64,128;sm80:128"""
    which = sys.argv[sys.argv.index('sweep') + 1]
    for part in which.split(';'):
        family, dims = part.split(':')
        for d in map(int, dims.split(',')):
            h = {64: 32, 128: 16, 256: 8}.get(d, 16)
            configs = {n: c for n, c in sweep_configs(family, d).items()}
            specs = {z: {n: text.spec(family, d, config=c, window_right=bool(z)) for n, c in configs.items()} for z in (0, 1)}
            STORE.build([x for z in specs.values() for x in z.values()])
            for b, s in ((8, 2048), (2, 8192), (32, 512)):
                for z in (0, 1):
                    compare(d, h, h, b, s, 'f16', z, specs[z], peers=('flash', 'cudnn'), rounds=7)
            for z in (0, 1):
                print('    resources', {n: (STORE.load(x).registers, STORE.load(x).local, STORE.load(x).shared // 1024) for n, x in specs[z].items() if STORE.bin[key(x)]})


def sweep_configs(family, d):
    base = text.default_config(family, d, d)
    if family == 'sm90':
        out = {'default': base, 'noturn': dict(base, take_turns=False)}
        for keys in (64, 80, 96, 112, 128, 144, 160, 176, 192):
            for groups in (2, 3):
                c = dict(base, tile_keys=keys, query_groups=groups)
                per_thread = d // 2 + keys // 2 + keys // 4
                shared = text.shared_bytes(text.spec('sm90', d, config=c))
                if c != base and per_thread < (140 if groups == 3 else 212) and shared < 227 * 1024:
                    out[f'k{keys}g{groups}'] = c
        return out
    out = {'default': base}
    for name, change in (('k32', dict(tile_keys=32)), ('k48', dict(tile_keys=48)), ('s1', dict(stages=1)), ('s3', dict(stages=3)), ('w8', dict(waves=8, blocks_per_sm=1)),
                         ('m1', dict(row_tiles=1)), ('m1b3', dict(row_tiles=1, blocks_per_sm=3)), ('m1q', dict(row_tiles=1, q_in_registers=True)), ('k32s1', dict(tile_keys=32, stages=1)),
                         ('w8m1s2', dict(waves=8, row_tiles=1, stages=2, blocks_per_sm=1, tile_keys=64))):
        c = dict(base, **change)
        if text.shared_bytes(text.spec('sm80', d, config=c)) * c['blocks_per_sm'] < 227 * 1024 and c != base:
            out[name] = c
    return out


def mode_smoke():
    """A few launches of every kind, small enough for compute-sanitizer."""
    S = text.spec
    causal = dict(window_right=True)
    everything = dict(window_left=True, window_right=True, softcap=True, alibi=True, bias=True, mask=True, split_keys=True)
    p = dict(pad=8)
    run_cases([(S('sm80', 128, **causal), [dict(p, shape=(1, 2, 1, 200, 333), causal='bottom', std=x) for x in (1.0, 6.0)]),
               (S('sm80', 64, dtype='bf16'), [dict(p, shape=(1, 2, 1, 200, 333))]),
               (S('sm80', 256), [dict(p, shape=(1, 2, 1, 100, 333))]),
               (S('sm80', 40, 56, aligned=False, **everything), [dict(pad=1, shape=(1, 2, 1, 100, 133), mask='pad', bias='f16', poison=True), dict(pad=1, shape=(1, 2, 1, 9, 333), splits=3)]),
               (S('sm90', 128, **causal), [dict(p, shape=(1, 80, 40, 200, 333), causal='bottom', std=x) for x in (1.0, 6.0)]),
               (S('sm90', 64, dtype='bf16'), [dict(p, shape=(1, 80, 40, 200, 333))]),
               (S('sm90', 256, window_left=True, window_right=True), [dict(p, shape=(1, 40, 20, 300, 333), window=(70, 20), poison=True)]),
               (S('sm90', 80), [dict(p, shape=(1, 40, 20, 100, 333))]),
               *((S(f, 64, dtype='f32', **causal), [dict(p, shape=(1, 2, 1, 200, 333), causal='bottom')]) for f in ('f32', 'f16x3')),
               (S('f16x3', 128, dtype='f32', split_keys=True), [dict(p, shape=(1, 2, 1, 9, 333), splits=3)]),
               *((S(f, 128, 72, dtype='f32', aligned=False, **everything), [dict(pad=1, shape=(1, 2, 1, 100, 133), mask='pad', poison=True)])
                 for f in ('f32', 'f16x3'))])


def main():
    import torch
    torch.manual_seed(int(time.time()))
    torch.zeros(1, device='cuda')
    print('card', torch.cuda.get_device_name(0), 'torch', torch.__version__, 'cudnn', torch.backends.cudnn.version(), flush=True)
    for m in sys.argv[1:]:
        if 'mode_' + m in globals():
            t = time.time()
            globals()['mode_' + m]()
            print(f'[{m}: {time.time() - t:.0f} s]', flush=True)
    if os.environ.get('OUT'):
        json.dump(ROWS, open(os.path.join(os.environ['OUT'], 'nv_forward.json'), 'w'), indent=0)


if __name__ == '__main__':
    main()
