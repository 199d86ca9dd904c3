#!/usr/bin/env bash
# From a tuner to a machine without a compiler, on the AMD GPU that HIPFLASH_TEST_DEVICE names (a card or an emulated one):
# two tiny problems are tuned, a pack is made of them and of what the example was recorded doing, it is installed, and the
# example runs from it where everything is read-only and hipRTC is not there.
# Exit code 77, with the reason, without such a device, or where a root of one's own cannot be entered.
#
# usage: check_gpu_deployment.sh BUILD
set -euo pipefail
build=$1 chroot=$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { printf 'check_gpu_deployment: %s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }

[[ ${HIPFLASH_TEST_DEVICE:-} == hip:* ]] || skip "HIPFLASH_TEST_DEVICE names no AMD GPU (hip:0)"
hipflash=$build/bin/hipflash program=$build/examples/hip_device
for needed in "$hipflash" "$program"; do [[ -x $needed ]] || die "$needed is not built"; done
enter=(unshare --mount)
((EUID == 0)) || enter=(unshare --user --map-root-user --mount)
"${enter[@]}" "$chroot" / /bin/true 2>"$work/err" || skip "no root can be entered here: $(cat "$work/err")"

export HIPFLASH_DEVICE=$HIPFLASH_TEST_DEVICE HOME="$work/home" XDG_DATA_HOME="$work/data" HIPFLASH_LOG=warn
export HIPFLASH_CACHE_DIR="$work/cache" HIPFLASH_TUNING="$work/tuning"
unset HIPFLASH_PREBUILT HIPFLASH_COMPILE HIPFLASH_TRUSTED_KEYS
mkdir "$work/home"
"$hipflash" info >"$work/out" || die "hipflash info failed"
grep -A 3 "^$HIPFLASH_DEVICE" "$work/out" | grep -q hipRTC || skip "no hipRTC for $HIPFLASH_DEVICE: $(cat "$work/out")"

# Tune (an emulated device takes its time): everything is measured, and found again by the next run.
cat >"$work/shapes.jsonl" <<'JSON'
{"problem":{"dtype":"f16","heads_q":1,"seq_q":40,"head_dim":32,"causal":true}}
{"problem":{"dtype":"f16","heads_q":1,"seq_q":33,"head_dim":64}}
JSON
tune() { HIPFLASH_MEASURE_TIMEOUT=600 "$hipflash" tune --shapes "$work/shapes.jsonl" --json >"$work/out" || die "hipflash tune failed"; }
tune
grep -q '"tuned": 2' "$work/out" && grep -q '"quarantined": 0' "$work/out" || die "tuning: $(cat "$work/out")"
tune
grep -q '"already": 2' "$work/out" || die "tuned problems were tuned again: $(cat "$work/out")"

# Pack: of the tuned problems for this architecture, and of the example.
HIPFLASH_RECORD="$work/recorded.jsonl" "$program" >"$work/out" || die "the example failed: $(cat "$work/out")"
arch=$(sed -n 's/.*"arch":"\([^":]*\).*/\1/p' "$work/recorded.jsonl" | head -1)
"$hipflash" pack create -o "$work/tuned.hfpack" --arch "$arch" --workload "$work/shapes.jsonl" >/dev/null
"$hipflash" pack create -o "$work/example.hfpack" --workload "$work/recorded.jsonl" >/dev/null
"$hipflash" pack merge -o "$work/app.hfpack" "$work/tuned.hfpack" "$work/example.hfpack" >/dev/null
"$hipflash" pack verify "$work/app.hfpack" --workload "$work/recorded.jsonl" >/dev/null || die "the pack lacks a kernel"
"$hipflash" pack list "$work/app.hfpack" >"$work/out"
grep -q '^tuned ' "$work/out" || die "the pack has no tuning result: $(cat "$work/out")"

# run VARIABLE=VALUE... -- COMMAND...: in a read-only view of this system without hipRTC. Only /tmp is there to write to, for
# the runtime's own use; what the test made is beside it.
cat >"$work/enter.sh" <<'EOS'
set -euo pipefail
root=$1 chroot=$2 work=$3
shift 3
mount --rbind / "$root"
ldconfig=$(PATH=$PATH:/usr/sbin:/sbin command -v ldconfig)
libraries=$("$ldconfig" -p | sed -n 's/.*=> \(.*libhiprtc.*\)$/\1/p' | sort -u)
for library in $libraries; do mount --bind /dev/null "$root$(readlink -f "$library")"; done
mount --bind "$work" "$root/mnt"
mount -o remount,bind,ro "$root/mnt"
mount -t tmpfs none "$root/tmp"
mount -o remount,bind,ro "$root"
exec "$chroot" "$root" "$@"
EOS
mkdir "$work/root"
run() {
  "${enter[@]}" bash "$work/enter.sh" "$work/root" "$chroot" "$work" env HOME=/mnt/home HIPFLASH_CACHE_DIR=/mnt/cold \
    HIPFLASH_TUNING=/mnt/no-tuning XDG_DATA_HOME=/mnt/data HIPFLASH_LOG=debug "$@"
}
mkdir -m 700 "$work/cold"

# Without the pack: an error that names the kernel and the command that makes it.
if run "$program" >"$work/out" 2>"$work/err"; then die "it worked without a pack and without hipRTC"; fi
grep -q "hipflash pack create -o more.hfpack --arch $arch" "$work/err" || die "the error does not say what to do: $(cat "$work/err")"

"$hipflash" pack install --to "$XDG_DATA_HOME/hipflash/packs" "$work/app.hfpack" >"$work/out"
for compile in auto never; do
  run HIPFLASH_COMPILE=$compile "$program" >"$work/out" 2>"$work/err" ||
    die "with the pack (HIPFLASH_COMPILE=$compile): $(cat "$work/err")"
  grep -q 'largest error' "$work/out" || die "no output: $(cat "$work/out" "$work/err")"
  grep -q 'found in /mnt/data' "$work/err" || die "the pack was not used: $(cat "$work/err")"
done
run "$hipflash" info >"$work/out" 2>/dev/null
grep -A 6 "^$HIPFLASH_DEVICE" "$work/out" | grep -q 'no compiler' || die "hipRTC was there: $(cat "$work/out")"

# The tuned problems are served by the pack and planned by the results in it.
run "$hipflash" explain --dtype f16 --heads 1 --seq 40 --head-dim 32 --causal --json >"$work/out" 2>"$work/err" ||
  die "explain: $(cat "$work/err")"
grep -q '"tier": "prebuilt' "$work/out" || die "a tuned problem is not in the pack: $(cat "$work/out")"
grep -qE '"reason": .*from a pack' "$work/out" || die "the pack's tuning was not used: $(cat "$work/out")"
echo "tuned, packed, installed and ran on $arch from a pack of $(stat -c %s "$work/app.hfpack") bytes"
