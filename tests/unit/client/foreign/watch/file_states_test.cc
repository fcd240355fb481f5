// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/file_states.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace msitd::watch {
namespace {

using std::chrono::milliseconds;

class FakeProber final : public FileProber {
 public:
  bool Stat(const std::string& path, FileStamp* stamp) override {
    const auto at = files_.find(path);
    if (at == files_.end()) return false;
    *stamp = at->second.stamp;
    return true;
  }
  Length Probe(const std::string& path, std::string* reason) override {
    ++probe_count_;
    *reason = "cut off";
    return files_.at(path).length;
  }

  struct File {
    FileStamp stamp;
    Length length = Length::kWhole;
  };
  std::map<std::string, File> files_;
  int probe_count_ = 0;
};

class FileStatesTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, uint64_t bytes, Length length) {
    prober_.files_[path] = {{.bytes = bytes,
                             .mtime_ns = static_cast<int64_t>(bytes),
                             .ctime_ns = 0,
                             .inode = 1},
                            length};
  }
  std::vector<WholeFile> Take(bool is_end = false) {
    std::vector<WholeFile> out;
    states_.TakeWhole(now_, 1000, is_end, &out);
    return out;
  }
  std::vector<std::string> TakePaths(bool is_end = false) {
    std::vector<std::string> paths;
    for (const WholeFile& file : Take(is_end)) paths.push_back(file.path);
    return paths;
  }
  void Pass(int ms) { now_ += milliseconds(ms); }

  using Paths = std::vector<std::string>;
  FakeProber prober_;
  FileStates states_{FileStates::Timing(), prober_};
  FileStates::Time now_ = FileStates::Time(std::chrono::hours(1));
};

TEST_F(FileStatesTest, ClosedFileThatSaysItsLengthIsWholeAtOnce) {
  Write("a", 10, Length::kWhole);
  states_.Closed("a", now_);
  const auto whole = Take();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].path, "a");
  EXPECT_TRUE(whole[0].has_rested);
  EXPECT_EQ(states_.pending_count(), 0u);
  EXPECT_EQ(states_.next_look(), FileStates::Time::max());
}

TEST_F(FileStatesTest, FileThatWaitsForAnotherIsAskedAgainThoughItIsTheSame) {
  Write("a", 10, Length::kLater);
  states_.Closed("a", now_);
  EXPECT_EQ(Take().size(), 0u);
  EXPECT_EQ(states_.hopeful_count(), 0u);
  Pass(1000);
  EXPECT_EQ(Take().size(), 0u);
  EXPECT_EQ(prober_.probe_count_, 2);
  EXPECT_EQ(TakePaths(/*is_end=*/true), Paths());
  Write("a", 10, Length::kWhole);
  Pass(1000);
  EXPECT_EQ(TakePaths(), Paths({"a"}));
}

TEST_F(FileStatesTest, FileThatMayBeOpenHasToRest) {
  Write("a", 10, Length::kWhole);
  states_.Written("a", /*is_new=*/true, now_);
  EXPECT_TRUE(Take().empty());
  Pass(200);
  Write("a", 20, Length::kWhole);
  states_.Written("a", /*is_new=*/true, now_);
  EXPECT_TRUE(Take().empty());
  Pass(200);
  EXPECT_TRUE(Take().empty());
  Pass(100);
  const auto whole = Take();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_TRUE(whole[0].is_new);
  EXPECT_EQ(whole[0].stamp.bytes, 20u);
}

