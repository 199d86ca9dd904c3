// append_kv() against float64: every position of the cache is looked at, those that no new row goes
// to for being left alone.
#include "hipflash/kv_cache.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "numerics/operations.h"
#include "numerics/results.h"

namespace hipflash::testing {
namespace {

using ::testing::HasSubstr;

struct AppendCase {
  DType dtype = DType::f16;
  std::vector<std::int64_t> rows = {2, 2, 2};  // of each sequence; different ones are packed
  std::vector<std::int32_t> lengths = {0, 5, 9};
  std::vector<std::int32_t> slots;  // batch_index; empty: none
  std::int64_t heads_q = 4, heads_kv = 2, dim = 64, value_dim = 64;
  std::int64_t capacity = 16, page_size = 0;  // 0: a dense cache
  std::int64_t rotary_dim = 0;                // 0: no rotation
  DType table = DType::f32;
  bool interleaved = false, queries = false, in_place = false;
  bool packed = false, offsets_are_64bit = false, new_lengths = true;
  Layout layout = Layout::bshd;
};

class AppendData {
 public:
  explicit AppendData(const AppendCase& given)
      : c(given),
        batch(static_cast<std::int64_t>(c.rows.size())),
        total(std::accumulate(c.rows.begin(), c.rows.end(), std::int64_t{0})),
        k_new(make(c.heads_kv, c.dim)),
        v_new(make(c.heads_kv, c.value_dim)),
        q(make(c.heads_q, c.dim)),
        q_out(make(c.heads_q, c.dim)),
        k(cache(c.dim)),
        v(cache(c.value_dim)) {
    std::uint64_t seed = 1;
    for (OwnedTensor* t : {&k_new, &v_new, &q, &k, &v}) t->fill_normal(seed++);
    if (c.in_place) q_out = q_copy();
    const std::int64_t half = c.rotary_dim / 2;
    for (std::int64_t p = 0; p < positions(); ++p) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(p) *
            std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(c.rotary_dim));
        cos.set(0, p, 0, i, static_cast<float>(std::cos(angle)));
        sin.set(0, p, 0, i, static_cast<float>(std::sin(angle)));
      }
    }
    std::int64_t at = 0;
    for (const std::int64_t n : c.rows) {
      offsets_32.push_back(static_cast<std::int32_t>(at));
      offsets_64.push_back(at);
      at += n;
    }
    offsets_32.push_back(static_cast<std::int32_t>(at));
    offsets_64.push_back(at);
    // Pages in an order of their own, so that a wrong column shows.
    for (std::int64_t i = 0; i < slots() * columns(); ++i) {
      table.push_back(static_cast<std::int32_t>((i * 7 + 3) % pages()));
    }
    next.assign(static_cast<std::size_t>(batch) + 1, -77);
    before_k = values_of(k);
    before_v = values_of(v);
  }

  void run(Target& target) {
    target.run(
        {block_of(k_new), block_of(v_new), block_of(q), block_of(q_out, true), block_of(k, true),
         block_of(v, true), block_of(cos), block_of(sin), block_of(offsets_32),
         block_of(offsets_64), block_of(c.lengths), block_of(c.slots), block_of(table),
         block_of(next, true)},
        [&](const Target::Translate& translate) {
          const auto on = [&](const OwnedTensor& t) { return on_device(t.view(), translate); };
          AppendOptions options;
          if (c.packed) {
            options.cu_seqlens =
                c.offsets_are_64bit ? translate(offsets_64.data()) : translate(offsets_32.data());
            options.offsets_are_64bit = c.offsets_are_64bit;
            options.batch = batch;
          }
          options.cache.lengths = static_cast<std::int32_t*>(translate(c.lengths.data()));
          if (!c.slots.empty()) {
            options.cache.batch_index = static_cast<std::int32_t*>(translate(c.slots.data()));
          }
          if (c.page_size > 0) {
            options.paged.block_table = static_cast<std::int32_t*>(translate(table.data()));
            options.paged.rows = slots();
            options.paged.columns = columns();
          }
          if (c.rotary_dim > 0) {
            options.rotary = {translate(cos.view().data),
                              translate(sin.view().data),
                              c.table,
                              c.rotary_dim,
                              positions(),
                              0,
                              c.interleaved};
          }
          if (c.queries) {
            options.q_out = on(q_out);
            options.q = c.in_place ? options.q_out : on(q);
          }
          if (c.new_lengths)
            options.new_lengths = static_cast<std::int32_t*>(translate(next.data()));
          append_kv(target.context(), on(k_new), on(v_new), on(k), on(v), options);
        });
  }

  // A row's place: (slot or page, row).
  std::pair<std::int64_t, std::int64_t> place(std::int64_t b, std::int64_t position) const {
    const auto i = static_cast<std::size_t>(b);
    const std::int64_t slot = c.slots.empty() ? b : c.slots[i];
    if (c.page_size == 0) return {slot, position};
    const std::int64_t column = position / c.page_size;
    return {table[static_cast<std::size_t>(slot * columns() + column)], position % c.page_size};
  }

  double rotated(const OwnedTensor& from, std::int64_t b, std::int64_t s, std::int64_t h,
                 std::int64_t d, std::int64_t position, double* size) const {
    const double own = from.get(b, s, h, d);
    *size = 0.0;
    if (d >= c.rotary_dim) return own;
    const std::int64_t half = c.rotary_dim / 2;
    const std::int64_t pair = c.interleaved ? d / 2 : d % half;
    const bool second = c.interleaved ? d % 2 == 1 : d >= half;
    const std::int64_t partner = c.interleaved ? (d ^ 1) : second ? d - half : d + half;
    const double other = from.get(b, s, h, partner);
    const double cosine = cos.get(0, position, 0, pair), sine = sin.get(0, position, 0, pair);
    *size = std::abs(own) + std::abs(other);
    return second ? other * sine + own * cosine : own * cosine - other * sine;
  }

  // `skipped`: sequences that must not have written anything.
  void expect_right(const std::vector<std::int64_t>& skipped = {}) {
    std::vector<bool> fresh(before_k.size() / row_elements(c.dim), false);
    for (std::int64_t b = 0; b < batch; ++b) {
      if (std::find(skipped.begin(), skipped.end(), b) != skipped.end()) continue;
      for (std::int64_t i = 0; i < c.rows[static_cast<std::size_t>(b)]; ++i) {
        const std::int64_t position = c.lengths[static_cast<std::size_t>(b)] + i;
        const std::int64_t from_b = c.packed ? 0 : b;
        const std::int64_t s = c.packed ? offsets_64[static_cast<std::size_t>(b)] + i : i;
        const auto [slot, row] = place(b, position);
        fresh[static_cast<std::size_t>(slot * k.view().seq + row)] = true;
        for (std::int64_t h = 0; h < c.heads_kv; ++h) {
          for (std::int64_t d = 0; d < c.dim; ++d) {
            expect_close(k.get(slot, row, h, d), k_new, from_b, s, h, d, position);
          }
          for (std::int64_t d = 0; d < c.value_dim; ++d) {
            ASSERT_EQ(v.get(slot, row, h, d), v_new.get(from_b, s, h, d)) << b << " " << i;
          }
        }
        for (std::int64_t h = 0; c.queries && h < c.heads_q; ++h) {
          for (std::int64_t d = 0; d < c.dim; ++d) {
            expect_close(q_out.get(from_b, s, h, d), q, from_b, s, h, d, position);
          }
        }
      }
      if (c.new_lengths) {
        const auto i = static_cast<std::size_t>(b);
        EXPECT_EQ(next[i], c.lengths[i] + c.rows[i]);
      }
    }
    EXPECT_EQ(next.back(), -77);
    expect_untouched(fresh);
  }

  void expect_nothing_written() {
    expect_untouched(std::vector<bool>(before_k.size() / row_elements(c.dim), false));
  }

  AppendCase c;
  std::int64_t batch, total;
  OwnedTensor k_new, v_new, q, q_out, k, v;
  OwnedTensor cos{c.table,     1, positions(), 1, std::max<std::int64_t>(c.rotary_dim / 2, 1),
                  Layout::bshd};
  OwnedTensor sin{c.table,     1, positions(), 1, std::max<std::int64_t>(c.rotary_dim / 2, 1),
                  Layout::bshd};
  std::vector<std::int32_t> offsets_32, table, next;
  std::vector<std::int64_t> offsets_64;
  std::vector<float> before_k, before_v;  // by (slot or page, row, head, dim)
  double largest_error = 0.0;             // of a rotated number

 private:
  std::int64_t slots() const { return std::max<std::int64_t>(batch + 1, 5); }
  std::int64_t columns() const {
    return (c.capacity + c.page_size - 1) / std::max<std::int64_t>(c.page_size, 1);
  }
  std::int64_t pages() const { return slots() * std::max<std::int64_t>(columns(), 1); }
  std::int64_t positions() const { return c.capacity; }
  std::size_t row_elements(std::int64_t dim) const {
    return static_cast<std::size_t>(c.heads_kv * dim);
  }
  OwnedTensor make(std::int64_t heads, std::int64_t dim) const {
    return c.packed ? OwnedTensor(c.dtype, 1, total, heads, dim, c.layout)
                    : OwnedTensor(c.dtype, batch, c.rows[0], heads, dim, c.layout);
  }
  OwnedTensor cache(std::int64_t dim) const {
    return c.page_size > 0 ? OwnedTensor(c.dtype, pages(), c.page_size, c.heads_kv, dim, c.layout)
                           : OwnedTensor(c.dtype, slots(), c.capacity, c.heads_kv, dim, c.layout);
  }
  OwnedTensor q_copy() const {
    OwnedTensor copy = make(c.heads_q, c.dim);
    copy.fill_normal(3);  // as q
    return copy;
  }

  void expect_close(double got, const OwnedTensor& from, std::int64_t b, std::int64_t s,
                    std::int64_t h, std::int64_t d, std::int64_t position) {
    double size = 0.0;
    const double wanted = rotated(from, b, s, h, d, position, &size);
    const double tolerance = size == 0.0 ? 0.0 : 1.01 * rounding(c.dtype, wanted) + 3e-7 * size;
    largest_error = std::max(largest_error, std::abs(got - wanted));
    ASSERT_LE(std::abs(got - wanted), tolerance)
        << got << " for " << wanted << " at row " << s << " head " << h << " dim " << d;
  }

  void expect_untouched(const std::vector<bool>& fresh) {
    const auto check = [&](const OwnedTensor& t, const std::vector<float>& before,
                           std::int64_t dim) {
      const std::vector<float> now = values_of(t);
      const std::size_t row = row_elements(dim);
      for (std::size_t r = 0; r < fresh.size(); ++r) {
        if (fresh[r]) continue;
        ASSERT_TRUE(std::equal(now.begin() + static_cast<std::ptrdiff_t>(r * row),
                               now.begin() + static_cast<std::ptrdiff_t>((r + 1) * row),
                               before.begin() + static_cast<std::ptrdiff_t>(r * row)))
            << "row " << r << " of the cache is none of the new ones, but changed";
      }
      EXPECT_TRUE(t.untouched_outside());
    };
    check(k, before_k, c.dim);
    check(v, before_v, c.value_dim);
    EXPECT_TRUE(q_out.untouched_outside());
  }
};

