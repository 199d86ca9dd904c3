#!/usr/bin/env bash
# Installs a build to a folder with a space in its name and uses it as a stranger would: with CMake, with pkg-config,
# from C++ and from C, there and after the installed tree was moved. The C++ program is the README's.
#
# usage: check_install.sh shared|static BUILD SOURCE CMAKE CXX CC
set -euo pipefail
kind=$1 build=$2 source=$3 cmake=$4 cxx=$5 cc=$6

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HIPFLASH_CACHE_DIR="$work/cache"
unset HIPFLASH_PREBUILT HIPFLASH_COMPILE_HELPER LD_LIBRARY_PATH

die() { printf 'check_install: %s\n' "$*" >&2; exit 1; }

# The README's C++ block is the program.
awk '/^```cpp$/ { on = 1; next } /^```$/ { if (on) exit } on' "$source/README.md" >"$work/readme.cpp"
grep -q 'int main' "$work/readme.cpp" || die "README.md holds no C++ program"

check_output() {
  [[ -s $1 ]] || die "$2 printed nothing"
  if grep -qi nan "$1"; then die "$2 printed $(cat "$1")"; fi
}

use_with_cmake() {
  local prefix=$1 out="$work/cmake-build"
  rm -rf "$out"
  "$cmake" -S "$source/tests/install/consumer" -B "$out" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_C_COMPILER="$cc" -DREADME_PROGRAM="$work/readme.cpp" -DCMAKE_BUILD_TYPE=Release >"$work/log" ||
    { cat "$work/log"; die "configuring with CMake failed"; }
  "$cmake" --build "$out" >"$work/log" || { cat "$work/log"; die "building with CMake failed"; }
  for program in readme cpp_consumer c_consumer; do
    "$out/$program" >"$work/out" || die "$program, built with CMake, failed"
    check_output "$work/out" "$program"
  done
}

use_with_pkg_config() {
  local prefix=$1 pc flags
  # The pkg-config of Ubuntu 22.04 does not quote the folder of its own file, unlike pkgconf.
  if [[ $(pkg-config --version) == 0.* ]]; then
    ln -sfn "$prefix" "$work/no-space"
    prefix=$work/no-space
  fi
  pc=$(dirname "$(find "$prefix/" -name hipflash.pc)")
  # pkg-config quotes for a shell, so a shell must read its words.
  flags=$(PKG_CONFIG_PATH="$pc" pkg-config --cflags --libs hipflash)
  eval "\"$cxx\" -std=c++17 \"\$work/readme.cpp\" -o \"\$work/pc_readme\" $flags"
  eval "\"$cc\" -std=c99 -Wall -Wextra -Wpedantic -Werror \"\$source/tests/install/consumer/consumer.c\" -o \"\$work/pc_c\" $flags -lm"
  for program in pc_readme pc_c; do
    LD_LIBRARY_PATH=$(dirname "$pc") "$work/$program" >"$work/out" || die "$program, built with pkg-config, failed"
    check_output "$work/out" "$program"
  done
}

# A shared library that can be deployed alone: small, no foreign symbols, nothing needed but the system's runtime.
check_shared_library() {
  local library foreign needed size
  library=$(find "$1" -name 'libhipflash.so.*.*.*')
  foreign=$(nm -D --defined-only -C "$library" | awk '{ $1 = $2 = ""; print }' |
    grep -vE '(^| )(hipflash(::|_)|(vtable|typeinfo|typeinfo name|guard variable) for hipflash::|std::|(vtable|typeinfo|typeinfo name) for std::|(virtual|non-virtual) thunk to hipflash::|operator|void std::|bool std::|__gnu_cxx)' || true)
  [[ -z $foreign ]] || die "the library exports symbols that are not its own: $foreign"
  needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
    grep -vE '^(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|ld-linux.*)\.so' || true)
  [[ -z $needed ]] || die "the library needs $needed"
  cp "$library" "$work/stripped.so"
  strip "$work/stripped.so"
  size=$(stat -c %s "$work/stripped.so")
  echo "stripped library: $size bytes"
  ((size < 3000000)) || die "the stripped library has $size bytes, more than 3 MB"
}

check_command() {
  local prefix=$1
  "$prefix/bin/hipflash" --version >"$work/out" || die "the installed command does not start"
  "$prefix/bin/hipflash" info >"$work/out" || die "hipflash info failed"
  [[ -x $prefix/libexec/hipflash/hipflash-compile ]] || die "the compile helper is not installed"
  [[ -x $prefix/libexec/hipflash/hipflash-measure ]] || die "the helper of the tuner is not installed"
  [[ -n $(find "$prefix" -path '*hipflash/prebuilt/*') ]] || return 0
  # The command and a program that links the library find the shipped kernels where there is no compiler.
  local inputs=$source/examples/minilm program
  HIPFLASH_CXX=/no/such/compiler "$prefix/bin/hipflash" run --device cpu --q "$inputs/q.npy" --k "$inputs/k.npy" \
    --v "$inputs/v.npy" --verify --json >"$work/out" || die "hipflash run failed without a compiler"
  grep -q '"tier": *"prebuilt"' "$work/out" || die "without a compiler: $(cat "$work/out")"
  for program in "$work"/cmake-build/readme "$work/pc_readme"; do
    HIPFLASH_CXX=/no/such/compiler HIPFLASH_DEVICE=cpu HIPFLASH_CACHE_DIR="$work/empty" \
      LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name 'libhipflash.*' -print -quit)") "$program" >"$work/out" ||
      die "$program failed without a compiler"
    check_output "$work/out" "$program"
  done
}

first="$work/first place" second="$work/second place"
"$cmake" --install "$build" --prefix "$first" >"$work/log" || { cat "$work/log"; die "the installation failed"; }
if [[ $kind == shared ]]; then
  check_shared_library "$first"
else
  [[ -n $(find "$first" -name libhipflash.a) ]] || die "no static library was installed"
fi
for prefix in "$first" "$second"; do
  [[ -d $prefix ]] || mv "$first" "$prefix"
  use_with_cmake "$prefix"
  use_with_pkg_config "$prefix"
  check_command "$prefix"
done
echo "installed tree ($kind): as installed and after moving it"