TEST_F(FileStatesTest, SliceThatIsClosedIsNotTheFile) {
  Write("a", 10, Length::kMore);
  states_.Closed("a", now_);
  EXPECT_TRUE(Take().empty());
  EXPECT_EQ(states_.hopeful_count(), 0u);
  Pass(60'000);
  EXPECT_TRUE(Take().empty());
  EXPECT_EQ(prober_.probe_count_, 1);
  Write("a", 30, Length::kWhole);
  states_.Closed("a", now_);
  EXPECT_EQ(states_.hopeful_count(), 1u);
  EXPECT_EQ(TakePaths(), Paths{"a"});
}

TEST_F(FileStatesTest, GrowthWithoutAnEventIsSeen) {
  Write("a", 10, Length::kMore);
  states_.Written("a", /*is_new=*/false, now_);
  EXPECT_TRUE(Take().empty());
  Pass(300);
  EXPECT_TRUE(Take().empty());
  Write("a", 30, Length::kWhole);
  Pass(1000);
  EXPECT_TRUE(Take().empty());
  Pass(300);
  EXPECT_EQ(TakePaths(), Paths{"a"});
}

TEST_F(FileStatesTest, FileThatDoesNotSayItsLengthHasToBeQuiet) {
  Write("t.csv", 10, Length::kUnknown);
  states_.Closed("t.csv", now_);
  EXPECT_TRUE(Take().empty());
  Pass(999);
  Write("t.csv", 11, Length::kUnknown);
  states_.Closed("t.csv", now_);
  EXPECT_TRUE(Take().empty());
  Pass(999);
  EXPECT_TRUE(Take().empty());
  Pass(1);
  EXPECT_EQ(TakePaths(), Paths{"t.csv"});
}

TEST_F(FileStatesTest, EmptyFileIsNeverWhole) {
  Write("a", 0, Length::kWhole);
  states_.Closed("a", now_);
  Pass(60'000);
  EXPECT_TRUE(Take().empty());
  EXPECT_TRUE(Take(/*is_end=*/true).empty());
  EXPECT_EQ(states_.pending_count(), 1u);
  std::string why;
  states_.ForEach(
      [&](const std::string&, const std::string& reason) { why = reason; });
  EXPECT_EQ(why, "it is empty");
}

TEST_F(FileStatesTest, EndTakesWhatOnlyHadToRest) {
  Write("rests", 10, Length::kWhole);
  Write("silent", 10, Length::kUnknown);
  Write("cut", 10, Length::kMore);
  for (const char* path : {"rests", "silent", "cut"}) {
    states_.Written(path, /*is_new=*/true, now_);
  }
  const auto whole = Take(/*is_end=*/true);
  ASSERT_EQ(whole.size(), 2u);
  for (const WholeFile& file : whole) EXPECT_FALSE(file.has_rested);
  std::string left;
  states_.ForEach(
      [&](const std::string& path, const std::string&) { left = path; });
  EXPECT_EQ(left, "cut");
}

TEST_F(FileStatesTest, VanishedFileIsLetGoOf) {
  Write("a", 10, Length::kWhole);
  Write("b", 10, Length::kMore);
  states_.Closed("a", now_);
  states_.Closed("b", now_);
  EXPECT_EQ(TakePaths(), Paths{"a"});
  prober_.files_.clear();
  Pass(1000);
  EXPECT_TRUE(Take().empty());
  EXPECT_EQ(states_.pending_count(), 0u);
  EXPECT_EQ(states_.hopeful_count(), 0u);
  states_.Gone("a");
}

TEST_F(FileStatesTest, ClosedFileKnowsOfThoseSeenBeforeIt) {
  Write("d/first", 10, Length::kWhole);
  Write("d/second", 10, Length::kWhole);
  Write("e/other", 10, Length::kWhole);
  states_.Written("d/first", /*is_new=*/true, now_);
  states_.Closed("d/second", now_);
  states_.Closed("e/other", now_);
  const auto whole = Take();
  ASSERT_EQ(whole.size(), 2u);
  for (const WholeFile& file : whole) {
    EXPECT_EQ(states_.HasEarlier(file), file.path == "d/second");
  }
  Pass(300);
  EXPECT_EQ(TakePaths(), Paths{"d/first"});
  for (const WholeFile& file : whole) EXPECT_FALSE(states_.HasEarlier(file));
}

TEST_F(FileStatesTest, NobodyWaitsForAFileToWhichMoreHasToCome) {
  Write("cut", 10, Length::kMore);
  Write("whole", 10, Length::kWhole);
  states_.Closed("cut", now_);
  states_.Closed("whole", now_);
  const auto whole = Take();
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_FALSE(states_.HasEarlier(whole[0]));
}

TEST_F(FileStatesTest, FileThatReplacesAClosedOneHasToRest) {
  Write("a", 10, Length::kMore);
  states_.Closed("a", now_);
  EXPECT_TRUE(Take().empty());
  Write("a", 30, Length::kWhole);
  prober_.files_["a"].stamp.inode = 2;
  states_.Written("a", /*is_new=*/true, now_);
  EXPECT_TRUE(Take().empty());
  Pass(300);
  EXPECT_EQ(TakePaths(), Paths{"a"});
}

}  // namespace
}  // namespace msitd::watch