void expect_right(const AppendCase& c, Target& target) {
  AppendData data(c);
  const bool right_so_far = !::testing::Test::HasFailure();
  data.run(target);
  data.expect_right();
  EXPECT_EQ(target.context().take_fault(), "");
  write_result(target.context().device(),
               {"append_kv", c.dtype, c.dim, c.value_dim,
                c.rotary_dim > 0 ? "append_kv with rotation" : "append_kv",
                right_so_far && !::testing::Test::HasFailure(), data.largest_error, 0.0});
}

// What a race between threads or blocks would change.
TEST_P(FullOperations, FiftyAppendsGiveTheSameBits) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const std::int64_t page_size : {0, 4}) {
      AppendCase c;
      c.dtype = dtype;
      c.rows = {7, 1, 5};
      c.packed = true;
      c.page_size = page_size;
      c.rotary_dim = 64;
      c.queries = true;
      AppendData first(c);
      first.run(here());
      first.expect_right();
      for (int i = 0; i < 50; ++i) {
        AppendData again(c);
        again.run(here());
        ASSERT_TRUE(same_bits(values_of(again.k), values_of(first.k))) << i;
        ASSERT_TRUE(same_bits(values_of(again.v), values_of(first.v))) << i;
        ASSERT_TRUE(same_bits(values_of(again.q_out), values_of(first.q_out))) << i;
        ASSERT_EQ(again.next, first.next) << i;
      }
    }
  }
}

