#!/usr/bin/env python3
"""Makes docs/verification.md from the lines of JSON that the test programs write, and from docs/verification/notes.md.

    tools/verification.py            writes docs/verification.md from docs/verification/*.jsonl
    tools/verification.py --check    fails if docs/verification.md is not what would be written
    tools/verification.py --add FILE...   first joins result files (HIPFLASH_RESULTS) into docs/verification/results.jsonl

Programs that write results when HIPFLASH_RESULTS names a file: hipflash_gpu_compile_tests (every default kernel that a GPU
compiler made) and hipflash_device_tests (every case that ran on a GPU or an emulated one, every tile config that it was
made to take, and every test as a whole)."""
import collections
import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / 'docs'
DATA = DOCS / 'verification'
DTYPES = ('f16', 'bf16', 'f32')
CONFIGS_KEY = ('arch', 'where', 'dtype', 'head_dim', 'value_head_dim', 'family')
SUITE_KEY = ('arch', 'where', 'suite')
COMPILED_KEY = ('arch', 'compiler', 'dtype', 'head_dim', 'value_head_dim')
COMPILED_VALUES = ('registers', 'waves', 'scratch', 'spilled')


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def where(row):
    """'emulated' or the name of the card."""
    return 'emulated' if row['device'].startswith('emulated') else row['device']


def joined_configs(rows):
    """Runs of single tile configs, the last of each config and class of features, as one row for each list of configs."""
    lists = collections.defaultdict(dict)
    for row in rows:
        row = dict(row, kind='configs', where=where(row), arch=row['arch'].split(':')[0])
        lists[key_of(row)][row['config'], row['features']] = row
    made = {}
    for key, runs in lists.items():
        first = next(iter(runs.values()))
        wrong = {r['config'] for r in runs.values() if not r['right']}
        listed = {r['config'] for r in runs.values() if r['in_list']}
        made[key] = {name: first[name] for name in ('kind',) + CONFIGS_KEY} | {
            'listed': first['listed'], 'ran': len(listed), 'right': len(listed - wrong),
            'defaults': len({r['config'] for r in runs.values()} - listed),
            'defaults_right': len({r['config'] for r in runs.values()} - listed - wrong),
            'spill': len({r['config'] for r in runs.values() if r['spills']} & listed),
            'features': sorted({r['features'] for r in runs.values()}),
            'error': max(r['error'] or 0.0 for r in runs.values()), 'lse_error': max(r['lse_error'] or 0.0 for r in runs.values())}
    return made


def add_compiled(compiled, row):
    """Kernels of one type and head dimensions are one row: for each class of features the COMPILED_VALUES of the last."""
    made = compiled.setdefault(key_of(row), {name: row[name] for name in ('kind',) + COMPILED_KEY} | {'kernels': {}})
    made['kernels'][row['features']] = [row[name] for name in COMPILED_VALUES]


def add_test(suites, row):
    """Of each test of a suite the last result."""
    row = {'kind': 'suite', 'arch': row['arch'].split(':')[0], 'where': where(row), 'suite': row['suite'], 'test': row['test'],
           'right': row['right']}
    suite = suites.setdefault(key_of(row), {name: row[name] for name in ('kind',) + SUITE_KEY} | {'right': [], 'wrong': []})
    for name in ('right', 'wrong'):
        kept = set(suite[name]) - {row['test']}
        suite[name] = sorted(kept | {row['test']} if row['right'] == (name == 'right') else kept)


def add(files):
    """Joins new results: of compiled kernels and of tests the last of each, of cases that ran a count and the largest errors."""
    store = DATA / 'results.jsonl'
    compiled, ran, configs, suites = {}, {}, {}, {}
    for row in (lines_of(store) if store.exists() else []):
        {'compiled': compiled, 'ran': ran, 'configs': configs, 'suite': suites}[row['kind']][key_of(row)] = row
    fresh, single = {}, []
    for file in files:
        for row in lines_of(pathlib.Path(file)):
            if row['kind'] == 'compiled':
                add_compiled(compiled, row)
                continue
            if row['kind'] == 'test':
                if row['suite'] != 'ListedConfigs':  # whose configs have a table of their own
                    add_test(suites, row)
                continue
            if 'config' in row:
                single.append(row)
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
    configs.update(joined_configs(single))
    DATA.mkdir(exist_ok=True)
    rows = [kind[k] for kind in (compiled, ran, configs, suites) for k in sorted(kind)]
    store.write_text(''.join(json.dumps(row) + '\n' for row in rows))


