// Copies of Q, K and V in the order in which the register blocks read them: contiguous, converted,
// padded with zeros to whole register blocks.
#pragma once

#include "cpu/key_rows.h"

namespace hipflash {

// A square of kLanes rows x kLanes units, transposed; rows beyond `count` read as zeros.
template <class RowAt>
HF_DEVICE void load_transposed(RowAt row_at, int count, int first_unit, int elements,
                               Vec (&square)[kLanes]) {
  const int first = first_unit * kUnitElements;
  HF_UNROLL for (int i = 0; i < kLanes; ++i) {
    square[i] = i < count ? load_row_units(row_at(i) + first, elements - first) : broadcast(0.0f);
  }
  transpose(square);
}

// All rows of the chunk times `factor`, as [block of micro_rows][unit][micro_rows].
HF_DEVICE void pack_queries(const AttentionArgs& args, const Chunk& chunk, float factor,
                            Unit* packed) {
  const int dim = head_dim(args), units = units_of(dim);
  for (int first = 0; first < chunk.rows; first += Spec::micro_rows) {
    const Element* rows[Spec::micro_rows];
    const int count = min_int(Spec::micro_rows, chunk.rows - first);
    for (int i = 0; i < count; ++i) {
      rows[i] = row_of(args.q, args.q_stride, chunk.batch, query_of(chunk, first + i),
                       head_of(chunk, first + i));
    }
    for (int unit = 0; unit < units; unit += kLanes) {
      Vec square[kLanes];
      load_transposed([&](int i) { return rows[i]; }, count, unit, dim, square);
      const int here = min_int(kLanes, units - unit);
      HF_UNROLL for (int i = 0; i < kLanes; ++i) {
        if (i < here) {
          store_first(reinterpret_cast<float*>(packed + i * Spec::micro_rows),
                      multiply_units(square[i], factor), Spec::micro_rows);
        }
      }
      packed += here * Spec::micro_rows;
    }
  }
}

// The first `count` keys of `rows`, as [panel of micro columns][unit][micro columns], padded with
// zero keys to `columns`.
HF_DEVICE void pack_keys(const AttentionArgs& args, const KeyRows& rows, int count, int columns,
                         Unit* packed) {
  const int dim = head_dim(args), units = units_of(dim);
  for (int column = 0; column < columns; column += kLanes) {
    Unit* panel = packed + static_cast<long long>(column / kMicroColumns) * kMicroColumns * units +
                  column % kMicroColumns;
    const KeyRows here_rows = rows.from(column);
    for (int unit = 0; unit < units; unit += kLanes) {
      Vec square[kLanes];
      load_transposed([&](int i) { return here_rows[i]; }, count - column, unit, dim, square);
      const int here = min_int(kLanes, units - unit);
      HF_UNROLL for (int i = 0; i < kLanes; ++i) {
        if (i < here) store(reinterpret_cast<float*>(panel + i * kMicroColumns), square[i]);
      }
      panel += here * kMicroColumns;
    }
  }
}

// One unit of value rows, into every panel of columns.
HF_DEVICE Vec pack_value_unit(const Element* low, const Element* high, int dim, Unit* packed,
                              Vec check) {
  constexpr int kPanel = kTile.tile_keys / kUnitElements * kMicroColumns;
  const int columns = round_up(dim, kMicroColumns);
  for (int column = 0; column < columns; column += kLanes) {
    const int elements = dim - column;
    const Vec units = elements > 0 ? pair_rows(low + column, high + column, elements) : Vec{};
    check = check_finite(check, units);
    store(
        reinterpret_cast<float*>(packed + column / kMicroColumns * kPanel + column % kMicroColumns),
        units);
  }
  return check;
}

// The values of keys first_key .. first_key + count, whose rows are `rows`, as [panel of micro
// columns][unit of keys][micro columns]. A row that is not finite is packed as zeros if no row of
// the chunk sees its key: its probabilities are 0, and 0 * NaN would still reach the output.
HF_DEVICE void pack_values(const AttentionArgs& args, const Chunk& chunk, const KeyRows& rows,
                           int first_key, int count, Unit* packed) {
  const int dim = value_head_dim(args);
  const auto row_at = [&](int i) { return i < count ? rows[i] : kZeroRow; };
  Vec check = broadcast(0.0f);
  for (int unit = 0; unit < units_of(count); ++unit) {
    const int i = unit * kUnitElements;
    check = pack_value_unit(row_at(i), row_at(i + kUnitElements - 1), dim,
                            packed + unit * kMicroColumns, check);
  }
  if (all_finite(check)) return;
  const auto seen_row_at = [&](int i) {
    return i < count && seen_by_any_row(args, chunk, first_key + i) ? row_at(i) : kZeroRow;
  };
  for (int unit = 0; unit < units_of(count); ++unit) {
    const int i = unit * kUnitElements;
    pack_value_unit(seen_row_at(i), seen_row_at(i + kUnitElements - 1), dim,
                    packed + unit * kMicroColumns, check);
  }
}

}  // namespace hipflash
