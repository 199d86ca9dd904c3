// Offsets, lengths, slots and pages that cannot be right: refused before anything is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "hipflash/error.h"
#include "numerics/ragged_case.h"

namespace hipflash::testing {
namespace {

using ::testing::HasSubstr;

struct Garbage {
  std::function<void(RaggedCase&)> form;
  std::function<void(RaggedData&)> spoil;
  std::vector<std::string> words;
};

void paged(RaggedCase& c) {
  c.form = KeyForm::paged;
  c.batch_index = c.left_padding = true;
  c.spare_slots = 1;
}

TEST(RaggedArguments, GarbageIsNamedBeforeAnythingIsWritten) {
  const Garbage cases[] = {
      {[](RaggedCase&) {},
       [](RaggedData& d) { d.cu_q[0] = -1; },
       {"varlen.cu_seqlens_q[0] = -1 must not be negative"}},
      {[](RaggedCase&) {},
       [](RaggedData& d) { d.cu_q[1] = 12; },
       {"varlen.cu_seqlens_q[2] = 9 must not be less than varlen.cu_seqlens_q[1] = 12"}},
      {[](RaggedCase&) {},
       [](RaggedData& d) { d.cu_q[3] = 15; },
       {"varlen.cu_seqlens_q[3] = 15 must be at most q.seq = 14"}},
      {[](RaggedCase& c) { c.offsets_are_64bit = true; },
       [](RaggedData& d) { d.cu_k_64[3] = std::int64_t{1} << 40; },
       {"varlen.cu_seqlens_k[3] = 1099511627776 must be at most k.seq = 48"}},
      {[](RaggedCase& c) { c.form = KeyForm::cache; },
       [](RaggedData& d) { d.lengths[2] = 41; },
       {"cache.lengths[2] = 41 must be from 0 to 40", "k.seq"}},
      {[](RaggedCase& c) { c.form = KeyForm::cache; },
       [](RaggedData& d) { d.lengths[0] = -5; },
       {"cache.lengths[0] = -5"}},
      {paged,
       [](RaggedData& d) { d.lengths[1] = 49; },
       {"cache.lengths[1] = 49 must be from 0 to 48", "pages"}},
      {paged, [](RaggedData& d) { d.padding[0] = 99; }, {"cache.left_padding[0] = 99"}},
      {paged,
       [](RaggedData& d) { d.slots[1] = 4; },
       {"cache.batch_index[1] = 4 must be from 0 to 3"}},
      {paged, [](RaggedData& d) { d.slots[1] = -1; }, {"cache.batch_index[1] = -1"}},
      // Sequence 2 has row 1 of a table with rows of 3 columns and a gap.
      {paged,
       [](RaggedData& d) { d.table[5] = 7; },
       {"paged.block_table[1][1] = 7 must be from 0 to", "last page"}},
      {paged, [](RaggedData& d) { d.table[5] = -2; }, {"paged.block_table[1][1] = -2"}},
  };
  for (const Garbage& garbage : cases) {
    RaggedCase c;
    c.queries = {3, 6, 5};
    c.keys = {7, 1, 40};
    garbage.form(c);
    RaggedData data(c);
    data.run(target(target_names().front()));
    const auto before = data.out.bytes();
    garbage.spoil(data);
    try {
      attention_forward(target(target_names().front()).context(), data.q.view(), data.k.view(),
                        data.v.view(), data.out.view(), data.options);
      ADD_FAILURE() << "not refused: " << garbage.words.front();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      for (const std::string& words : garbage.words) EXPECT_THAT(error.what(), HasSubstr(words));
    }
    EXPECT_EQ(data.out.bytes(), before);
  }
}

TEST(RaggedArguments, EntriesThatNoKeyNeedsMayBeAnything) {
  RaggedCase c;
  c.keys = {0, 5};
  c.queries = {1, 1};
  paged(c);
  RaggedData data(c);
  for (std::int32_t& entry : data.table) {
    if (entry < 0) entry = 1 << 30;
  }
  EXPECT_NO_THROW(data.run(target(target_names().front())));
  EXPECT_TRUE(data.verdict().ok()) << data.verdict().text();
}

}  // namespace
}  // namespace hipflash::testing
