// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/detect.h"

#include <gmock/gmock.h>

#include "client/foreign/trees/tree_limits.h"
#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

TEST(DetectTest, AFolderWithoutTensorsIsRefused) {
  const MadeTree made;
  const auto empty = OpenTree(made.path(), {});
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kInvalidArgument);
  made.Write("notes.txt", "no tensors in it");
  const auto tree = OpenTree(made.path(), {});
  EXPECT_EQ(tree.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(tree.status())),
              ::testing::HasSubstr("not a tree of a known format"));
}

TEST(DetectTest, AKindThatIsSaidIsNotLookedFor) {
  const MadeTree made;
  made.Write("notes.txt", "no tensors in it");
  TreeOptions options;
  options.kind = TreeKind::kFiles;
  const auto tree = made.Open("", options);
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->Next(), nullptr);
  EXPECT_EQ(tree->TakeProblems().size(), 1);
}

TEST(DetectTest, ASampleIsTakenFromTheTopDownAndHasLimits) {
  const MadeTree made;
  for (size_t i = 0; i < kSampleFilesMax + 5; ++i) {
    made.Write(fmt::format("a/b/{:03}", i), "");
  }
  made.Write("c/x", "");
  const auto folder = TreeFolder::Open(made.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  const TreeSample sample = TakeSample(*folder);
  std::vector<std::string> paths;
  for (const SampledFolder& one : sample.folders) paths.push_back(one.path);
  EXPECT_THAT(paths, ::testing::ElementsAre("", "a", "c", "a/b"));
  ASSERT_EQ(sample.folders.size(), 4);
  EXPECT_THAT(sample.folders[0].folders, ::testing::ElementsAre("a", "c"));
  EXPECT_THAT(sample.folders[2].files, ::testing::ElementsAre("x"));
  EXPECT_EQ(sample.folders[3].files.size(), kSampleFilesMax);
}

TEST(DetectTest, AGraphBesideOtherFilesMakesNoTreeOfGe) {
  const MadeTree made;
  made.Write("dynamo_original_graph_1_rank_0_pid_2_ts_3.txt", "name: 1");
  made.Write("dynamo_original_graph_1_rank_0_pid_2_ts_3.py", "import torch");
  const auto graphs = made.Open();
  ASSERT_NE(graphs, nullptr);
  EXPECT_EQ(graphs->kind(), TreeKind::kGe);
  made.Write(
      "worldsize1_global_rank0/graph_1/0/"
      "a-b.OUTPUT.0.20240125031118787351.npy");
  const auto fx = made.Open();
  ASSERT_NE(fx, nullptr);
  EXPECT_EQ(fx->kind(), TreeKind::kFx);
  const MadeTree loose;
  loose.Write("dynamo_original_graph_1_rank_0_pid_2_ts_3.txt", "name: 1");
  loose.Write("layer/weight.npy");
  const auto files = loose.Open();
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->kind(), TreeKind::kFiles);
}

TEST(DetectTest, AThousandRanksDoNotHideTheirFiles) {
  const MadeTree made;
  for (int rank = 0; rank < 1200; ++rank) {
    std::filesystem::create_directories(
        made.path(fmt::format("worldsize1200_global_rank{}/graph_1/0", rank)));
  }
  made.Write(
      "worldsize1200_global_rank0/graph_1/0/"
      "a-b.OUTPUT.0.20240125031118787351.npy");
  const auto tree = made.Open();
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->kind(), TreeKind::kFx);
}

}  // namespace
}  // namespace msitd::trees
