// SPDX-License-Identifier: Apache-2.0
#include "storage/env/scratch_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

TEST(ScratchDirectoryTest, GoesWithItsContents) {
  const testing::TempDir dir;
  std::string path;
  {
    const auto scratch = ScratchDirectory::Make(dir / "", "prefix-");
    ASSERT_TRUE(scratch.ok()) << scratch.status();
    path = (*scratch)->path();
    EXPECT_TRUE(fs::path(path).filename().string().starts_with("prefix-"));
    const auto other = ScratchDirectory::Make(dir / "", "prefix-");
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_NE((*other)->path(), path);
    fs::create_directory(path + "/inner");
    std::ofstream(path + "/inner/file") << "bytes";
    EXPECT_TRUE(fs::exists(path + "/inner/file"));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(dir / ""));
}

TEST(ScratchDirectoryTest, NeedsItsParent) {
  const testing::TempDir dir;
  const auto scratch = ScratchDirectory::Make(dir / "none", "prefix-");
  EXPECT_EQ(scratch.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace msitd::storage