TEST_P(SmallOperations, AppendsToADenseCache) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    AppendCase c;
    c.dtype = dtype;
    expect_right(c, here());
    c.slots = {4, 0, 2};
    c.value_dim = 40;
    expect_right(c, here());
  }
}

TEST_P(SmallOperations, RotatesKeysAndQueries) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const bool interleaved : {false, true}) {
      AppendCase c;
      c.dtype = dtype;
      c.rotary_dim = 64;
      c.interleaved = interleaved;
      c.queries = true;
      expect_right(c, here());
      c.in_place = true;
      c.rotary_dim = 32;
      c.table = dtype;
      expect_right(c, here());
    }
  }
}

TEST_P(SmallOperations, AppendsPackedSequencesToPages) {
  AppendCase c;
  c.packed = true;
  c.rows = {3, 0, 1, 6};
  c.lengths = {0, 4, 15, 2};
  c.page_size = 3;
  c.rotary_dim = 64;
  c.queries = true;
  expect_right(c, here());
  c.offsets_are_64bit = true;
  c.slots = {3, 1, 0, 4};
  c.page_size = 1;
  c.interleaved = true;
  expect_right(c, here());
}

TEST_P(SmallOperations, AppendsRowsThatStartAnywhere) {
  for (const bool interleaved : {false, true}) {
    AppendCase c;
    c.layout = Layout::padded_rows;
    c.dim = 59;
    c.value_dim = 37;
    c.rotary_dim = 54;
    c.interleaved = interleaved;
    c.queries = true;
    expect_right(c, here());
    c.layout = Layout::bhsd;
    c.dim = c.value_dim = 64;
    c.rotary_dim = 20;  // halves of 10 elements are no whole pieces
    expect_right(c, here());
  }
}

