// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/tree_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "client/foreign/trees/tree_limits.h"
#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Reasons(const Listing& listing) {
  std::vector<std::string> out;
  for (const TreeProblem& problem : listing.problems) {
    out.push_back(problem.file.substr(problem.file.rfind('/') + 1) + ": " +
                  std::string(Message(problem.reason)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(TreeFolderTest, NamesComeInTheOrderOfTheirBytes) {
  const MadeTree made;
  for (const char* name : {"b", "a", "10", "9", "d/x", "c/x"}) made.Write(name);
  const auto folder = TreeFolder::Open(made.path() + "//");
  ASSERT_TRUE(folder.ok()) << folder.status();
  const Listing listing = folder->List("");
  EXPECT_THAT(listing.files, ElementsAre("10", "9", "a", "b"));
  EXPECT_THAT(listing.folders, ElementsAre("c", "d"));
  EXPECT_EQ(folder->PathOf("c/x"), made.path("c/x"));
}

TEST(TreeFolderTest, NoLinkLeadsOut) {
  const MadeTree other;
  other.Write("secret");
  const MadeTree made;
  made.Write("x/a");
  made.Link("x/inside", "a");
  made.Link("x/back", "../x/a");
  made.Link("x/loop", "loop");
  made.Link("x/folder", "../x");
  made.Link("x/none", "missing");
  made.Link("x/out", other.path("secret"));
  made.Link("x/up", "../../");
  const auto folder = TreeFolder::Open(made.path("x"));
  ASSERT_TRUE(folder.ok()) << folder.status();
  const Listing listing = folder->List("");
  EXPECT_THAT(listing.files, ElementsAre("a", "back", "inside"));
  EXPECT_THAT(listing.folders, IsEmpty());
  EXPECT_EQ(listing.problems.size(), 5);
  const std::vector<std::string> reasons = Reasons(listing);
  EXPECT_THAT(reasons, ::testing::IsSupersetOf(
                           {"folder: a link to a file outside of the folder",
                            "out: a link to a file outside of the folder"}));
}

TEST(TreeFolderTest, AFolderWhoseNameBeginsAlikeIsOutside) {
  const MadeTree made;
  made.Write("x/a");
  made.Write("xy/b");
  made.Link("x/b", "../xy/b");
  const auto folder = TreeFolder::Open(made.path("x"));
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(Reasons(folder->List("")),
              ElementsAre("b: a link to a file outside of the folder"));
}

TEST(TreeFolderTest, WhatIsNoFileIsAProblem) {
  const MadeTree made;
  made.Write("a");
  ASSERT_EQ(::mkfifo(made.path("pipe").c_str(), 0600), 0);
  made.Write("not \xff utf-8");
  const auto folder = TreeFolder::Open(made.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  const Listing listing = folder->List("");
  EXPECT_THAT(listing.files, ElementsAre("a"));
  EXPECT_THAT(Reasons(listing),
              ElementsAre("not \xff utf-8: its name is not UTF-8",
                          "pipe: it is not a regular file"));
}

TEST(TreeFolderTest, AFolderThatIsGoneIsAProblem) {
  const MadeTree made;
  made.Write("x/a");
  const auto folder = TreeFolder::Open(made.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->List("y").problems.size(), 1);
  EXPECT_EQ(TreeFolder::Open(made.path("y")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(TreeFolder::Open("/dev/null").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TreeFolderTest, AWalkSeesAFolderBeforeThoseInIt) {
  const MadeTree made;
  for (const char* name : {"b/x/f", "a/f", "b/f", "c/y/z/f"}) made.Write(name);
  const auto folder = TreeFolder::Open(made.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::vector<std::string> seen;
  const absl::Status walked =
      WalkFolders(*folder, [&](const std::string& path, Listing*) {
        seen.push_back(path);
        return absl::OkStatus();
      });
  EXPECT_TRUE(walked.ok()) << walked;
  EXPECT_THAT(seen, ElementsAre("", "a", "b", "b/x", "c", "c/y", "c/y/z"));
}

TEST(TreeFolderTest, AWalkGoesNoDeeperThanTheLimit) {
  const MadeTree made;
  std::string path;
  for (int i = 0; i < kDepthMax; ++i) path += "d/";
  made.Write(path + "f");
  const auto folder = TreeFolder::Open(made.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto visit = [](const std::string&, Listing*) {
    return absl::OkStatus();
  };
  EXPECT_TRUE(WalkFolders(*folder, visit).ok());
  made.Write(path + "d/f");
  EXPECT_EQ(WalkFolders(*folder, visit).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(TreeFolderTest, PathsAreJoinedAndSplit) {
  EXPECT_EQ(JoinPath("", "a"), "a");
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("a", ""), "a");
  EXPECT_THAT(SplitPath("/a//bc/"), ElementsAre("a", "bc"));
  EXPECT_THAT(SplitPath(""), IsEmpty());
}

}  // namespace
}  // namespace msitd::trees
