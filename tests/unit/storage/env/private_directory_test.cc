// SPDX-License-Identifier: Apache-2.0
#include "storage/env/private_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using msitd::testing::TempDir;

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

void MakeFile(const std::string& path) {
  std::ofstream file(path);
  ASSERT_TRUE(file.good());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
}

class PrivateDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::create_directories(dir_ / "store/index/a"));
    for (const char* name : {"store", "store/index", "store/index/a"}) {
      ASSERT_EQ(::chmod((dir_ / name).c_str(), 0750), 0);
    }
    MakeFile(dir_ / "store/LOCK");
    MakeFile(dir_ / "store/index/a/b");
    MakeFile(dir_ / "elsewhere");
    ASSERT_EQ(::symlink((dir_ / "elsewhere").c_str(),
                        (dir_ / "store/link").c_str()),
              0);
  }

  const TempDir dir_;
};

TEST_F(PrivateDirectoryTest, OthersLoseAllPermissions) {
  ASSERT_TRUE(MakePrivate(dir_ / "store", PrivateDepth::kAll).ok());
  EXPECT_EQ(ModeOf(dir_ / "store"), 0700u);
  EXPECT_EQ(ModeOf(dir_ / "store/LOCK"), 0600u);
  EXPECT_EQ(ModeOf(dir_ / "store/index"), 0700u);
  EXPECT_EQ(ModeOf(dir_ / "store/index/a"), 0700u);
  EXPECT_EQ(ModeOf(dir_ / "store/index/a/b"), 0600u);
  // Named by a link in the store.
  EXPECT_EQ(ModeOf(dir_ / "elsewhere"), 0640u);
}

TEST_F(PrivateDirectoryTest, SubdirectoriesStayAtDepthFiles) {
  ASSERT_TRUE(MakePrivate(dir_ / "store", PrivateDepth::kFiles).ok());
  EXPECT_EQ(ModeOf(dir_ / "store"), 0700u);
  EXPECT_EQ(ModeOf(dir_ / "store/LOCK"), 0600u);
  EXPECT_EQ(ModeOf(dir_ / "store/index"), 0750u);
  EXPECT_EQ(ModeOf(dir_ / "store/index/a/b"), 0640u);
}

TEST_F(PrivateDirectoryTest, ALinkToTheStoreIsFollowed) {
  const std::string link = dir_ / "to_store";
  ASSERT_EQ(::symlink((dir_ / "store").c_str(), link.c_str()), 0);
  ASSERT_TRUE(MakePrivate(link, PrivateDepth::kAll).ok());
  EXPECT_EQ(ModeOf(dir_ / "store"), 0700u);
  EXPECT_EQ(ModeOf(dir_ / "store/LOCK"), 0600u);
}

TEST_F(PrivateDirectoryTest, AMissingDirectoryIsAnError) {
  EXPECT_FALSE(MakePrivate(dir_ / "none", PrivateDepth::kAll).ok());
}

}  // namespace
}  // namespace msitd::storage
