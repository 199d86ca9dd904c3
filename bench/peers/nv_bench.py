"""The NVIDIA forward kernels timed beside PyTorch's SDPA backends: modes of nv_forward.py."""
import statistics
import sys

import nv_text as text
from nv_kernels import STORE, key, launcher, rec


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