TEST_P(SmallOperations, NoNewRowsStillGiveLengths) {
  AppendCase c;
  c.packed = true;
  c.rows = {0, 0};
  c.lengths = {7, 3};
  expect_right(c, here());
}

TEST_P(SmallOperations, WhatCannotBeRightWritesNothing) {
  struct Wrong {
    const char* words;
    std::function<void(AppendData&)> make;
    std::vector<std::int64_t> sequences;
  };
  const std::vector<Wrong> wrongs = {
      {"length", [](AppendData& d) { d.c.lengths[1] = -1; }, {1}},
      {"length", [](AppendData& d) { d.c.lengths[1] = 15; }, {1}},
      {"length", [](AppendData& d) { d.c.lengths[2] = INT32_MAX; }, {2}},
      {"batch", [](AppendData& d) { d.c.slots[0] = 5; }, {0}},
      {"batch", [](AppendData& d) { d.c.slots[0] = -1; }, {0}},
      {"block", [](AppendData& d) { std::fill_n(d.table.begin() + 4, 4, INT32_MAX); }, {1}},
      {"block", [](AppendData& d) { std::fill_n(d.table.begin() + 4, 4, -1); }, {1}},
  };
  for (const Wrong& wrong : wrongs) {
    AppendCase c;
    c.slots = {0, 1, 2};
    c.page_size = 4;
    c.rotary_dim = 64;
    AppendData data(c);
    wrong.make(data);
    if (here().is_cpu()) {
      try {
        data.run(here());
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr(wrong.words));
      }
      data.expect_nothing_written();
      continue;
    }
    data.run(here());
    EXPECT_THAT(here().context().take_fault(), HasSubstr(wrong.words));
    EXPECT_EQ(here().context().take_fault(), "");
    data.c.new_lengths = false;
    data.expect_right(wrong.sequences);
  }
}

TEST_P(SmallOperations, OffsetsThatCannotBeRightWriteNothing) {
  AppendCase c;
  c.packed = true;
  AppendData data(c);
  data.offsets_32 = {0, 2, 99, 6};  // sequence 0 is right, the others are not
  if (here().is_cpu()) {
    EXPECT_THROW(data.run(here()), Error);
    data.expect_nothing_written();
    return;
  }
  data.run(here());
  EXPECT_THAT(here().context().take_fault(), HasSubstr("offsets"));
  data.c.new_lengths = false;
  data.expect_right({1, 2});
}

TEST_P(SmallOperations, PositionsBeyondTheTablesAreAFault) {
  AppendCase c;
  c.capacity = 11;  // and as many positions
  c.lengths = {0, 5, 10};
  c.rotary_dim = 64;
  AppendData data(c);
  if (here().is_cpu()) {
    EXPECT_THROW(data.run(here()), Error);
    data.expect_nothing_written();
    return;
  }
  data.run(here());
  EXPECT_NE(here().context().take_fault(), "");
  data.c.new_lengths = false;
  data.expect_right({2});
}

}  // namespace
}  // namespace hipflash::testing
