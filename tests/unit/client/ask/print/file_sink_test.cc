// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/file_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileSinkTest : public ::testing::Test {
 protected:
  FileSinkTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "msitctl-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ / "tensor";
  }
  ~FileSinkTest() override { std::filesystem::remove_all(folder_); }

  static std::string Read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(FileSinkTest, TheFileIsThereOnceCommitted) {
  auto sink = FileSink::Open(path_.string(), false);
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(sink->Write("ab").ok());
  ASSERT_TRUE(sink->Write("c").ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(sink->Commit().ok());
  EXPECT_EQ(Read(path_), "abc");
  EXPECT_THAT(Names(), ElementsAre("tensor"));
}

TEST_F(FileSinkTest, WithoutACommitTheOldFileStays) {
  std::ofstream(path_) << "old";
  {
    auto sink = FileSink::Open(path_.string(), false);
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE(sink->Write("new").ok());
  }
  EXPECT_EQ(Read(path_), "old");
  EXPECT_THAT(Names(), ElementsAre("tensor"));
}

TEST_F(FileSinkTest, ALinkStaysALink) {
  std::ofstream(folder_ / "real") << "old";
  std::filesystem::create_symlink("real", path_);
  auto sink = FileSink::Open(path_.string(), false);
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(sink->Write("new").ok());
  ASSERT_TRUE(sink->Commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(Read(folder_ / "real"), "new");
}

TEST_F(FileSinkTest, AFullDiskIsAnError) {
  auto sink = FileSink::Open("/dev/full", false);
  ASSERT_TRUE(sink.ok());
  EXPECT_THAT(std::string(Message(sink->Write("x"))),
              HasSubstr("write /dev/full: No space left"));
}

TEST_F(FileSinkTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_FALSE(FileSink::Open((folder_ / "no" / "x").string(), false).ok());
}

TEST_F(FileSinkTest, ATerminalGetsNoBytes) {
  EXPECT_THAT(std::string(Message(FileSink::Open("-", true).status())),
              HasSubstr("to a terminal"));
}

}  // namespace
}  // namespace msitd::ask
