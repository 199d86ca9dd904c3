"""Kernel text of hipflash's NVIDIA families: the prologue of a spec, the flattened source, NVRTC, resources.

Everything here works without a GPU:

    python3 nv_text.py [--arch sm_90a]      compiles the default specs and prints registers, spills, shared memory
"""
import ctypes as C
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'kernel_sources')
ROOT_HERE = ROOT
FLAGS = dict(window_left=False, window_right=False, softcap=False, alibi=False, bias=False, mask=False, sinks=False, ragged=False, paged=False,
             lse=True, split_keys=False, aligned=True)
FAMILIES = {'sm80': 'gpu/attention_forward_sm80.cu', 'sm90': 'gpu/attention_forward_sm90.cu',
            'f32': 'gpu/attention_forward_nvf32.cu', 'f16x3': 'gpu/attention_forward_nvf16x3.cu'}


def spec(family, d, dv=None, dtype='f16', config=None, seq_k=1 << 20, **flags):
    """A spec: family, head dimensions, dtype, tile config (a dict) and feature flags."""
    unknown = set(flags) - set(FLAGS)
    assert not unknown, unknown
    modified = any(flags.get(x) for x in ('softcap', 'alibi', 'bias', 'mask'))
    crowded = not flags.get('aligned', True) or (modified and flags.get('paged', False))
    return dict(family=family, d=d, dv=d if dv is None else dv, dtype=dtype,
                config=dict(config or default_config(family, d, d if dv is None else dv, modified,
                                                     bool(flags.get('window_right') or flags.get('window_left')), seq_k, crowded=crowded)),
                flags={**FLAGS, **flags})


def default_config(family, d, dv, modified=False, ragged=False, seq_k=1 << 20, shared_limit=227 * 1024, crowded=False):
    """The defaults of tiles_nv.h."""
    widest = max(d or 512, dv or 512)
    if family == 'sm90':
        c = ((128, 3, 4, 2) if widest <= 64 else (96, 3, 2, 2) if widest <= 96 else (64, 2, 4, 2) if widest <= 128 and ragged and seq_k <= 768
             else (128, 2, 2, 2) if widest <= 128 else (96, 2, 2, 1) if widest <= 192 else (64, 2, 2, 1))
        return dict(zip(('tile_keys', 'query_groups', 'stages', 'q_stages'), c), take_turns=True)
    if family == 'f32':
        for c in ((64, 4, 2, False), (32, 4, 2, True), (32, 4, 1, False), (16, 4, 1, False), (16, 2, 1, False), (8, 2, 1, False),
                  (8, 1, 1, False))[0 if widest <= 64 else 1:]:
            c = dict(zip(('tile_keys', 'waves', 'blocks_per_sm', 'p_over_keys'), c))
            if f32_shared_bytes(c, d or 512, dv or 512) * c['blocks_per_sm'] <= shared_limit:
                return c
    if family == 'f16x3':
        first = 0 if widest <= 64 else (3 if crowded else 2) if widest <= 128 else 6 if crowded else 4
        for c in ((64, 4, 2, 2, 2), (32, 4, 2, 2, 2), (32, 4, 2, 1, 2), (32, 4, 1, 1, 2), (32, 8, 1, 1, 1), (32, 4, 1, 1, 1), (16, 8, 1, 1, 1),
                  (16, 4, 1, 1, 1), (16, 2, 1, 1, 1))[first:]:
            c = dict(zip(('tile_keys', 'waves', 'row_tiles', 'stages', 'blocks_per_sm'), c))
            if f16x3_shared_bytes(c, d or 512, dv or 512) * c['blocks_per_sm'] <= shared_limit:
                return c
    if widest <= 128 and modified:
        c = (64, 4, 1, 2, 2, False)
    elif widest <= 128:
        c = (48 if widest > 64 else 64, 4, 2, 2, 2, widest <= 64)
    elif widest <= 256:
        c = ((48 if widest <= 192 else 64) if shared_limit > 150 * 1024 else 32, 4, 1, 1, 2, False)
    else:
        c = (32, 4, 1, 1, 1, False) if shared_limit > 115 * 1024 else (32, 2, 1, 1, 1, False)
    return dict(zip(('tile_keys', 'waves', 'row_tiles', 'stages', 'blocks_per_sm', 'q_in_registers'), c), pack_heads=False, key_parts=1)