def key_of(row):
    if row['kind'] == 'compiled':
        names = COMPILED_KEY
    elif row['kind'] == 'configs':
        names = CONFIGS_KEY
    elif row['kind'] == 'suite':
        names = SUITE_KEY
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
        kernels = [k for r in group for k in r['kernels'].values()]
        small = [k for r in group if max(r['head_dim'], r['value_head_dim']) <= 256 for k in r['kernels'].values()]
        bad = [k for k in small if k[COMPILED_VALUES.index('scratch')] > 0 or k[COMPILED_VALUES.index('spilled')] > 0]
        types = ', '.join(t for t in DTYPES if any(r['dtype'] == t for r in group))
        made.append((arch, compiler, types, dims(group), len({f for r in group for f in r['kernels']}), len(kernels),
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


def configs_table(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row['where'] != 'emulated', row['arch'], row['where'], row['family'], row['dtype']].append(row)
    made = []
    for (_, arch, place, family, dtype), group in sorted(groups.items(), key=lambda g: (not g[0][0],) + g[0][1:]):
        total = {name: sum(r[name] for r in group) for name in ('listed', 'ran', 'right', 'spill', 'defaults', 'defaults_right')}
        made.append((arch, place, family.split('/')[-1], dtype, dims(group), f"{total['right']} of {total['listed']}",
                     total['ran'] - total['right'], total['spill'], f"{total['defaults_right']} of {total['defaults']}",
                     f"{max(r['error'] for r in group):.1e}", f"{max(r['lse_error'] for r in group):.1e}"))
    return table(('architecture', 'where', 'family', 'type', 'head dims', 'listed configs right', 'wrong', 'of them spill',
                  'other defaults', 'largest error', 'of the LSE'), made)


def suites_table(rows):
    devices = sorted({(r['where'] != 'emulated', r['arch'], r['where']) for r in rows}, key=lambda d: (not d[0],) + d[1:])
    cells = {(r['suite'], r['arch'], r['where']): f"{len(r['right'])} of {len(r['right']) + len(r['wrong'])}" for r in rows}
    made = [[suite] + [cells.get((suite, arch, place), '') for _, arch, place in devices]
            for suite in sorted({r['suite'] for r in rows})]
    return table(['suite'] + [f'{arch}, {place}' for _, arch, place in devices], made)


def page():
    rows = [row for path in sorted(DATA.glob('*.jsonl')) for row in lines_of(path)]
    compiled = [r for r in rows if r['kind'] == 'compiled']
    ran = [r for r in rows if r['kind'] == 'ran']
    configs = [r for r in rows if r['kind'] == 'configs']
    suites = [r for r in rows if r['kind'] == 'suite']
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
## Listed tile configs

`tests/device/listed_configs_test.cpp`: each config that a family lists for a type and head dimensions is forced, one by one, as
`hipflash tune` does, and runs one call of more than a tile of queries and keys with tails, against float64 as above. The kinds of
calls take turns: full, causal, split keys of packed heads, packed sequences with sinks, pages, and everything that modifies scores
with unaligned rows. Right: of as many as the lists hold, summed over the head dimensions named. A tuner drops
configs that spill registers; here they ran too. Other defaults: built-in choices that no list has.

{configs_table(configs) if configs else 'No results are recorded yet.'}
## Tests that passed, by suite

Tests of `tests/device/` and `tests/numerics/` as a whole, of as many as ran and were recorded one by one; what their names say
is asked there, beside errors: NaN and infinity (`SmallNumbers`), lengths and tables that cannot be right (`SmallRaggedFaults`), the same
bits again and again (`SmallReruns`).

{suites_table(suites) if suites else 'No results are recorded yet.'}
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
