// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "tests/unit/client/foreign/trees/made_tree.h"

// Checks that each file of a tree has an entry, an attachment or a problem.
namespace msitd::trees {
namespace {

constexpr uint32_t kSeed = 20251123;
constexpr int kTrees = 20;
constexpr int kFilesOfATree = 30;

constexpr const char* kFolders[] = {"worldsize2_global_rank0",
                                    "worldsize2_global_rank1",
                                    "20250901120005",
                                    "20250901130000",
                                    "0",
                                    "1",
                                    "2",
                                    "graph_1",
                                    "graph_2",
                                    "Graph",
                                    "gm_1_dump",
                                    "gm_2_dump",
                                    "data_dump",
                                    "x y"};
constexpr const char* kFiles[] = {
    "T.Add.1.2.1756699200000001",
    "T.Add.1.2.1756699200000002",
    "T.Add.1.2.1756699200000001.csv",
    "T.Add.1.2.1756699200000001_min_max.npz",
    "T.Add.1.2.1756699200000001.output.0.npy",
    "123",
    "456.csv",
    "a-b.INPUT.0.20240125031118787351.npy",
    "a-b.INPUT.0.20240125031118787352.npy",
    "a-b.INPUT.0.20240125031118787351_min_max.npy",
    "a-b.OUTPUT.0.1.20240125031118787351.npy",
    "dynamo_original_graph_1_rank_0_pid_2_ts_3.txt",
    "mindie_rt_op_mapping.json",
    "notes.txt",
    "a.npy",
    "a.npz"};

class CoverageTest : public ::testing::TestWithParam<TreeKind> {
 protected:
  const char* Any(const auto& names) {
    return names[random_() % std::size(names)];
  }

  std::mt19937 random_{kSeed};
};

TEST_P(CoverageTest, NoFileIsPassedOverInSilence) {
  for (int i = 0; i < kTrees; ++i) {
    const MadeTree made;
    std::set<std::string> files;
    for (int k = 0; k < kFilesOfATree; ++k) {
      std::string path;
      for (size_t depth = random_() % 6; depth > 0; --depth) {
        path += std::string(Any(kFolders)) + "/";
      }
      path += Any(kFiles);
      made.Write(path);
      files.insert(made.path(path));
    }
    TreeOptions options;
    options.kind = GetParam();
    const auto tree = made.Open("", options);
    ASSERT_NE(tree, nullptr);
    std::set<std::string> keys;
    std::pair<int32_t, int64_t> place = {-1, -1};
    while (const TreeEntry* entry = tree->Next()) {
      EXPECT_EQ(files.erase(entry->file), 1) << entry->file;
      EXPECT_TRUE(keys.insert(Describe(*entry)).second) << Describe(*entry);
      const std::pair<int32_t, int64_t> next = {entry->key.rank,
                                                entry->key.token};
      EXPECT_LE(place, next);
      place = next;
    }
    for (const TreeAttachment& one : tree->attachments()) {
      EXPECT_EQ(files.erase(one.file), 1) << one.file;
    }
    for (const TreeProblem& problem : tree->TakeProblems()) {
      EXPECT_FALSE(problem.reason.ok());
      // The problem of a folder covers all files in it.
      std::erase_if(files, [&](const std::string& file) {
        return file == problem.file || file.starts_with(problem.file + "/");
      });
    }
    EXPECT_THAT(files, ::testing::IsEmpty()) << "tree " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CoverageTest,
                         ::testing::Values(TreeKind::kFiles, TreeKind::kGe,
                                           TreeKind::kFx, TreeKind::kMindie),
                         [](const auto& about) {
                           return std::string(TreeKindName(about.param));
                         });

}  // namespace
}  // namespace msitd::trees
