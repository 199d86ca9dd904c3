// The copying thread of a block of the wgmma family. Sizes are those of its file.
#pragma once

namespace hipflash {

struct Copier {
  const AttentionArgs& args;
  const Layout& shared;
  const TensorMap &q_map, &k_map, &v_map;
  const int tiles;  // of rows, of one sequence or of all
  const int pieces, together;
  Ring<kQStages> q_ring;  // of the Q to be copied next; also counts pieces
  Ring<kStages> ring;

  HF_DEVICE Copier(const AttentionArgs& a, const Layout& l, const TensorMap& q, const TensorMap& k,
                   const TensorMap& v)
      : args(a),
        shared(l),
        q_map(q),
        k_map(k),
        v_map(v),
        tiles(Spec::ragged ? (int)packed_query_tiles(a.total_q, a.batch, kRows)
                           : ceil_div(a.seq_q, kRows)),
        pieces(tiles * a.heads_q * (Spec::ragged ? 1 : a.batch)),
        together(nv_heads_together(a, a.heads_q / a.heads_kv, tiles, pieces_together(tiles, 1), 2)),
        q_ring{0},
        ring{0} {}

  // Puts down what a piece is: that of `index`, or of the next one claimed that has rows. Returns
  // which, or `pieces` if none is left.
  HF_DEVICE int put_piece(int index) const {
    if constexpr (Spec::ragged) {
      for (; index < pieces; index = claim(index)) {
        const int head = index / tiles, number = tiles - 1 - (index - head * tiles);
        const PackedTile tile = packed_tile_of(args, number, kRows);
        int fault;
        const AttentionArgs one = arguments_of_sequence(args, tile.sequence, fault);
        if (fault != kNoFault && args.fault) *args.fault = fault;
        if (tile.tile * kRows >= one.seq_q) continue;
        const auto offset = [&](const void* offsets) {
          return (int)sequence_offset(args, offsets, tile.sequence);
        };
        shared.put(q_ring.count, Piece{tile.tile * kRows, head, tile.sequence});
        shared.put(q_ring.count,
                   Sequence{one.seq_q, one.seq_k, one.diagonal, offset(args.cu_seqlens_q),
                            offset(args.cu_seqlens_k), fault});
        break;
      }
    } else if (index < pieces) {
      const Work w = work_of<kRows>(args, index, together, 1);
      shared.put(q_ring.count, Piece{w.row, w.head, w.batch});
    }
    return min(index, pieces);
  }

  // Where rows of a piece are in the tensors.
  struct Place {
    int query, key, batch;
  };
  HF_DEVICE Place place_of(unsigned count, const Piece& piece) const {
    if constexpr (Spec::ragged) {
      const Sequence one = shared.get_sequence(count);
      return {one.first_query + piece.row, one.first_key, 0};
    } else {
      // (where the maps of K and V begin)
      return {piece.row, Spec::window_left ? -nv_keys_of_call(args).first : 0, piece.batch};
    }
  }

  // Gives the groups a piece (or the end) and its Q. Returns which, as put_piece() does.
  HF_DEVICE int hand_over(int index) {
    // A free Q says that every group is done with the piece kQStages before, so it has stored the
    // one before that: the slot of the fourth piece before is not read any more. (A buffer that was
    // never used counts as freed in the phase before the first.)
    shared.q_free(q_ring.stage()).wait(q_ring.parity() ^ 1);
    const Barrier full = shared.q_full(q_ring.stage());
    index = put_piece(index);
    if (index == pieces) {
      shared.put(q_ring.count, Piece{-1, 0, 0});
      full.arrive();
      return index;
    }
    const Piece piece = shared.get(q_ring.count);
    const Place place = place_of(q_ring.count, piece);
    full.expect(kQBytes);
    for (int c = 0; c < kSlabs; c++) {
      copy_box(shared.q + q_ring.stage() * kQBytes + c * kQSlab, q_map, 64 * c, place.query,
               piece.head, place.batch, full);
    }
    q_ring.advance();
    return index;
  }

  // Exactly `pieces` claims are made, and the last one leaves the counter zero.
  HF_DEVICE int claim(int index) const {
    if (!args.counter) return pieces;  // each has a block of its own
    const int count = atomicAdd(args.counter, 1);
    if (count == pieces - 1) *args.counter = 0;
    return count + gridDim.x;
  }

  HF_DEVICE void run() {
    int index = hand_over(blockIdx.x);
    while (index < pieces) {
      const unsigned count = q_ring.count - 1;
      const Piece piece = shared.get(count);
      const Place place = place_of(count, piece);
      const int kv_head = piece.head / (args.heads_q / args.heads_kv);
      const Steps steps = steps_of_rows(args_of_piece(args, shared, count), piece.row, kRows);
      // The next piece is claimed when two steps remain: early enough that its Q arrives in time,
      // late enough that a block with a heavy piece does not hold a claim on another.
      const int last_but_one = min(steps.begin + 1, steps.end - 1);
      if (steps.end <= steps.begin) index = claim(index);
      for (int step = steps.end - 1; step >= steps.begin; step--) {
        if (step == last_but_one) {
          index = claim(index);
          if (kQStages > 1) index = hand_over(index);
        }
        const int key = place.key + step * kKeys, stage = ring.stage();
        const Barrier k_full = shared.k_full(stage), v_full = shared.v_full(stage);
        shared.k_free(stage).wait(ring.parity() ^ 1);
        k_full.expect(kKBytes);
        for (int c = 0; c < kSlabs; c++) {
          copy_box(shared.k + stage * kKBytes + c * kSlab, k_map, 64 * c, key, kv_head, place.batch,
                   k_full);
        }
        shared.v_free(stage).wait(ring.parity() ^ 1);
        v_full.expect(kVBytes);
        for (int c = 0; c < kValueSlabs; c++) {
          copy_box(shared.v + stage * kVBytes + c * kSlab, v_map, 64 * c, key, kv_head, place.batch,
                   v_full);
        }
        ring.advance();
      }
      if (kQStages == 1 || steps.end <= steps.begin) index = hand_over(index);
    }
  }
};

}  // namespace hipflash
