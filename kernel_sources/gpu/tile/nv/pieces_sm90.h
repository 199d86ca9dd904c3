// What a block of the wgmma family has in shared memory: rings of Q, K and V with their barriers,
// and the pieces of work that its copying thread hands to its computing groups. Sizes are those
// that the family's file has from its tile config.
#pragma once

namespace hipflash {

// A piece of work as the copying thread hands it over; row < 0 ends the work.
struct Piece {
  int row, head, batch;
};
// What is handed over with a piece of packed sequences.
struct Sequence {
  int seq_q, seq_k, diagonal;
  int first_query, first_key;  // in the tensors
  int fault;
};
static_assert(!Spec::ragged || !Spec::window_left, "see blank_values()");
constexpr int kHandovers = sm90_handovers();

// Shared memory: the rings of Q, K and V, pieces, barriers.
struct Layout {
  unsigned q, k, v, pieces, barriers;

  HF_DEVICE explicit Layout(const void* shared) {
    q = (shared_address(shared) + 1023) & ~1023u;  // the swizzle repeats every 1024 bytes
    k = q + kQStages * kQBytes;
    v = k + kStages * kKBytes;
    pieces = v + kStages * kVBytes;
    barriers = pieces + sm90_piece_bytes() * kHandovers;
  }
  HF_DEVICE Barrier at(int i) const { return {barriers + 8 * i}; }
  HF_DEVICE Barrier q_full(int stage) const { return at(stage); }
  HF_DEVICE Barrier q_free(int stage) const { return at(kQStages + stage); }
  HF_DEVICE Barrier k_full(int stage) const { return at(2 * kQStages + stage); }
  HF_DEVICE Barrier k_free(int stage) const { return at(2 * kQStages + kStages + stage); }
  HF_DEVICE Barrier v_full(int stage) const { return at(2 * kQStages + 2 * kStages + stage); }
  HF_DEVICE Barrier v_free(int stage) const { return at(2 * kQStages + 3 * kStages + stage); }

  HF_DEVICE unsigned slot_of(unsigned count) const {
    return pieces + sm90_piece_bytes() * (count % kHandovers);
  }
  HF_DEVICE void put(unsigned count, const Piece& piece) const {
    store_words(slot_of(count), piece.row, piece.head, piece.batch, 0);
  }
  HF_DEVICE Piece get(unsigned count) const {
    Piece piece;
    load_words(piece.row, piece.head, slot_of(count));
    load_word(piece.batch, slot_of(count) + 8);
    return piece;
  }
  HF_DEVICE void put(unsigned count, const Sequence& one) const {
    store_words(slot_of(count) + 16, one.seq_q, one.seq_k, one.diagonal, one.fault);
    store_words(slot_of(count) + 32, one.first_query, one.first_key);
  }
  HF_DEVICE Sequence get_sequence(unsigned count) const {
    Sequence one;
    load_words(one.seq_q, one.seq_k, one.diagonal, one.fault, slot_of(count) + 16);
    load_words(one.first_query, one.first_key, slot_of(count) + 32);
    return one;
  }
};

// The arguments of the sequence that a piece belongs to: those of the launch themselves, by
// reference, unless sequences have lengths of their own.
HF_DEVICE decltype(auto) args_of_piece(const AttentionArgs& args, const Layout& shared,
                                       unsigned count) {
  if constexpr (Spec::ragged) {
    const Sequence of_piece = shared.get_sequence(count);
    AttentionArgs one = args;
    one.seq_q = of_piece.seq_q;
    one.seq_k = of_piece.seq_k;
    one.diagonal = of_piece.diagonal;
    one.alibi_diagonal = one.seq_k - one.seq_q;
    return one;
  } else {
    return (args);
  }
}

HF_DEVICE Steps steps_of_rows(const AttentionArgs& args, int row, int rows) {
  return steps_of(args, row, min(row + rows, args.seq_q) - 1, kKeys);
}

}  // namespace hipflash
