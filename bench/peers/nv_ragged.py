"""Decode, varlen and paged calls of libhipflash against PyTorch's backends on one NVIDIA GPU, interleaved.

    python3 nv_ragged.py LIBHIPFLASH.so [check[=FIRST:END]] [replays] [decode] [varlen] [paged]

`check` holds results against float32 attention of each sequence alone, `replays` those of graphs whose lengths changed.
Times are medians of CUDA graphs of several calls, every contender once per round; the spread is the 10th to 90th percentile
of ours.
"""
import ctypes as C
import math
import os
import random
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from nv_tiny import BACKENDS, graph_of

P, I, L = C.c_void_p, C.c_int32, C.c_int64


class Tensor(C.Structure):
    _fields_ = [('size', C.c_uint32), ('dtype', I), ('data', P), ('shape', L * 4), ('stride', L * 3)]


class Options(C.Structure):
    _fields_ = [('size', C.c_uint32), ('causal', I), ('alignment', I), ('scale_set', I), ('scale', C.c_float), ('softcap', C.c_float),
                ('window', L * 2), ('alibi', P), ('alibi_stride', L * 2), ('bias', P), ('bias_dtype', I), ('reserved', I),
                ('bias_stride', L * 4), ('mask', P), ('mask_stride', L * 4), ('lse', P), ('lse_stride', L * 3), ('sinks', P),
                ('cu_q', P), ('cu_k', P), ('varlen_batch', L), ('max_q', L), ('max_k', L), ('wide', I), ('invariant', I),
                ('lengths', P), ('batch_index', P), ('left_padding', P), ('table', P), ('table_shape', L * 3)]


DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}


def pointer(t):
    """Where a tensor is; one of the meta device, of which only the shape counts, is somewhere."""
    return None if t is None else 256 if t.is_meta else t.data_ptr()


def tensor(t):
    """A (batch, seq, heads, dim) view as the library's struct."""
    return Tensor(C.sizeof(Tensor), DTYPES[t.dtype], pointer(t), (L * 4)(*t.shape), (L * 3)(*t.stride()[:3]))


class Hipflash:
    def __init__(self, path):
        self.lib = C.CDLL(path)
        self.lib.hipflash_last_error.restype = C.c_char_p
        self.context = P()
        self.done(self.lib.hipflash_context_create(b'cuda:0', None, C.byref(self.context)))

    def done(self, status):
        if status:
            raise RuntimeError(self.lib.hipflash_last_error().decode())

    @staticmethod
    def arguments(q, k, v, out, causal=False, window=(-1, -1), lse=None, sinks=None, cu_q=None, cu_k=None, batch=0, max_q=0, max_k=0,
                  lengths=None, batch_index=None, left_padding=None, table=None, invariant=False):
        offsets = cu_q if cu_q is not None else cu_k
        o = Options(size=C.sizeof(Options), causal=causal, bias_dtype=2, window=(L * 2)(*window), alibi_stride=(L * 2)(0, 1),
                    lse=pointer(lse), sinks=pointer(sinks), cu_q=pointer(cu_q), cu_k=pointer(cu_k), varlen_batch=batch, max_q=max_q,
                    max_k=max_k, wide=offsets is not None and offsets.dtype == torch.int64, invariant=invariant, lengths=pointer(lengths),
                    batch_index=pointer(batch_index), left_padding=pointer(left_padding), table=pointer(table),
                    table_shape=(L * 3)(*((table.shape[0], table.shape[1], table.stride(0)) if table is not None else (0, 0, 0))))
        return [C.byref(x) for x in (*map(tensor, (q, k, v, out)), o)]

    def __call__(self, *tensors, **options):
        self.done(self.lib.hipflash_attention_forward(self.context, *self.arguments(*tensors, **options),
                                                      P(torch.cuda.current_stream().cuda_stream)))

    def compile(self, tensors, options):
        plan = P()
        self.done(self.lib.hipflash_plan_create(self.context, *self.arguments(*tensors, **options), C.byref(plan)))
        self.lib.hipflash_plan_destroy(plan)


