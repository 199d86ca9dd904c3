"""Kernel text of hipflash's NVIDIA families: the prologue of a spec, the flattened source, NVRTC, resources.

Everything here works without a GPU:

    python3 nv_text.py [--arch sm_90a]      compiles the default specs and prints registers, spills, shared memory
"""
import ctypes as C
import functools
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
NAMES = {'sm80': 'sm80', 'sm90': 'sm90', 'f32': 'nvf32', 'f16x3': 'nvf16x3'}  # in nv_launch.cpp


class Sm80Tile(C.Structure):
    _fields_ = [(n, C.c_int) for n in ('tile_keys', 'waves', 'row_tiles', 'stages', 'blocks_per_sm')] + \
               [(n, C.c_bool) for n in ('q_in_registers', 'pack_heads')] + [('key_parts', C.c_int)]


class Sm90Tile(C.Structure):
    _fields_ = [(n, C.c_int) for n in ('tile_keys', 'query_groups', 'stages', 'q_stages')] + [('take_turns', C.c_bool)]


class NvF32Tile(C.Structure):
    _fields_ = [(n, C.c_int) for n in ('tile_keys', 'waves', 'blocks_per_sm')] + [('p_over_keys', C.c_bool)]


class NvF16x3Tile(C.Structure):
    _fields_ = [(n, C.c_int) for n in ('tile_keys', 'waves', 'row_tiles', 'stages', 'blocks_per_sm')]


TILES = {'sm80': Sm80Tile, 'sm90': Sm90Tile, 'f32': NvF32Tile, 'f16x3': NvF16x3Tile}


@functools.cache
def launch_library():
    """tiles_nv.h as a library."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'nv_launch.so')
        subprocess.run(['g++', '-std=c++17', '-O1', '-shared', '-fPIC', '-I', ROOT_HERE,
                        os.path.join(os.path.dirname(os.path.abspath(__file__)), 'nv_launch.cpp'), '-o', path], check=True)
        return C.CDLL(path)


def spec(family, d, dv=None, dtype='f16', config=None, seq_k=1 << 20, **flags):
    """A spec: family, head dimensions, dtype, tile config (a dict) and feature flags."""
    unknown = set(flags) - set(FLAGS)
    assert not unknown, unknown
    dv = d if dv is None else dv
    return dict(family=family, d=d, dv=dv, dtype=dtype, config=dict(config or default_config(family, d, dv, seq_k, **flags)),
                flags={**FLAGS, **flags})


def default_config(family, d, dv, seq_k=1 << 20, shared_limit=227 * 1024, **flags):
    """The default of tiles_nv.h for these flags."""
    modified = any(flags.get(x) for x in ('softcap', 'alibi', 'bias', 'mask'))
    left, right, paged, unaligned = (bool(x) for x in (flags.get('window_left'), flags.get('window_right'), flags.get('paged'),
                                                       not flags.get('aligned', True)))
    more = {'sm80': (modified or unaligned or paged, left, seq_k, shared_limit), 'sm90': (left or right, modified, seq_k),
            'f32': (modified, shared_limit),
            'f16x3': (unaligned or (modified and paged), seq_k > 768 or not (left or right) if max(d, dv) > 32 else
                      not (modified or unaligned or left), shared_limit)}[family]
    tile = TILES[family]()
    getattr(launch_library(), 'default_' + NAMES[family])(d or 512, dv or 512, *more, C.byref(tile))
    return {n: getattr(tile, n) for n, _ in tile._fields_}


def shared_bytes(s):
    """Dynamic shared memory of a spec's block."""
    tile = TILES[s['family']](**s['config'])
    return getattr(launch_library(), 'shared_bytes_' + NAMES[s['family']])(C.byref(tile), s['d'] or 512, s['dv'] or 512)


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
