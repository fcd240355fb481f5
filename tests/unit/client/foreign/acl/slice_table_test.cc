// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/slice_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace msitd::acl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMemoryBytes = 100'000;

class SliceTableTest : public ::testing::Test {
 protected:
  SliceTable& Make(libmsit::OverflowMode overflow, milliseconds max_block,
                   uint64_t memory_bytes_max = kMemoryBytes) {
    SliceTable::Options options;
    options.memory_bytes_max = memory_bytes_max;
    options.overflow = overflow;
    options.max_block = max_block;
    table_ = std::make_unique<SliceTable>(
        options, [this](std::string_view why, std::string_view file) {
          lost_.push_back(std::string(file) + ": " + std::string(why));
        });
    return *table_;
  }
  SliceTable& Make() {
    return Make(libmsit::OverflowMode::kDropNewest, seconds(0));
  }

  void Put(std::string_view file, std::optional<uint64_t> offset,
           std::string_view bytes, bool is_last) {
    Slice slice;
    slice.file = file;
    slice.offset = offset;
    slice.bytes = std::as_bytes(std::span(bytes));
    slice.is_last = is_last;
    table_->Put(slice);
  }

  // Returns "path=text" for the next complete file.
  std::string Next() {
    const auto file = table_->Take(SliceTable::Clock::now());
    if (!file) return "";
    table_->Release(file->charged_bytes);
    return TextOf(*file);
  }
  static std::string TextOf(const DumpFile& file) {
    return file.path + "=" +
           file.bytes->ReadText(0, file.bytes->size()).value();
  }

  std::unique_ptr<SliceTable> table_;
  std::vector<std::string> lost_;
};

TEST_F(SliceTableTest, FilesComeWhenTheirLastSliceHasCome) {
  Make();
  Put("a", {}, "1", false);
  Put("b", 2, "3", true);
  Put("a", {}, "2", false);
  EXPECT_EQ(Next(), "");
  Put("b", 0, "12", false);
  Put("a", {}, "", true);
  EXPECT_EQ(Next(), "b=123");
  EXPECT_EQ(Next(), "a=12");
  EXPECT_EQ(Next(), "");
}

TEST_F(SliceTableTest, NameMayComeAgain) {
  Make();
  Put("a", {}, "1", true);
  Put("a", {}, "2", true);
  EXPECT_EQ(Next(), "a=1");
  EXPECT_EQ(Next(), "a=2");
}

TEST_F(SliceTableTest, OffsetBeyondTheMemoryLosesTheFile) {
  Make();
  const uint64_t offsets[] = {kMemoryBytes, kMemoryBytes + 1, uint64_t{1} << 62,
                              ~uint64_t{0} >> 1};
  for (const uint64_t offset : offsets) {
    const std::string name = std::to_string(offset);
    Put(name, 0, "1", false);
    Put(name, offset, "2", false);
    // Later slices do not restore it.
    Put(name, 1, "2", true);
  }
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(table_->counts().lost_file_count, 4U);
  ASSERT_EQ(lost_.size(), 4U);
  EXPECT_THAT(lost_[0], HasSubstr("larger than MSITD_ACL_BUFFER_BYTES"));
  EXPECT_FALSE(table_->TakeOpen().has_value());
}

TEST_F(SliceTableTest, FileWithoutRoomIsLostAsAWhole) {
  Make();
  const std::string half(kMemoryBytes / 2, 'x');
  Put("a", {}, half, false);
  Put("b", {}, half, false);
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("b: there was not enough memory")));
  // The memory of the lost file is free again.
  Put("a", {}, "end", true);
  EXPECT_EQ(Next(), "a=" + half + "end");
  Put("c", {}, half, true);
  EXPECT_EQ(Next(), "c=" + half);
}

TEST_F(SliceTableTest, SliceThatTheProcessHasNoMemoryForLosesTheFile) {
  Make(libmsit::OverflowMode::kDropNewest, seconds(0), ~uint64_t{0});
  static constexpr std::byte kByte{};
  Slice slice;
  // The size exceeds the address space, so no byte of it is read.
  slice.bytes = {&kByte, size_t{1} << 63};
  for (const std::string_view file : {"first", "second"}) {
    slice.file = file;
    if (file == "second") Put(file, {}, "1", false);
    table_->Put(slice);
    EXPECT_FALSE(table_->is_short_of_memory());
    // This slice would close the gap.
    Put(file, {}, "3", true);
  }
  EXPECT_EQ(Next(), "");
  EXPECT_FALSE(table_->TakeOpen().has_value());
  EXPECT_EQ(table_->counts().lost_file_count, 2U);
  EXPECT_THAT(
      lost_,
      ElementsAre(HasSubstr("first: the process does not have enough memory"),
                  HasSubstr("second: the process does not have")));
}