def reference(q, k, v, causal=False, window=(-1, -1), sinks=None):
    """float32 attention and LSE of one sequence: q (rows, heads, d), k and v (keys, kv heads, d)."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(group, 1) for x in (k, v))
    s = torch.einsum('ihd,jhd->hij', q.float(), k) / math.sqrt(q.shape[2])
    i = torch.arange(q.shape[0], device=q.device)[:, None] + k.shape[0] - q.shape[0]
    j = torch.arange(k.shape[0], device=q.device)[None]
    right = 0 if causal else window[1]
    hidden = torch.zeros_like(i - j, dtype=torch.bool)
    if right >= 0:
        hidden |= j > i + right
    if window[0] >= 0:
        hidden |= j < i - window[0]
    s = s.masked_fill(hidden, -math.inf)
    if sinks is not None:
        s = torch.cat([s, sinks[:, None, None].expand(-1, s.shape[1], 1)], 2)
    lse = torch.logsumexp(s, 2) if s.shape[2] else torch.full(s.shape[:2], -math.inf, device=q.device)
    p = torch.exp(s - lse.nan_to_num(neginf=0.0)[..., None])[:, :, :k.shape[0]]
    return torch.einsum('hij,jhd->ihd', p, v), lse


def cases():
    gen = random.Random(1)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for d, heads, kv in ((64, 8, 2), (128, 4, 4), (128, 32, 8), (80, 6, 1), (40, 3, 3), (256, 4, 2)):
            for kind in ('varlen', 'lengths', 'paged', 'paged_varlen'):
                for causal in (False, True):
                    for few in (False, True):
                        batch, sinks = gen.randint(1, 7), gen.random() < 0.5
                        page, wide = gen.choice((1, 3, 16, 64, 256)), gen.random() < 0.5
                        invariant = gen.random() < 0.3
                        window = (gen.choice((-1, 37)), -1)
                        most = 5 if few else 300
                        rows = [gen.choice((0, 1, gen.randint(1, most))) for _ in range(batch)]
                        keys = [gen.choice((0, 1, gen.randint(1, 700), 3000 if few else 130)) for _ in range(batch)]
                        if kind in ('lengths', 'paged'):
                            rows = [max(rows[0], 1)] * batch
                        yield dict(dtype=dtype, d=d, heads=heads, kv=kv, kind=kind, causal=causal, window=window, sinks=sinks, page=page,
                                   wide=wide, invariant=invariant, rows=rows, keys=keys)


def pages_of(case, keys, ks, vs, k, v, gen):
    """Lays the keys out in pages of random order; returns the block table."""
    page, columns = case['page'], max(keys) // case['page'] + 1
    ids = list(range(k.shape[0]))
    gen.shuffle(ids)
    table = torch.zeros((len(keys), columns), dtype=torch.int32)
    for b, n in enumerate(keys):
        for c in range(-(-n // page)):
            at = table[b, c] = ids[b * columns + c]
            m = min(page, n - c * page)
            k[at, :m], v[at, :m] = ks[b][c * page:c * page + m], vs[b][c * page:c * page + m]
    return table


def make(case, device, gen=None):
    """(tensors, options, keys and values of each sequence) of a case; what no sequence owns is NaN."""
    dtype, d, heads, kv, rows, keys = (case[x] for x in ('dtype', 'd', 'heads', 'kv', 'rows', 'keys'))
    batch, packed = len(rows), 'varlen' in case['kind']
    options = {x: case[x] for x in ('causal', 'window', 'invariant')}
    if case['sinks']:
        options['sinks'] = torch.randn(heads, device=device)
    total = sum(rows) + 3
    q = torch.randn(1 if packed else batch, total if packed else rows[0], heads, d, device=device, dtype=dtype)
    out = torch.full_like(q, 77.0)
    options['lse'] = torch.full((heads, total) if packed else (batch, heads, rows[0]), 77.0, device=device)
    ks, vs = ([torch.randn(n, kv, d, device=device, dtype=dtype) for n in keys] for _ in range(2))
    offsets = lambda x: torch.tensor([2 + sum(x[:b]) for b in range(batch + 1)], dtype=torch.int64 if case['wide'] else torch.int32).to(device)
    lengths = torch.tensor(keys, dtype=torch.int32).to(device)
    nan = lambda *s: torch.full(s, math.nan, device=device, dtype=dtype)
    if packed:
        options.update(cu_q=offsets(rows), batch=batch)
    if case['kind'] == 'varlen':
        options['cu_k'] = offsets(keys)
        k, v = (nan(1, sum(keys) + 3, kv, d) for _ in range(2))
        for x, parts in ((k, ks), (v, vs)):
            x[0, 2:2 + sum(keys)] = torch.cat(parts)
    elif case['kind'] == 'lengths':
        k, v = (nan(batch, max(keys) + 5, kv, d) for _ in range(2))
        options['lengths'] = lengths
        for b in range(batch):
            k[b, :keys[b]], v[b, :keys[b]] = ks[b], vs[b]
    else:
        columns = max(keys) // case['page'] + 1
        k, v = (nan(batch * columns + 2, case['page'], kv, d) for _ in range(2))
        table = torch.zeros((batch, columns), dtype=torch.int32) if device == 'meta' else pages_of(case, keys, ks, vs, k, v, gen)
        options.update(table=table.to(device), lengths=lengths)
    return (q, k, v, out), options, ks, vs


def fault_of(case, tensors, options, ks, vs):
    """What is wrong with a result, in words, and the largest error."""
    q, _, _, out = tensors
    rows, packed, lse, at, bad, most = case['rows'], 'varlen' in case['kind'], options['lse'], 2, '', 0.0
    limit = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 3e-6}[case['dtype']]
    for b, n in enumerate(rows):
        qb, ob, lb = (q[0, at:at + n], out[0, at:at + n], lse[:, at:at + n]) if packed else (q[b], out[b], lse[b])
        at += n
        ro, rl = reference(qb, ks[b], vs[b], case['causal'], case['window'], options.get('sinks'))
        if not rl.numel():
            continue
        error = (ob.float() - ro).abs().max().item()
        lse_error = (lb - rl).nan_to_num(nan=0.0, posinf=9, neginf=9).abs().max().item()
        if not bool((torch.isinf(lb) == torch.isinf(rl)).all()):
            bad = 'infinities of the LSE'
        if not error <= limit or not lse_error <= 2e-3:
            bad = f'sequence {b}: error {error:.2e}, LSE {lse_error:.2e}'
        most = max(most, error)
    if packed and not bool((out[0, :2] == 77).all() and (out[0, at:] == 77).all() and (lse[:, :2] == 77).all()):
        bad = 'rows of no sequence were written'
    return bad, most


def check(hf, part=slice(None)):
    todo, gen, wrong, worst, start = list(cases())[part], random.Random(2), 0, {}, time.time()
    torch.manual_seed(1)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda case: hf.compile(*make(case, 'meta')[:2]), todo))
    print(f'{len(todo)} plans in {time.time() - start:.0f} s', flush=True)
    for case in todo:
        tensors, options, ks, vs = make(case, 'cuda', gen)
        hf(*tensors, **options)
        torch.cuda.synchronize()
        bad, error = fault_of(case, tensors, options, ks, vs)
        worst[case['dtype']] = max(worst.get(case['dtype'], 0.0), error)
        if bad:
            wrong += 1
            if wrong <= 12:
                print('WRONG', case, bad, flush=True)
    print(f'check: {len(todo)} cases, {wrong} wrong, largest errors', {str(k): f'{v:.1e}' for k, v in worst.items()}, flush=True)


def replays(hf):
    """Graphs that are replayed after lengths and tables changed in place."""
    gen, wrong, count = random.Random(3), 0, 0
    for kind in ('lengths', 'paged', 'varlen'):
        for d, heads, kv, dtype in ((128, 32, 8, torch.float16), (64, 4, 4, torch.bfloat16), (64, 4, 2, torch.float32)):
            case = dict(dtype=dtype, d=d, heads=heads, kv=kv, kind=kind, causal=True, window=(-1, -1), sinks=True, page=16, wide=False,
                        invariant=False, rows=[1, 1, 1, 1], keys=[4000, 4000, 4000, 4000])
            (q, k, v, out), options, ks, vs = make(case, 'cuda', gen)
            graph = graph_of(lambda: hf(q, k, v, out, **options), 2)
            for keys in ([1, 77, 3999, 2048], [0, 4000, 5, 640], [333, 1024, 1025, 0]):
                case['keys'] = keys
                other, changed, ks, vs = make({**case, 'keys': [4000] * 4} if kind != 'varlen' else case, 'cuda', gen)
                if kind == 'varlen':  # the memory keeps its size
                    k.fill_(math.nan), v.fill_(math.nan)
                    k[:, :other[1].shape[1]], v[:, :other[1].shape[1]] = other[1], other[2]
                    options['cu_k'].copy_(changed['cu_k'])
                else:
                    k.copy_(other[1]), v.copy_(other[2])
                    options['lengths'].copy_(torch.tensor(keys, dtype=torch.int32))
                    ks, vs = ([x[:n] for x, n in zip(y, keys)] for y in (ks, vs))
                    if kind == 'paged':
                        options['table'].copy_(changed['table'])
                out.fill_(77.0), options['lse'].fill_(77.0)
                graph.replay()
                torch.cuda.synchronize()
                bad, _ = fault_of(case, (q, k, v, out), options, ks, vs)
                count += 1
                if bad:
                    wrong += 1
                    print('WRONG replay', case, bad, flush=True)
    print(f'replays: {count}, {wrong} wrong', flush=True)


def compare(title, contenders, bytes_moved, copy, calls=10, rounds=15):
    """Microseconds per call of each contender that works; prints ours against the best other."""
    graphs, times = {}, {}
    for name, call in contenders.items():
        try:
            graphs[name] = graph_of(call, calls)
        except Exception as e:  # a backend that does not take the problem
            if name == 'hipflash':
                print(title, 'hipflash FAILED', str(e)[:300], flush=True)
                return
            torch.cuda.synchronize()
    for r in range(rounds + 1):
        for name, graph in graphs.items():
            graph.replay()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if r:
                times.setdefault(name, []).append(begin.elapsed_time(end) * 1e3 / calls)
    ours = times['hipflash']
    mid = {n: statistics.median(t) for n, t in times.items()}
    others = {n: t for n, t in mid.items() if n != 'hipflash'}
    best = min(others, key=others.get) if others else None
    share = bytes_moved / mid['hipflash'] * 1e-3 / copy
    deciles = statistics.quantiles(ours, n=10)
    print(f'| {title} | {mid["hipflash"]:.1f} ({deciles[0]:.1f}-{deciles[-1]:.1f}) | ' +
          (f'{others[best] / mid["hipflash"]:.2f}x {best} | ' if best else '- | ') + f'{100 * share:.0f}% | ' +
          ' '.join(f'{n} {t:.1f}' for n, t in others.items()) + ' |', flush=True)


def copy_speed():
    """GB/s read and written by the faster of two copies of 1 GiB: the driver's and PyTorch's elementwise one."""
    a = torch.randn(1 << 28, device='cuda')
    b, speeds = torch.empty_like(a), []
    for graph in (graph_of(lambda: b.copy_(a), 4), graph_of(lambda: torch.mul(a, 1, out=b), 4)):
        times = []
        for _ in range(9):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 4)
        speeds.append(2 * 4 * a.numel() / statistics.median(times) * 1e-6)
    return max(speeds)


def sdpa(backend, q, k, v, gqa, causal=False):
    def call():
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)
    return call


def decode(hf, copy, paged=False):
    print('| decode: batch, keys, heads, d | us | best peer | of copy speed | peers, us |\n|---|---|---|---|---|')
    rows = [(1, 8192, 32, 8, 128), (64, 4096, 32, 8, 128), (1, 32768, 32, 8, 128), (1, 65536, 32, 8, 128), (8, 8192, 32, 8, 128),
            (16, 16384, 32, 8, 128), (64, 1024, 32, 8, 128), (32, 4096, 32, 32, 128), (16, 8192, 16, 8, 64), (64, 8192, 64, 8, 64),
            (4, 32768, 32, 4, 128)]
    for b, n, hq, hk, d in rows[:6] if paged else rows:
        q = torch.randn(b, 1, hq, d, device='cuda', dtype=torch.float16)
        k, v = (torch.randn(b, n, hk, d, device='cuda', dtype=torch.float16) for _ in range(2))
        out = torch.empty_like(q)
        moved = 2 * (2 * k.numel() + 2 * q.numel())
        if paged:
            for page in (16, 64, 256):
                columns = n // page
                table = torch.randperm(b * columns, device='cuda').to(torch.int32).view(b, columns)
                lengths = torch.full((b,), n, device='cuda', dtype=torch.int32)
                kp, vp = (x.view(b * columns, page, hk, d) for x in (k, v))
                compare(f'paged {page}: {b} {n} {hq}/{hk} {d}', {
                    'hipflash': lambda: hf(q, kp, vp, out, table=table, lengths=lengths), 'dense': lambda: hf(q, k, v, out),
                    'lengths': lambda: hf(q, k, v, out, lengths=lengths)}, moved, copy)
            continue
        qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
        contenders = {'hipflash': lambda: hf(q, k, v, out)}
        contenders |= {name: sdpa(x, qt, kt, vt, hq != hk) for name, x in BACKENDS.items() if name != 'math' or b * n <= 65536}
        compare(f'{b} {n} {hq}/{hk} {d}', contenders, moved, copy)


def varlen(hf, copy):
    print('| varlen: batch, longest, heads, d | us | best peer | - | peers, us |\n|---|---|---|---|---|')
    gen = random.Random(2)
    for b, longest, hq, hk, d, causal in ((8, 4096, 32, 8, 128, True), (8, 4096, 32, 8, 128, False), (32, 1024, 16, 16, 64, True),
                                          (32, 1024, 16, 16, 64, False), (64, 512, 32, 32, 128, True), (4, 16384, 16, 16, 128, True)):
        lengths = [gen.randint(longest // 8, longest) for _ in range(b)]
        cu = torch.tensor([sum(lengths[:i]) for i in range(b + 1)], device='cuda', dtype=torch.int32)
        total = sum(lengths)
        q = torch.randn(total, hq, d, device='cuda', dtype=torch.float16)
        k, v = (torch.randn(total, hk, d, device='cuda', dtype=torch.float16) for _ in range(2))
        out = torch.empty_like(q)
        kx, vx = (x.repeat_interleave(hq // hk, 1) for x in (k, v))
        padded = [torch.randn(b, h, longest, d, device='cuda', dtype=torch.float16) for h in (hq, hk, hk)]
        contenders = {
            'hipflash': lambda: hf(q[None], k[None], v[None], out[None], causal=causal, cu_q=cu, cu_k=cu, batch=b, max_q=longest,
                                   max_k=longest),
            'flash_varlen': lambda: torch.ops.aten._flash_attention_forward(q, k, v, cu, cu, longest, longest, 0.0, causal, False),
            'flash_varlen_expanded': lambda: torch.ops.aten._flash_attention_forward(q, kx, vx, cu, cu, longest, longest, 0.0, causal, False),
            'cudnn_padded': sdpa(SDPBackend.CUDNN_ATTENTION, *padded, hq != hk, causal),
            'flash_padded': sdpa(SDPBackend.FLASH_ATTENTION, *padded, hq != hk, causal)}
        compare(f'{b} {longest} {hq}/{hk} {d} {"causal" if causal else "full"}', contenders, 0, copy, calls=5, rounds=9)


def main():
    hf = Hipflash(sys.argv[1])
    what = sys.argv[2:] or ['check', 'replays', 'decode', 'varlen', 'paged']
    print(torch.cuda.get_device_name(), 'PyTorch', torch.__version__, flush=True)
    for x in what:
        if x.startswith('check'):
            check(hf, slice(*(int(y) for y in x[6:].split(':'))) if '=' in x else slice(None))
    if 'replays' in what:
        replays(hf)
    if not {'decode', 'varlen', 'paged'} & set(what):
        return
    copy = copy_speed()
    print(f'copy {copy:.0f} GB/s', flush=True)
    if 'decode' in what:
        decode(hf, copy)
    if 'varlen' in what:
        varlen(hf, copy)
    if 'paged' in what:
        decode(hf, copy, paged=True)


if __name__ == '__main__':
    main()
