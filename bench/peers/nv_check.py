"""The NVIDIA forward kernels against attention in float64: modes of nv_forward.py."""
import math
import sys

import nv_text as text
from nv_kernels import STORE, UNBOUNDED, launcher, rec


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
        if parts > 2:
            few.update(tile_keys=16, stages=3, key_parts=4)
        out.append((S('sm80', d, config=few, split_keys=True, window_right=True),
                    [dict(shape=(2, 8, 2, q, k), pad=8, splits=n, causal='bottom') for q, k, n in ((1, 700, 4), (3, 1000, 7), (9, 333, 1), (40, 50, 2))]))
    out.append((S('sm80', 36, 44), [dict(shape=x, pad=4, layout='bhsd') for x in SHAPES]))  # rows aligned, width not
    for family in ('sm80', 'sm90'):
        out.append((S(family, 64, **causal), [dict(shape=(2, 2, 1, 100, 200), layout='far', causal='bottom')]))
    for d in (40, 64):  # the tile of short keys
        out.append((S('sm80', d, seq_k=512, **causal), [dict(shape=x, pad=8, causal='bottom') for x in SHAPES]))
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


def label(s):
    return f"{s['family']} d{s['d']}/{s['dv']} {s['dtype']} " + ','.join(k for k, v in s['flags'].items() if v != text.FLAGS[k]) + \
        (' packed' if s['config'].get('pack_heads') else '')


def run_cases(todo):
    import torch
    STORE.build([s for s, _ in todo])
    n = wrong = 0
    worst = {}
    for i, (s, checks) in enumerate(todo):
        if i % 20 == 0:
            print(f'{i} of {len(todo)} specs, {n} cases, {wrong} wrong', flush=True)
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


def mode_smoke():
    """A few launches of every kind, small enough for compute-sanitizer."""
    S = text.spec
    causal = dict(window_right=True)
    everything = dict(window_left=True, window_right=True, softcap=True, alibi=True, bias=True, mask=True, split_keys=True)
    p = dict(pad=8)
    few = dict(tile_keys=16, waves=1, row_tiles=1, stages=3, blocks_per_sm=1, q_in_registers=False, pack_heads=True, key_parts=4)
    run_cases([*((S('sm80', 128, config=dict(few, **x), split_keys=True, window_right=True),
                  [dict(p, shape=(2, 8, 2, 1, 700), splits=n, causal='bottom') for n in (1, 3)])
                 for x in ({}, dict(tile_keys=32), dict(stages=2, blocks_per_sm=4, key_parts=1))),
               *((S(f, d, dtype=t, window_left=True), [dict(p, shape=(1, 2, 1, 200, 333), window=(40, None))])
                 for f, d, t in (('sm80', 128, 'f16'), ('f16x3', 64, 'f32'))),
               (S('sm80', 128, **causal), [dict(p, shape=(1, 2, 1, 200, 333), causal='bottom', std=x) for x in (1.0, 6.0)]),
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
