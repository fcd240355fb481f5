// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/token_caches.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::compare {
namespace {

TensorKey KeyOf(std::string op, Io io, std::string index) {
  TensorKey out;
  out.op = std::move(op);
  out.io = io;
  out.index = std::move(index);
  return out;
}

TEST(TokenCachesTest, NamesAreThoseOfArgumentsAndOps) {
  TokenCaches caches;
  caches.Add("a", "cache = row 0 dims 0,2: 0:4\n*.attn = row 0 dims 0,2: 0:4");
  const auto has = [&](std::string op, Io io, std::string index) {
    return caches.Has(KeyOf(std::move(op), io, std::move(index)));
  };
  EXPECT_TRUE(has("root", Io::kInput, "cache"));
  EXPECT_TRUE(has("root", Io::kInput, "cache.layers.0.keys"));
  EXPECT_FALSE(has("root", Io::kInput, "cache_position"));
  EXPECT_FALSE(has("root", Io::kInput, "layers.cache"));
  EXPECT_TRUE(has("root.0.cache", Io::kState, "k"));
  EXPECT_TRUE(has("root.0/cache", Io::kOutput, "0"));
  EXPECT_FALSE(has("root.0.cache", Io::kInput, "0"));
  EXPECT_FALSE(has("root.0.nocache", Io::kOutput, "0"));
  EXPECT_TRUE(has("root.0.attn", Io::kOutput, "0"));
  EXPECT_FALSE(has("root.0.attn", Io::kInput, "0"));
}

TEST(TokenCachesTest, TheLongestNameApplies) {
  TokenCaches caches;
  caches.Add("a",
             "cache = row 3 dims 0,2: 0:4\n"
             "cache.layers.1 = unknown: it has a sliding window\n"
             "= row 1 dims 0,2: 0\n\nno line");
  const auto places = [&](std::string index, std::string_view id) {
    return caches.PlacesOf(KeyOf("root", Io::kInput, std::move(index)), id);
  };
  EXPECT_EQ(places("cache.layers.0.keys", "a")->row, 3);
  EXPECT_EQ(places("cache.layers.1.keys", "a")->problem,
            "it has a sliding window");
  EXPECT_EQ(places("cache.layers.10.keys", "a")->row, 3);
  EXPECT_EQ(places("cache.layers.0.keys", "b"), nullptr);
  EXPECT_EQ(places("x", "a"), nullptr);
}

TEST(TokenCachesTest, NamesOfLibrariesAreKnown) {
  EXPECT_TRUE(HasNameOfCache(
      KeyOf("root", Io::kInput, "past_key_values.layers.0.keys")));
  EXPECT_TRUE(HasNameOfCache(KeyOf("root", Io::kInput, "cache.layers.0.keys")));
  EXPECT_TRUE(HasNameOfCache(KeyOf("l.0.kv_cache", Io::kState, "k_cache")));
  EXPECT_TRUE(HasNameOfCache(KeyOf("l.0.k_cache", Io::kOutput, "0")));
  // The new keys that a module for a cache receives are rows.
  EXPECT_FALSE(HasNameOfCache(KeyOf("l.0.kv_cache", Io::kInput, "1")));
  EXPECT_FALSE(HasNameOfCache(KeyOf("l.0.k_proj", Io::kOutput, "0")));
  EXPECT_FALSE(HasNameOfCache(KeyOf("root", Io::kInput, "cache_position")));
}

}  // namespace
}  // namespace msitd::compare
