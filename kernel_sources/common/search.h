// Who owns a row, where owners follow one another and each says where it begins.
#pragma once

namespace hipflash {

// The last of the numbers 0..count-1 that begins(number) is true of; 0 if it is true of none. Where
// it is true of a number it must be of all before.
template <class Begins>
HF_DEVICE int last_that(int count, Begins&& begins) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (begins(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace hipflash
