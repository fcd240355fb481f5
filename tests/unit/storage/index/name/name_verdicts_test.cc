// SPDX-License-Identifier: Apache-2.0
#include "storage/index/name/name_verdicts.h"

#include <gtest/gtest.h>

#include <optional>

namespace msitd::storage {
namespace {

TEST(NameVerdictsTest, KeepsEachVerdictApart) {
  NameVerdicts verdicts;
  for (uint32_t id = 0; id < 100; ++id) {
    EXPECT_EQ(verdicts.Find(id), std::nullopt);
    if (id % 3 != 0) verdicts.Put(id, id % 3 == 1);
  }
  for (uint32_t id = 0; id < 200; ++id) {
    const std::optional<bool> expected =
        id % 3 == 0 || id >= 100 ? std::nullopt : std::optional(id % 3 == 1);
    EXPECT_EQ(verdicts.Find(id), expected) << id;
  }
}

TEST(NameVerdictsTest, KeepsNoneOnNumbersThatAreTooLarge) {
  NameVerdicts verdicts;
  verdicts.Put(NameVerdicts::kNamesMax - 1, true);
  verdicts.Put(NameVerdicts::kNamesMax, true);
  EXPECT_EQ(verdicts.Find(NameVerdicts::kNamesMax - 1), true);
  EXPECT_EQ(verdicts.Find(NameVerdicts::kNamesMax), std::nullopt);
  EXPECT_EQ(verdicts.Find(~uint32_t{0}), std::nullopt);
}

}  // namespace
}  // namespace msitd::storage