TEST_F(SliceTableTest, FileOfABrokenSliceIsLost) {
  Make();
  const std::string most(kMemoryBytes * 3 / 4, 'x');
  Put("a", {}, most, false);
  table_->Lose("a", "it is broken");
  table_->Lose("a", "it is broken");
  table_->Lose("b", "it is broken");
  table_->Lose("", "it is broken");
  table_->Lose("", "it is broken");
  for (const std::string_view file : {"a", "b"}) Put(file, {}, "1", true);
  EXPECT_EQ(Next(), "");
  // The memory of the lost files is free again.
  Put("c", {}, most, true);
  EXPECT_EQ(Next(), "c=" + most);
  const SliceTable::Counts counts = table_->counts();
  EXPECT_EQ(counts.lost_file_count, 2U);
  EXPECT_EQ(counts.nameless_slice_count, 2U);
  EXPECT_EQ(counts.slice_count, 9U);
  EXPECT_THAT(lost_, ElementsAre("a: it is broken", "b: it is broken",
                                 ": it is broken", ": it is broken"));
}

TEST_F(SliceTableTest, FilesThatBeginAfterTheEndAreLost) {
  Make();
  Put("a", {}, "1", false);
  EXPECT_TRUE(table_->TakeOpen().has_value());
  EXPECT_FALSE(table_->TakeOpen().has_value());
  // The consumer of the file was already informed that it is incomplete.
  Put("a", {}, "2", true);
  EXPECT_EQ(table_->counts().lost_file_count, 0U);
  for (int i = 0; i < 3; ++i) Put("b", {}, "1", false);
  Put("c", {}, "1", true);
  EXPECT_EQ(table_->counts().lost_file_count, 2U);
  EXPECT_THAT(lost_, ElementsAre(HasSubstr("b: it arrived after the end"),
                                 HasSubstr("c: it arrived after the end")));
  EXPECT_EQ(Next(), "");
}

TEST_F(SliceTableTest, SliceWaitsForRoom) {
  Make(libmsit::OverflowMode::kBlock, seconds(60));
  const std::string half(kMemoryBytes / 2, 'x');
  Put("a", {}, half, true);
  std::thread reader([this] {
    const auto file = table_->Take(SliceTable::Clock::now() + seconds(60));
    ASSERT_TRUE(file.has_value());
    table_->Release(file->charged_bytes);
  });
  Put("b", {}, half, true);
  reader.join();
  EXPECT_EQ(Next(), "b=" + half);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(SliceTableTest, SecondSliceDoesNotWaitAgainInVain) {
  Make(libmsit::OverflowMode::kBlock, milliseconds(20));
  const std::string most(kMemoryBytes * 3 / 4, 'x');
  Put("a", {}, most, false);
  const auto begin = SliceTable::Clock::now();
  for (int i = 0; i < 1000; ++i) Put(std::to_string(i), {}, most, true);
  EXPECT_LT(SliceTable::Clock::now() - begin, milliseconds(2000));
  EXPECT_EQ(table_->counts().lost_file_count, 1000U);
}

TEST_F(SliceTableTest, ManySmallSlicesAreCountedAsWhatTheyTake) {
  Make();
  for (int i = 0; i < 10'000; ++i) Put("a", {}, "1", false);
  EXPECT_EQ(table_->counts().lost_file_count, 1U);
}

TEST_F(SliceTableTest, OpenFilesComeAtTheEndWithWhatThereIs) {
  Make();
  Put("dump/a.1", {}, "1", false);
  Put("dump/a.2", 1, "2", false);
  Put("dump/b.1", {}, "1", false);
  EXPECT_THAT(table_->OpenFiles("dump/a."),
              ElementsAre("dump/a.1", "dump/a.2"));
  std::vector<std::string> texts;
  while (const auto file = table_->TakeOpen()) {
    EXPECT_FALSE(file->is_whole);
    texts.push_back(TextOf(*file));
  }
  EXPECT_THAT(texts, ElementsAre("dump/a.1=1", "dump/a.2=", "dump/b.1=1"));
  Put("c", {}, "1", true);
  EXPECT_EQ(Next(), "");
}

TEST_F(SliceTableTest, ThreadsMayBringSlicesOfDifferentFiles) {
  Make(libmsit::OverflowMode::kBlock, seconds(60));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string name = std::to_string(t) + "." + std::to_string(i);
        Put(name, 3, "def", true);
        Put(name, 0, "abc", false);
      }
    });
  }
  int count = 0;
  while (count < 800) {
    const auto file = table_->Take(SliceTable::Clock::now() + seconds(60));
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(TextOf(*file), file->path + "=abcdef");
    table_->Release(file->charged_bytes);
    ++count;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(table_->is_short_of_memory());
}

}  // namespace
}  // namespace msitd::acl
