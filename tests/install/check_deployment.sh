#!/usr/bin/env bash
# Runs the example in a root that holds nothing but the program, the library, the libraries those need, and a pack: no
# compiler, no shell, no home, and nothing that can be written to; /proc is there, as in every container. The pack is made of what the example was recorded doing.
# Exit code 77, with the reason, where a root of one's own cannot be entered.
#
# usage: check_deployment.sh BUILD
set -euo pipefail
build=$1 chroot=$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { printf 'check_deployment: %s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }

# As root, else in a user namespace where the system allows those.
enter=(unshare --mount)
((EUID == 0)) || enter=(unshare --user --map-root-user --mount)
"${enter[@]}" "$chroot" / /bin/true 2>"$work/err" || skip "no root can be entered here: $(cat "$work/err")"

program=$build/examples/link_and_call
[[ -x $program ]] || die "$program is not built"
export HIPFLASH_CACHE_DIR="$work/cache" HIPFLASH_DEVICE=cpu HIPFLASH_TUNING=off HOME="$work"
unset HIPFLASH_PREBUILT HIPFLASH_COMPILE XDG_DATA_HOME
HIPFLASH_RECORD="$work/recorded.jsonl" "$program" >/dev/null || die "the example failed where there is a compiler"
"$build/bin/hipflash" pack create -o "$work/app.hfpack" --workload "$work/recorded.jsonl" >/dev/null
"$build/bin/hipflash" pack verify "$work/app.hfpack" --workload "$work/recorded.jsonl" >/dev/null

root=$work/root
mkdir -p "$root/app" "$root/tmp" "$root/proc"
cp "$program" "$root/app/program"
cp "$work/app.hfpack" "$root/app/"
ldd "$program" | grep -oE '/[^ )]+' | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done

# run VARIABLE=VALUE...: the program in the root, read-only, with this environment alone.
run() {
  "${enter[@]}" bash -c 'mount --bind "$1" "$1" && mount --rbind /proc "$1/proc" && mount -o remount,bind,ro "$1" && cd / && shift 1 && exec "$@"' \
    _ "$root" env -i HIPFLASH_DEVICE=cpu "$@" "$chroot" "$root" /app/program
}

for compile in auto never; do
  run HIPFLASH_COMPILE=$compile HIPFLASH_PREBUILT=/app/app.hfpack HIPFLASH_LOG=debug >"$work/out" 2>"$work/err" ||
    die "with the pack (HIPFLASH_COMPILE=$compile): $(cat "$work/err")"
  grep -q 'out\[0\] = 0.5' "$work/out" || die "wrong output: $(cat "$work/out")"
  grep -q 'found in /app/app.hfpack' "$work/err" || die "the pack was not used: $(cat "$work/err")"
done

# Without the pack: an error that names the kernel and the command that makes it.
if run >"$work/out" 2>"$work/err"; then die "it worked without a pack and without a compiler"; fi
grep -q 'hipflash pack create' "$work/err" || die "the error does not say what to do: $(cat "$work/err")"
echo "ran from a pack of $(stat -c %s "$work/app.hfpack") bytes"