def value(x):
    return 'true' if x is True else 'false' if x is False else str(x)


def kind(x):
    return 'bool' if isinstance(x, bool) else 'int'


def prologue(s):
    lines = ['#include "common/attention_args.h"', 'namespace hipflash {', 'struct Spec {',
             f'  static constexpr ElementType element = ElementType::{s["dtype"]};',
             f'  static constexpr int head_dim = {s["d"]};', f'  static constexpr int value_head_dim = {s["dv"]};']
    for name, x in {**s['flags'], **s['config']}.items():
        lines.append(f'  static constexpr {kind(x)} {name} = {value(x)};')
    return '\n'.join(lines + ['};', '}  // namespace hipflash', ''])


def flatten(text, seen):
    out = []
    for line in text.split('\n'):
        m = re.match(r'\s*#include "(.*)"', line)
        if m:
            if m.group(1) not in seen:
                seen.add(m.group(1))
                out.append(flatten(open(os.path.join(ROOT, m.group(1))).read(), seen))
        elif line.strip() != '#pragma once':
            out.append(line)
    return '\n'.join(out)


def source(s):
    global ROOT
    seen = set()
    ROOT = s.get('root', ROOT_HERE)  # another tree to compare with
    out = flatten(prologue(s), seen) + flatten(open(os.path.join(ROOT, FAMILIES[s['family']])).read(), seen)
    for a, b in s.get('patch', ()):  # experiments
        assert a in out, a
        out = out.replace(a, b)
    return out


def nvrtc():
    names = ['libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so'] + sorted(glob.glob('/usr/local/cuda*/lib64/libnvrtc.so*'))
    for p in sys.path:
        names += glob.glob(p + '/nvidia/*/lib/libnvrtc.so.*')
    for n in names:
        try:
            return C.CDLL(n)
        except OSError:
            pass
    raise SystemExit('no libnvrtc')


def compile_text(text, arch, ptx=False):
    """Source to cubin (or PTX); raises RuntimeError with the compiler's words."""
    rt, prog, n = nvrtc(), C.c_void_p(), C.c_size_t()
    assert rt.nvrtcCreateProgram(C.byref(prog), text.encode(), b'hipflash.cu', 0, None, None) == 0
    opts = [b'--gpu-architecture=' + (arch.replace('sm_', 'compute_') if ptx else arch).encode(), b'--std=c++17', b'-default-device']
    rc = rt.nvrtcCompileProgram(prog, len(opts), (C.c_char_p * len(opts))(*opts))
    rt.nvrtcGetProgramLogSize(prog, C.byref(n))
    log = C.create_string_buffer(n.value)
    rt.nvrtcGetProgramLog(prog, log)
    if rc:
        raise RuntimeError(log.value.decode()[:4000])
    size, get = (rt.nvrtcGetPTXSize, rt.nvrtcGetPTX) if ptx else (rt.nvrtcGetCUBINSize, rt.nvrtcGetCUBIN)
    size(prog, C.byref(n))
    buf = C.create_string_buffer(n.value)
    get(prog, buf)
    rt.nvrtcDestroyProgram(C.byref(prog))
    return buf.raw, log.value.decode()


def arch_of(s):
    return 'sm_90a' if s['family'] == 'sm90' else 'sm_90'


def compile_spec(s, arch=None):
    t = time.time()
    try:
        return compile_text(source(s), arch or arch_of(s))[0], time.time() - t
    except RuntimeError as e:
        return None, str(e)


