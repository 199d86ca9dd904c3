#!/usr/bin/env python3
"""Makes docs/verification.md from the lines of JSON that the test programs write, and from docs/verification/notes.md.

    tools/verification.py            writes docs/verification.md from docs/verification/*.jsonl
    tools/verification.py --check    fails if docs/verification.md is not what would be written
    tools/verification.py --add FILE...   first joins result files (HIPFLASH_RESULTS) into docs/verification/results.jsonl

Programs that write results when HIPFLASH_RESULTS names a file: hipflash_gpu_compile_tests (every default kernel that a GPU
compiler made) and hipflash_device_tests (every case that ran on a GPU or an emulated one)."""
import collections
import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / 'docs'
DATA = DOCS / 'verification'
DTYPES = ('f16', 'bf16', 'f32')


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def where(row):
    """'emulated' or the name of the card."""
    return 'emulated' if row['device'].startswith('emulated') else row['device']


def add(files):
    """Joins new results: of compiled kernels the last of each, of cases that ran a count and the largest errors."""
    store = DATA / 'results.jsonl'
    compiled, ran = {}, {}
    for row in (lines_of(store) if store.exists() else []):
        (compiled if row['kind'] == 'compiled' else ran)[key_of(row)] = row
    fresh = {}
    for file in files:
        for row in lines_of(pathlib.Path(file)):
            if row['kind'] == 'compiled':
                compiled[key_of(row)] = row
                continue
            row = {'kind': 'ran', 'where': where(row), 'arch': row['arch'].split(':')[0], 'family': row['family'],
                   'dtype': row['dtype'], 'head_dim': row['head_dim'], 'value_head_dim': row['value_head_dim'],
                   'features': row['features'], 'cases': 1, 'right': int(row['right']), 'error': row['error'] or 0.0,
                   'lse_error': row['lse_error'] or 0.0}
            key = key_of(row)
            if key in fresh:
                old = fresh[key]
                for name in ('cases', 'right'):
                    row[name] += old[name]
                for name in ('error', 'lse_error'):
                    row[name] = max(row[name], old[name])
            fresh[key] = row
    ran.update(fresh)
    DATA.mkdir(exist_ok=True)
    rows = [compiled[k] for k in sorted(compiled)] + [ran[k] for k in sorted(ran)]
    store.write_text(''.join(json.dumps(row) + '\n' for row in rows))


def key_of(row):
    if row['kind'] == 'compiled':
        names = ('arch', 'compiler', 'dtype', 'head_dim', 'value_head_dim', 'features')
    else:
        names = ('arch', 'where', 'dtype', 'head_dim', 'value_head_dim', 'features', 'family')
    return tuple(row[name] for name in names)


def dims(rows):
    pairs = sorted({(r['head_dim'], r['value_head_dim']) for r in rows})
    return ', '.join(str(a) if a == b else f'{a}/{b}' for a, b in pairs)


def table(head, rows):
    return '\n'.join(['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head)] +
                     ['| ' + ' | '.join(str(cell) for cell in row) + ' |' for row in rows]) + '\n'


def compiled_table(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row['arch'], row['compiler']].append(row)
    made = []
    for (arch, compiler), group in sorted(groups.items()):
        small = [r for r in group if max(r['head_dim'], r['value_head_dim']) <= 256]
        bad = [r for r in small if r['scratch'] > 0 or r['spilled'] > 0]
        types = ', '.join(t for t in DTYPES if any(r['dtype'] == t for r in group))
        made.append((arch, compiler, types, dims(group), len({r['features'] for r in group}), len(group),
                     'none' if not bad else f'{len(bad)} of {len(small)}'))
    return table(('architecture', 'compiler', 'types', 'head dims', 'classes of features', 'kernels', 'spill, d up to 256'), made)


def ran_table(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row['where'] != 'emulated', row['arch'], row['where'], row['dtype'], row['features']].append(row)
    made = []
    for (_, arch, place, dtype, features), group in sorted(groups.items(), key=lambda g: (not g[0][0],) + g[0][1:]):
        made.append((arch, place, dtype, features, dims(group), f"{sum(r['right'] for r in group)} of {sum(r['cases'] for r in group)}",
                     f"{max(r['error'] for r in group):.1e}", f"{max(r['lse_error'] for r in group):.1e}"))
    return table(('architecture', 'where', 'type', 'features', 'head dims', 'right', 'largest error', 'of the LSE'), made)


def page():
    rows = [row for path in sorted(DATA.glob('*.jsonl')) for row in lines_of(path)]
    compiled = [r for r in rows if r['kind'] == 'compiled']
    ran = [r for r in rows if r['kind'] == 'ran']
    return (f'''# Verification

<!-- Made by tools/verification.py from docs/verification/. Do not edit. -->

What was compiled, run on an emulated device, run on silicon, and how close it came to float64. "Emulated" is an instruction emulator
that runs the compiled code object; nothing here ran on an AMD GPU. What is in no table and not in the notes was not run.

## Compiled

Default kernels that plans choose (`tests/gpu_compile/`), by compiler.

{compiled_table(compiled)}
## Run by the whole library

`tests/device/`: plan, compile, load, launch through the public API, against float64 (acceptance: twice the error of plain arithmetic in
the type, see `src/verify/reference.h`).

{ran_table(ran) if ran else 'No results are recorded yet; see the notes.'}
''' + (DATA / 'notes.md').read_text())


def main(arguments):
    if arguments[:1] == ['--add']:
        add(arguments[1:])
        arguments = []
    text, target = page(), DOCS / 'verification.md'
    if arguments == ['--check']:
        if target.read_text() != text:
            sys.exit('docs/verification.md is not what tools/verification.py makes of docs/verification/')
    elif arguments:
        sys.exit(__doc__)
    else:
        target.write_text(text)


if __name__ == '__main__':
    main(sys.argv[1:])
