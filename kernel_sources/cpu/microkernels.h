// The two register blocks that do nearly all of the arithmetic.
//
// Both keep a block of micro_rows x micro_vectors accumulators in registers while they walk along
// the inner dimension: one row of the packed right operand and one broadcast per row of the left
// operand per step. Loads per multiply-add are few enough for two FMA units; there must be no
// spill, so the block's numbers are chosen per instruction set.
#pragma once

#include "cpu/tile.h"

namespace hipflash {

// scores[row][column] = start[row] + q . k for micro_rows queries and Vectors vectors of keys. Not
// inlined: what surrounds it would take its registers.
//   queries  [unit][micro_rows]
//   keys     [unit][micro columns]
//   scores   rows of tile_keys
template <int Vectors>
static __attribute__((noinline)) void multiply_queries_keys(const Unit* queries, const Unit* keys,
                                                            int units, const float* start,
                                                            float* scores) {
  constexpr int kRows = Spec::micro_rows;
  Vec sum[kRows][Vectors];
  HF_UNROLL for (int r = 0; r < kRows; ++r) {
    HF_UNROLL for (int v = 0; v < Vectors; ++v) sum[r][v] = broadcast(start[r]);
  }
  for (int unit = 0; unit < units; ++unit) {
    VecUnit key[Vectors];
    HF_UNROLL for (int v = 0; v < Vectors; ++v) key[v] = load_units(keys + v * kLanes);
    HF_UNROLL for (int r = 0; r < kRows; ++r) {
      const VecUnit query = broadcast_unit(queries + r);
      HF_UNROLL for (int v = 0; v < Vectors; ++v) sum[r][v] =
          multiply_add(query, key[v], sum[r][v]);
    }
    queries += kRows;
    keys += kMicroColumns;
  }
  HF_UNROLL for (int r = 0; r < kRows; ++r) {
    HF_UNROLL for (int v = 0; v < Vectors; ++v) {
      store(scores + r * Spec::tile_keys + v * kLanes, sum[r][v]);
    }
  }
}

// output[row] += sum over keys of probability * value, for micro_rows queries and Vectors vectors
// of value columns.
//   probabilities  rows of tile_keys floats, of which the leading `units` are used
//   values         [unit][micro columns]
template <int Vectors>
HF_DEVICE void multiply_probabilities_values(const Unit* probabilities, const Unit* values,
                                             int units, float* output, int output_stride) {
  constexpr int kRows = Spec::micro_rows;
  Vec sum[kRows][Vectors];
  HF_UNROLL for (int r = 0; r < kRows; ++r) {
    HF_UNROLL for (int v = 0; v < Vectors; ++v) {
      sum[r][v] = load(output + r * output_stride + v * kLanes);
    }
  }
  for (int unit = 0; unit < units; ++unit) {
    VecUnit value[Vectors];
    HF_UNROLL for (int v = 0; v < Vectors; ++v) value[v] = load_units(values + v * kLanes);
    HF_UNROLL for (int r = 0; r < kRows; ++r) {
      const VecUnit probability = broadcast_unit(probabilities + r * Spec::tile_keys + unit);
      HF_UNROLL for (int v = 0; v < Vectors; ++v) {
        sum[r][v] = multiply_add(probability, value[v], sum[r][v]);
      }
    }
    values += kMicroColumns;
  }
  HF_UNROLL for (int r = 0; r < kRows; ++r) {
    HF_UNROLL for (int v = 0; v < Vectors; ++v) {
      store(output + r * output_stride + v * kLanes, sum[r][v]);
    }
  }
}

}  // namespace hipflash
