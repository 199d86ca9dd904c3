// Lengths, offsets and tables of a call whose memory the host can read.
#include <cstdint>
#include <string>

#include "api/check.h"
#include "core/fail.h"

namespace hipflash::api {
namespace {

class SequenceCheck {
 public:
  SequenceCheck(const Problem& problem, const TensorPointers& tensors)
      : p_(problem), r_(problem.ragged), t_(tensors) {}

  void run() const {
    if (r_.packed_q) offsets("varlen.cu_seqlens_q", t_.cu_seqlens_q, "q.seq", r_.total_q);
    if (r_.packed_k) offsets("varlen.cu_seqlens_k", t_.cu_seqlens_k, "k.seq", r_.total_k);
    for (std::int64_t b = 0; b < p_.batch; ++b) keys(b);
  }

 private:
  std::int64_t offset(const void* cu, std::int64_t b) const {
    return r_.offsets_are_64bit ? static_cast<const std::int64_t*>(cu)[b]
                                : static_cast<const std::int32_t*>(cu)[b];
  }

  void offsets(const char* name, const void* cu, const char* limit, std::int64_t rows) const {
    if (offset(cu, 0) < 0) {
      fail(ErrorCode::InvalidArgument, "{}[0] = {} must not be negative", name, offset(cu, 0));
    }
    for (std::int64_t b = 1; b <= p_.batch; ++b) {
      if (offset(cu, b) < offset(cu, b - 1)) {
        fail(ErrorCode::InvalidArgument, "{0}[{1}] = {2} must not be less than {0}[{3}] = {4}",
             name, b, offset(cu, b), b - 1, offset(cu, b - 1));
      }
    }
    if (offset(cu, p_.batch) > rows) {
      fail(ErrorCode::InvalidArgument, "{}[{}] = {} must be at most {} = {}", name, p_.batch,
           offset(cu, p_.batch), limit, rows);
    }
  }

  void keys(std::int64_t b) const {
    std::int64_t end =
        r_.packed_k ? offset(t_.cu_seqlens_k, b + 1) - offset(t_.cu_seqlens_k, b) : p_.seq_k;
    if (r_.lengths) {
      const std::int64_t length = t_.kv_lengths[b];
      if (length < 0 || length > end) {
        fail(ErrorCode::InvalidArgument, "cache.lengths[{}] = {} must be from 0 to {}, {}", b,
             length, end,
             p_.features.paged_kv ? "the positions of paged.columns pages"
             : r_.packed_k        ? "the rows of its sequence in k"
                                  : "k.seq");
      }
      end = length;
    }
    if (r_.left_padding) {
      const std::int64_t padding = t_.kv_left_padding[b];
      if (padding < 0 || padding > end) {
        fail(ErrorCode::InvalidArgument,
             "cache.left_padding[{}] = {} must be from 0 to {}, the positions in use", b, padding,
             end);
      }
    }
    std::int64_t slot = b;
    if (r_.batch_index) {
      slot = t_.kv_batch_index[b];
      if (slot < 0 || slot >= r_.kv_slots) {
        fail(ErrorCode::InvalidArgument, "cache.batch_index[{}] = {} must be from 0 to {}, {}", b,
             slot, r_.kv_slots - 1,
             p_.features.paged_kv ? "the last row of the table" : "the last entry of k");
      }
    }
    if (p_.features.paged_kv) pages(b, slot, end);
  }

  // Entries that hold a key; the others may be anything.
  void pages(std::int64_t b, std::int64_t slot, std::int64_t end) const {
    const std::int64_t first = r_.left_padding ? t_.kv_left_padding[b] : 0;
    if (first == end) return;
    const std::int32_t* const row = t_.block_table + slot * r_.block_table_stride;
    for (std::int64_t column = first / r_.page_size; column <= (end - 1) / r_.page_size; ++column) {
      if (row[column] < 0 || row[column] >= r_.pages) {
        fail(ErrorCode::InvalidArgument,
             "paged.block_table[{}][{}] = {} must be from 0 to {}, the last page of k", slot,
             column, row[column], r_.pages - 1);
      }
    }
  }

  const Problem& p_;
  const Ragged& r_;
  const TensorPointers& t_;
};

}  // namespace

void check_sequences(const Problem& problem, const TensorPointers& tensors) {
  SequenceCheck(problem, tensors).run();
}

}  // namespace hipflash::api
