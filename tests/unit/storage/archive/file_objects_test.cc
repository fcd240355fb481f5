// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/file_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using msitd::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The parameter selects the optional features of a file system.
class FileObjectsTest : public ::testing::TestWithParam<FileAbilities> {
 protected:
  void SetUp() override {
    auto store = OpenFileObjects(dir_ / "", "sub/folder", GetParam());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  TempDir dir_;
  std::unique_ptr<ObjectStore> store_;
};

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST_P(FileObjectsTest, ObjectsAreForTheirOwnerOnly) {
  const mode_t umask = ::umask(0007);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0770), 0);
  EXPECT_TRUE(store_->Put("run/a", Bytes("a")).ok());
  EXPECT_TRUE(store_->PutIfAbsent("run/b", Bytes("b")).ok());
  EXPECT_TRUE(store_->Put("run/a", Bytes("c")).ok());
  ::umask(umask);
  for (const char* folder : {"sub", "sub/folder", "sub/folder/run"}) {
    EXPECT_EQ(ModeOf(dir_ / folder), 0700u);
  }
  EXPECT_EQ(ModeOf(dir_ / "sub/folder/run/a"), 0600u);
  EXPECT_EQ(ModeOf(dir_ / "sub/folder/run/b"), 0600u);
}

TEST_P(FileObjectsTest, ADirectoryWithTheSetgidBitIsSharedWithItsGroup) {
  const mode_t umask = ::umask(0007);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 02750), 0);
  EXPECT_TRUE(store_->Put("run/a", Bytes("a")).ok());
  EXPECT_TRUE(store_->PutIfAbsent("run/b", Bytes("b")).ok());
  ::umask(umask);
  for (const char* folder : {"sub", "sub/folder", "sub/folder/run"}) {
    EXPECT_EQ(ModeOf(dir_ / folder), 02750u);
  }
  EXPECT_EQ(ModeOf(dir_ / "sub/folder/run/a"), 0640u);
  EXPECT_EQ(ModeOf(dir_ / "sub/folder/run/b"), 0640u);
}

TEST_P(FileObjectsTest, KeepsObjects) {
  EXPECT_TRUE(absl::IsNotFound(store_->Stat("run/a").status()));
  ASSERT_TRUE(store_->Put("run/a", Bytes("hello")).ok());
  EXPECT_EQ(store_->Stat("run/a")->bytes, 5U);
  EXPECT_EQ(*store_->Get("run/a", 5), "hello");
  EXPECT_TRUE(absl::IsDataLoss(store_->Get("run/a", 4).status()));
  std::string part(3, ' ');
  ASSERT_TRUE(
      store_->Read("run/a", 1, std::as_writable_bytes(std::span(part))).ok());
  EXPECT_EQ(part, "ell");
  EXPECT_TRUE(absl::IsDataLoss(
      store_->Read("run/a", 3, std::as_writable_bytes(std::span(part)))));
  ASSERT_TRUE(store_->Put("run/a", Bytes("other")).ok());
  EXPECT_EQ(*store_->Get("run/a", 5), "other");
  EXPECT_TRUE(absl::IsAlreadyExists(store_->PutIfAbsent("run/a", Bytes("x"))));
  EXPECT_EQ(*store_->Get("run/a", 5), "other");
  ASSERT_TRUE(store_->PutIfAbsent("run/b", Bytes("")).ok());
  EXPECT_EQ(*store_->Get("run/b", 0), "");
  const auto top = store_->List("");
  ASSERT_TRUE(top.ok());
  EXPECT_THAT(top->folders, ElementsAre("run"));
  EXPECT_THAT(top->objects, IsEmpty());
  // The parent can be listed as well, repeatedly.
  const auto above = *OpenFileObjects(dir_ / "", "");
  EXPECT_THAT(above->List("")->folders, ElementsAre("sub"));
  EXPECT_THAT(above->List("")->folders, ElementsAre("sub"));
  EXPECT_THAT(store_->List("run")->objects, ElementsAre("a", "b"));
  EXPECT_THAT(store_->List("none")->objects, IsEmpty());
  EXPECT_TRUE(store_->Delete("run/a").ok());
  EXPECT_TRUE(store_->Delete("run/a").ok());
  EXPECT_TRUE(store_->Delete("none/a").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get("run/a", 5).status()));
}

TEST_P(FileObjectsTest, FollowsNoLink) {
  std::filesystem::create_directory(dir_ / "secret");
  std::ofstream(dir_ / "secret/manifest") << "hunter2";
  ASSERT_TRUE(store_->Put("run/a", Bytes("hello")).ok());
  std::filesystem::create_directory_symlink(dir_ / "secret",
                                            dir_ / "sub/folder/linked");
  std::filesystem::create_symlink(dir_ / "secret/manifest",
                                  dir_ / "sub/folder/run/manifest");
  for (const char* const key : {"linked/manifest", "run/manifest"}) {
    EXPECT_EQ(store_->Get(key, 100).status().code(),
              absl::StatusCode::kPermissionDenied)
        << key;
  }
  EXPECT_FALSE(store_->Put("linked/new", Bytes("x")).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "secret/new"));
  // A link with the name of an object is replaced. The file to which it points
  // is not written.
  ASSERT_TRUE(store_->Put("run/manifest", Bytes("mine")).ok());
  EXPECT_EQ(*store_->Get("run/manifest", 100), "mine");
  std::ifstream in(dir_ / "secret/manifest");
  std::string text;
  in >> text;
  EXPECT_EQ(text, "hunter2");
  EXPECT_THAT(store_->List("")->folders, ElementsAre("run"));
}

TEST_P(FileObjectsTest, OneOfManyMakesIt) {
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string text(1000, static_cast<char>('a' + i));
      made += store_->PutIfAbsent("run/manifest", Bytes(text)).ok() ? 1 : 0;
      EXPECT_TRUE(store_->Put("run/same", Bytes("same")).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(store_->Stat("run/manifest")->bytes, 1000U);
  EXPECT_EQ(*store_->Get("run/same", 4), "same");
  // No temporary files are left.
  EXPECT_THAT(store_->List("run")->objects, ElementsAre("manifest", "same"));
  size_t names = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(dir_ / "sub/folder/run")) {
    (void)entry;
    ++names;
  }
  EXPECT_EQ(names, 2U);
  EXPECT_TRUE(*HasExclusiveWrites(*store_));
  EXPECT_THAT(store_->List("")->objects, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    FileSystems, FileObjectsTest,
    ::testing::Values(FileAbilities{}, FileAbilities{.makes_unnamed = false},
                      FileAbilities{.makes_unnamed = false, .links = false},
                      FileAbilities{.makes_unnamed = false,
                                    .links = false,
                                    .renames_exclusively = false}));

}  // namespace
}  // namespace msitd::storage
