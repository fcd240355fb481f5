// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/pairing_hints.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PairingHintsTest, WrappersAreRewritten) {
  PairingHints hints;
  for (const char* op : {"root.a", "root.b", "root.c"}) {
    hints.Add(op, Io::kOutput, "0", true);
    hints.Add(fmt::format("root.module.{}", op + 5), Io::kOutput, "0", false);
  }
  EXPECT_THAT(hints.Flags(),
              ElementsAre("--rewrite '^root\\.module\\.=>root.'"));
}

TEST(PairingHintsTest, FusedAttentionIsAllowed) {
  PairingHints hints;
  EXPECT_THAT(hints.Flags(), IsEmpty());
  hints.Add("layers.0.self_attn", Io::kOutput, "1", true);
  hints.Add("layers.0.self_attn", Io::kInput, "attention_mask", false);
  EXPECT_THAT(hints.Flags(), ElementsAre("--allow-unmatched @sdpa-eager"));
  // The flag would not allow this one.
  hints.Add("layers.0.mlp", Io::kOutput, "0", true);
  EXPECT_THAT(hints.Flags(), IsEmpty());
}

TEST(PairingHintsTest, SpellingsArePairedLoosely) {
  PairingHints hints;
  for (const char* op : {"Attention.Query", "Mlp.Up", "Norm"}) {
    hints.Add(op, Io::kOutput, "0", true);
  }
  for (const char* op : {"attention/query", "mlp/up", "norm"}) {
    hints.Add(op, Io::kOutput, "0", false);
  }
  EXPECT_THAT(hints.Flags(), ElementsAre("--fuzzy"));
}

TEST(PairingHintsTest, OnlySomeNamesAreKept) {
  PairingHints hints;
  for (size_t i = 0; i < 2 * PairingHints::kHintedOpsMax; ++i) {
    hints.Add(fmt::format("root.{}", i), Io::kOutput, "0", true);
    hints.Add(fmt::format("root.module.{}", i), Io::kOutput, "0", false);
  }
  EXPECT_THAT(hints.Flags(),
              ElementsAre("--rewrite '^root\\.module\\.=>root.'"));
}

}  // namespace
}  // namespace msitd::compare
