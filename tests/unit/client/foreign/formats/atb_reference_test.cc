// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/atb_reference.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace msitd::formats {
namespace {

namespace fs = std::filesystem;

TEST(AtbReferenceTest, NamesAreReadAsNumbersAndAFile) {
  const auto read = ParseAtbReference("3_0_1_outtensor0.bin");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->ops, (std::vector<std::string>{"3", "0", "1"}));
  EXPECT_EQ(read->file, "outtensor0.bin");
  for (const char* name : {"outtensor0.bin", "3_outtensor.bin", "3_x0.bin",
                           "_outtensor0.bin", "3_outtensor0.npy"}) {
    EXPECT_FALSE(ParseAtbReference(name).has_value()) << name;
  }
}

TEST(AtbFoldersTest, AFolderIsListedAgainOnceItHasChanged) {
  const testing::TempDir dir;
  fs::create_directory(dir / "3_Add");
  AtbFolders folders;
  EXPECT_EQ(folders.Find(dir.path(), "3"), dir / "3_Add");
  // The folder has just changed, so a further change may not update its time.
  fs::create_directory(dir / "4_Mul");
  EXPECT_EQ(folders.Find(dir.path(), "4"), dir / "4_Mul");

  const auto long_ago = fs::last_write_time(dir.path()) - std::chrono::hours(1);
  fs::last_write_time(dir.path(), long_ago);
  EXPECT_EQ(folders.Find(dir.path(), "5"), std::nullopt);
  fs::create_directory(dir / "5_Sub");
  fs::create_directory(dir / "4_Other");
  fs::last_write_time(dir.path(), long_ago);
  // The time of the folder is unchanged, so it is not listed again.
  EXPECT_EQ(folders.Find(dir.path(), "5"), std::nullopt);
  EXPECT_EQ(folders.Find(dir.path(), "4"), dir / "4_Mul");
  fs::last_write_time(dir.path(), long_ago + std::chrono::seconds(1));
  EXPECT_EQ(folders.Find(dir.path(), "5"), dir / "5_Sub");
  EXPECT_EQ(folders.Find(dir.path(), "4"), std::nullopt);
}

TEST(AtbFoldersTest, OnlyRealFoldersAreOps) {
  const testing::TempDir dir;
  fs::create_directory(dir / "x");
  fs::create_directory_symlink("x", dir / "3_Add");
  fs::create_directory(dir / "4");
  AtbFolders folders;
  EXPECT_EQ(folders.Find(dir.path(), "3"), std::nullopt);
  EXPECT_EQ(folders.Find(dir.path(), "4"), std::nullopt);
  EXPECT_EQ(folders.Find(dir / "none", "3"), std::nullopt);
}

}  // namespace
}  // namespace msitd::formats
