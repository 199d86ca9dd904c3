#include "cache/key.h"

#include <functional>
#include <set>

#include "cache_testing.h"

namespace hipflash::cache {
namespace {

using testing::sample_info;

TEST(Key, EveryInputChangesIt) {
  const KeyInputs base = sample_info().inputs;
  std::set<std::string> keys{key_of(base)};
  const std::function<void(KeyInputs&)> changes[] = {
      [](KeyInputs& k) { k.family += "x"; },
      [](KeyInputs& k) { k.source_hash[0] ^= 1; },
      [](KeyInputs& k) { k.prologue += " "; },
      [](KeyInputs& k) { k.options.pop_back(); },
      [](KeyInputs& k) { k.options[0] = "-O2"; },
      [](KeyInputs& k) { k.options.emplace_back(); },
      [](KeyInputs& k) { std::swap(k.options[0], k.options[1]); },
      [](KeyInputs& k) { k.arch += "+avx512f"; },
      [](KeyInputs& k) { k.compiler = "g++ 12.2.1"; },
      [](KeyInputs& k) { ++k.abi; },
  };
  for (const auto& change : changes) {
    KeyInputs changed = base;
    change(changed);
    EXPECT_TRUE(keys.insert(key_of(changed)).second);
  }
}

TEST(Key, NeighbouringFieldsDoNotRunTogether) {
  KeyInputs a = sample_info().inputs;
  KeyInputs b = a;
  a.arch = "gfx90a:x", a.compiler = "nack";
  b.arch = "gfx90a:", b.compiler = "xnack";
  EXPECT_NE(key_of(a), key_of(b));
  a = b;
  a.options = {"-O3 -g"};
  b.options = {"-O3", " -g"};
  EXPECT_NE(key_of(a), key_of(b));
}

TEST(Key, SpecIdIgnoresCompilerAndOptionsOnly) {
  const KeyInputs base = sample_info().inputs;
  KeyInputs same = base;
  same.compiler = "other";
  same.options = {};
  EXPECT_EQ(spec_id_of(base), spec_id_of(same));
  EXPECT_NE(spec_id_of(base), key_of(base));
  const std::function<void(KeyInputs&)> changes[] = {
      [](KeyInputs& k) { k.family += "x"; }, [](KeyInputs& k) { k.source_hash[0] ^= 1; },
      [](KeyInputs& k) { k.prologue += " "; }, [](KeyInputs& k) { k.arch = "gfx942"; },
      [](KeyInputs& k) { ++k.abi; }};
  for (const auto& change : changes) {
    KeyInputs changed = base;
    change(changed);
    EXPECT_NE(spec_id_of(base), spec_id_of(changed));
  }
}

TEST(Key, KnownHash) {  // BLAKE2b-256 of "abc"
  EXPECT_EQ(hash_hex("abc"), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(Key, OnlyHexOfTheRightLengthIsAKey) {
  EXPECT_TRUE(is_key(key_of(sample_info().inputs)));
  EXPECT_FALSE(is_key(""));
  EXPECT_FALSE(is_key(std::string(63, 'a')));
  EXPECT_FALSE(is_key(std::string(64, 'A')));
  EXPECT_FALSE(is_key("../" + std::string(61, 'a')));
}

}  // namespace
}  // namespace hipflash::cache
