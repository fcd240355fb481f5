// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/folder_events.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace msitd::watch {
namespace {

namespace fs = std::filesystem;
using Kind = FolderEvent::Kind;

class InotifyEventsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = InotifyEvents::Open(dir_.path());
    ASSERT_TRUE(opened.ok());
    events_ = *std::move(opened);
    ASSERT_TRUE(events_->Add("").ok());
  }
  std::string Path(const std::string& name) { return dir_.path() + "/" + name; }
  // Returns the events so far.
  std::vector<FolderEvent> Take() {
    std::vector<FolderEvent> out;
    EXPECT_TRUE(events_->Wait(std::chrono::milliseconds(0), &out).ok());
    return out;
  }

  testing::TempDir dir_;
  std::unique_ptr<InotifyEvents> events_;
};

TEST_F(InotifyEventsTest, TellsOfFilesAndFolders) {
  std::ofstream(Path("a")) << "x";
  fs::create_directory(Path("d"));
  fs::rename(Path("a"), Path("b"));
  fs::remove(Path("b"));
  std::vector<Kind> kinds;
  for (const FolderEvent& event : Take()) kinds.push_back(event.kind);
  const std::vector<Kind> expected = {Kind::kWritten, Kind::kClosed,
                                      Kind::kFolder,  Kind::kGone,
                                      Kind::kClosed,  Kind::kGone};
  EXPECT_EQ(kinds, expected);
}

TEST_F(InotifyEventsTest, FolderOfTheSameNameIsAnotherOne) {
  fs::create_directory(Path("d"));
  ASSERT_TRUE(events_->Add("d").ok());
  fs::remove(Path("d"));
  fs::create_directory(Path("d"));
  const auto events = Take();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1].kind, Kind::kUnwatched);
  EXPECT_EQ(events[1].folder, "d");
  EXPECT_EQ(events[2].kind, Kind::kFolderGone);
  EXPECT_EQ(events[3].kind, Kind::kFolder);
  ASSERT_TRUE(events_->Add("d").ok());
  std::ofstream(Path("d/x")) << "x";
  EXPECT_EQ(Take().front().folder, "d");
}

TEST_F(InotifyEventsTest, MovedFolderHasItsNewName) {
  fs::create_directory(Path("d"));
  ASSERT_TRUE(events_->Add("d").ok());
  fs::rename(Path("d"), Path("e"));
  Take();
  ASSERT_TRUE(events_->Add("e").ok());
  std::ofstream(Path("e/x")) << "x";
  EXPECT_EQ(Take().front().folder, "e");
}

TEST_F(InotifyEventsTest, RemoveSparesFoldersOfSimilarNames) {
  for (const char* name : {"d", "d/x", "d-2"}) {
    fs::create_directory(Path(name));
    ASSERT_TRUE(events_->Add(name).ok());
  }
  events_->Remove("d");
  Take();
  std::ofstream(Path("d/x/f")) << "x";
  std::ofstream(Path("d-2/f")) << "x";
  const auto events = Take();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].folder, "d-2");
}

TEST_F(InotifyEventsTest, FolderThatIsNotThereIsNotWatched) {
  EXPECT_TRUE(absl::IsNotFound(events_->Add("none")));
}

}  // namespace
}  // namespace msitd::watch