def resources(s, arch=None):
    """Registers, spills and messages of one spec, by ptxas."""
    arch = arch or arch_of(s)
    ptx, log = compile_text(source(s), arch, ptx=True)
    with tempfile.NamedTemporaryFile(suffix='.ptx') as f:
        f.write(ptx.rstrip(b'\0'))
        f.flush()
        r = subprocess.run(['ptxas', '-v', '-arch=' + arch, f.name, '-o', '/dev/null'], capture_output=True, text=True)
    words = r.stderr
    at = words.find("'attention_forward'")
    tail = words[at:]
    regs = re.search(r'Used (\d+) registers', tail)
    spill = re.search(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads', tail)
    notes = [l for l in words.split('\n') if 'C75' in l or 'error' in l]
    return (int(regs.group(1)) if regs else None, tuple(map(int, spill.groups())) if spill else None, notes, log)


def shared_bytes(s):
    c, up = s['config'], lambda x: -(-x // 16) * 16
    d, dv = s['d'] or 512, s['dv'] or 512
    if s['family'] == 'sm90':
        slabs = lambda x: -(-x // 64)
        q = c.get('q_stages', 1)
        return 128 * (q * 64 * c['query_groups'] * slabs(d) + c['stages'] * c['tile_keys'] * (slabs(d) + slabs(dv))) + 64 + 8 * (2 * q + 4 * c['stages']) + 1024
    if s['family'] == 'f32':
        return f32_shared_bytes(c, d, dv)
    if s['family'] == 'f16x3':
        return f16x3_shared_bytes(c, d, dv)
    chunks = 2 if dv > 256 else 1
    parts = c.get('key_parts', 1)
    part = 2 * (c['waves'] * c['row_tiles'] * 16 * up(d) + c['stages'] * c['tile_keys'] * (up(d) + up(-(-dv // chunks)))) + 32
    return part if parts == 1 else parts * (-(-part // 128) * 128)


def f32_shared_bytes(c, d, dv):
    up = lambda x, n: -(-x // n) * n
    chunks = -(-dv // 128)
    rows, pitch = c['waves'] * 32, up(d, 8) + 4
    keys, p = c['tile_keys'] * pitch, rows * (c['tile_keys'] + 8)
    return 4 * (rows * pitch + (max(keys, p) if c['p_over_keys'] else keys + p) + c['tile_keys'] * up(-(-dv // chunks), 32)) + 32


def f16x3_shared_bytes(c, d, dv):
    up = lambda x: -(-x // 16) * 16
    chunks = -(-dv // (256 // c['row_tiles']))
    row, value_row = 4 * up(d) + 20, 4 * up(-(-dv // chunks)) + 20
    return c['waves'] * c['row_tiles'] * 16 * row + c['stages'] * c['tile_keys'] * (row + value_row) + 512 * c['waves'] * c['row_tiles'] + 32


def main():
    arch = sys.argv[sys.argv.index('--arch') + 1] if '--arch' in sys.argv else None
    everything = dict(window_left=True, window_right=True, softcap=True, alibi=True, bias=True, mask=True, split_keys=True)
    todo = []
    for d in (32, 64, 80, 96, 128, 192, 256, 512):
        for dtype in ('f16', 'bf16'):
            for flags in ({}, dict(window_right=True), everything):
                if d > 128 and dtype == 'bf16':
                    continue
                todo.append(spec('sm80', d, dtype=dtype, **flags))
                if d <= 256 and not flags.get('bias'):
                    todo.append(spec('sm90', d, dtype=dtype, **flags))
    if '--only' in sys.argv:
        only = sys.argv[sys.argv.index('--only') + 1]
        todo = [s for s in todo if s['family'] == only]
    for s in todo:
        t = time.time()
        try:
            regs, spill, notes, log = resources(s, arch)
            print(s['family'], s['d'], s['dtype'], ','.join(k for k, v in s['flags'].items() if v), 'regs', regs, 'spill', spill,
                  'KB', shared_bytes(s) // 1024, f'{time.time() - t:.1f}s', *notes, log.strip()[:300], flush=True)
        except RuntimeError as e:
            print('FAILED', s, str(e)[:3000], flush=True)


if __name__ == '__main__':
    main()
