// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/step_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StepFoldersTest, FolderIsTheRankOfAStep) {
  const auto found = StepFolderOf("run/step12/proc7/dump_tensor_data/a.pt");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, "run/step12/proc7");
  EXPECT_EQ(found->step, 12);
  for (const char* const path :
       {"step1", "step1/rank0", "rank0/dump.json", "stepx/rank0/dump.json",
        "step1/other/dump.json", "step-1/rank0/dump.json",
        "step99999999999999999999/rank0/dump.json", ""}) {
    EXPECT_FALSE(StepFolderOf(path).has_value()) << path;
  }
}

TEST(StepFoldersTest, FolderIsPastOnceItsRankHasALaterStep) {
  StepFolders folders;
  folders.Add("step0/rank0/dump.json");
  folders.Add("step0/rank1/dump.json");
  folders.Add("step0/rank1/stack.json");
  EXPECT_THAT(folders.Past(), IsEmpty());
  folders.Add("step2/rank0/dump.json");
  EXPECT_THAT(folders.Past(), ElementsAre("step0/rank0"));
  EXPECT_THAT(folders.PastSteps(), IsEmpty());
  folders.Add("step1/rank1/dump.json");
  EXPECT_THAT(folders.Past(), ElementsAre("step0/rank0", "step0/rank1"));
  EXPECT_THAT(folders.PastSteps(), ElementsAre(0));
  folders.Remove("step0/rank0");
  EXPECT_THAT(folders.Past(), ElementsAre("step0/rank1"));
  EXPECT_THAT(folders.All(),
              ElementsAre("step0/rank1", "step1/rank1", "step2/rank0"));
}

}  // namespace
}  // namespace msitd::watch
