// What a CPU kernel takes for granted of its calls' rows and keys: compile-time facts that a plan
// states and the kernel text relies on. A kernel without the ways that its calls cannot take is
// compiled in half of the time.
#pragma once

namespace hipflash {

// Rows (of a chunk, see cpu/work.h) up to which K and V are read in place instead of being packed,
// and keys up to which such a row does without blocks of keys.
constexpr int kCpuFewRows = 4;
constexpr int kCpuFewKeys = 8;

// The prologue's numbers of the same names.
struct CpuShape {
  int chunk_rows;  // 1, kCpuFewRows for 2 to that many, 1 + kCpuFewRows for more; 0: any
  int few_keys;    // how many keys every row of few sees, up to kCpuFewKeys; 0: more, or unknown
};

// Of calls whose sequences have `rows` rows for each key/value head. `keys` is 0 where the rows of
// such calls may see different numbers of keys.
constexpr CpuShape cpu_shape(long long rows, long long keys) {
  if (rows > kCpuFewRows) return {1 + kCpuFewRows, 0};
  return {rows == 1 ? 1 : kCpuFewRows, keys <= kCpuFewKeys ? static_cast<int>(keys) : 0};
}

}  // namespace hipflash
