// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/source_keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/foreign/watch/disk_prober.h"
#include "client/foreign/write/writer/npy_header.h"
#include "protos/os/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace msitd::watch {
namespace {

namespace fs = std::filesystem;
using Options = SourceKeeper::Options;

class SourceKeeperTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return dir_.path() + "/" + name; }
  bool Exists(const std::string& name) { return fs::exists(Path(name)); }

  void WriteArray(const std::string& name, const std::vector<float>& elements) {
    std::ofstream file(Path(name), std::ios::binary | std::ios::trunc);
    file << write::MakeNpyHeader(DType::kFloat32,
                                 {static_cast<int64_t>(elements.size())})
                .bytes;
    file.write(reinterpret_cast<const char*>(elements.data()),
               static_cast<std::streamsize>(elements.size() * sizeof(float)));
  }
  FileStamp StampOf(const std::string& name) {
    FileStamp stamp;
    EXPECT_TRUE(ReadStamp(Path(name), &stamp)) << name;
    return stamp;
  }
  void Take(SourceKeeper& keeper, const std::string& name) {
    keeper.Take(name, StampOf(name));
  }
  // Advances the time so that failures are retried.
  void Work(SourceKeeper& keeper) {
    now_ += SourceKeeper::kRetryInterval;
    keeper.Work(now_, /*is_end=*/false);
  }
  // Changes the modification time of the file, regardless of the resolution of
  // the clock.
  void Touch(const std::string& name) {
    fs::last_write_time(
        Path(name), fs::last_write_time(Path(name)) + std::chrono::seconds(1));
  }

  testing::TempDir dir_ = testing::TempDir::InMemory();
  std::chrono::steady_clock::time_point now_;
  SourceKeeper both_{Options{.writes_min_max = true, .deletes = true},
                     dir_.path()};
  SourceKeeper deletes_{Options{.deletes = true}, dir_.path()};
};

TEST_F(SourceKeeperTest, MinMaxFilesStandWhereManyDumpsOfSomeFoldersWere) {
  std::vector<std::string> names;
  for (const char* folder : {"", "a/", "a/b/", "c/"}) {
    fs::create_directories(Path(folder));
    for (int i = 0; i < 50; ++i) {
      names.push_back(fmt::format("{}x{}.npy", folder, i));
      WriteArray(names.back(), {1, 2});
      Take(both_, names.back());
    }
  }
  both_.Work(now_, /*is_end=*/true);
  EXPECT_TRUE(both_.failure().ok()) << both_.failure();
  EXPECT_EQ(both_.deleted_count(), 200);
  EXPECT_EQ(both_.min_max_count(), 200);
  EXPECT_EQ(both_.TakeMade().size(), 200u);
  for (const std::string& name : names) {
    EXPECT_FALSE(Exists(name));
    EXPECT_TRUE(Exists(name.substr(0, name.size() - 4) + "_min_max.npy"));
  }
}

TEST_F(SourceKeeperTest, FileThatChangedStaysUntilTheRunHasItAnew) {
  WriteArray("x.npy", {1, 2});
  Take(both_, "x.npy");
  Touch("x.npy");
  Work(both_);
  EXPECT_TRUE(Exists("x.npy"));
  EXPECT_FALSE(Exists("x_min_max.npy"));
  EXPECT_EQ(both_.kept_count(), 1);
  Take(both_, "x.npy");
  Work(both_);
  EXPECT_FALSE(Exists("x.npy"));
  EXPECT_EQ(both_.kept_count(), 0);
}

TEST_F(SourceKeeperTest, FileThatComesAnewWhileItWaitsIsTheNewOne) {
  WriteArray("x.npy", {1, 2});
  Take(deletes_, "x.npy");
  Touch("x.npy");
  Take(deletes_, "x.npy");
  EXPECT_EQ(deletes_.waiting_count(), 1);
  Work(deletes_);
  EXPECT_FALSE(Exists("x.npy"));
  EXPECT_EQ(deletes_.kept_count(), 0);
}

TEST_F(SourceKeeperTest, FileOfTheSameNameIsAnotherOne) {
  WriteArray("x.npy", {1, 2});
  Take(deletes_, "x.npy");
  const auto time = fs::last_write_time(Path("x.npy"));
  WriteArray("y.npy", {3, 4});
  fs::rename(Path("y.npy"), Path("x.npy"));
  fs::last_write_time(Path("x.npy"), time);
  Work(deletes_);
  EXPECT_TRUE(Exists("x.npy"));
}

TEST_F(SourceKeeperTest, FileThatAProgramHasOpenToWriteWaits) {
  WriteArray("x.npy", {1, 2});
  WriteArray("y.npy", {1, 2});
  Take(both_, "x.npy");
  Take(both_, "y.npy");
  UniqueFd writer(::open(Path("x.npy").c_str(), O_RDWR | O_CLOEXEC));
  Work(both_);
  EXPECT_TRUE(Exists("x.npy"));
  EXPECT_FALSE(Exists("y.npy"));
  EXPECT_FALSE(both_.failure().ok());
  EXPECT_FALSE(both_.is_due(now_));
  // A mapped file can still be written after it is closed.
  void* const mapped =
      ::mmap(nullptr, 8, PROT_READ | PROT_WRITE, MAP_SHARED, writer.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  writer.reset();
  Work(both_);
  EXPECT_TRUE(Exists("x.npy"));
  ::munmap(mapped, 8);
  Work(both_);
  EXPECT_FALSE(Exists("x.npy"));
  EXPECT_TRUE(both_.failure().ok());
  EXPECT_EQ(both_.waiting_count(), 0);
}

TEST_F(SourceKeeperTest, DumpWaitsForRoomAndHoldsUpNoOther) {
  WriteArray("x.npy", {1, 2});
  WriteArray("y.npy", {1, 2});
  fs::create_directory(Path("x_min_max.npy"));
  Take(both_, "x.npy");
  Take(both_, "y.npy");
  Work(both_);
  EXPECT_TRUE(Exists("x.npy"));
  EXPECT_FALSE(Exists("y.npy"));
  both_.Work(now_, /*is_end=*/true);
  EXPECT_EQ(both_.waiting_count(), 1);
  fs::remove(Path("x_min_max.npy"));
  Work(both_);
  EXPECT_FALSE(Exists("x.npy"));
  EXPECT_TRUE(fs::is_regular_file(Path("x_min_max.npy")));
}

TEST_F(SourceKeeperTest, FileWithoutAMinMaxFormStaysAndIsCountedOnce) {
  WriteArray("empty.npy", {});
  std::ofstream(Path("x.npz")) << "x";
  for (int i = 0; i < 2; ++i) {
    Take(both_, "empty.npy");
    Take(both_, "x.npz");
    Work(both_);
  }
  EXPECT_TRUE(Exists("empty.npy"));
  EXPECT_TRUE(Exists("x.npz"));
  EXPECT_EQ(both_.kept_count(), 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), {}), 2);
}

TEST_F(SourceKeeperTest, WithoutDeletionAMinMaxFileIsWrittenOnce) {
  SourceKeeper keeper(Options{.writes_min_max = true}, dir_.path());
  WriteArray("x.npy", {1, 2});
  Take(keeper, "x.npy");
  Work(keeper);
  Touch("x_min_max.npy");
  for (int i = 0; i < 2; ++i) {
    Take(keeper, "x.npy");
    Work(keeper);
  }
  EXPECT_EQ(keeper.min_max_count(), 1);
  EXPECT_TRUE(Exists("x.npy"));
}

TEST_F(SourceKeeperTest, DeletionTrustsNoMinMaxFileOfOthers) {
  WriteArray("x.npy", {1, 2});
  std::ofstream(Path("x_min_max.npy")) << "something";
  Take(both_, "x.npy");
  Work(both_);
  EXPECT_EQ(both_.min_max_count(), 1);
  EXPECT_EQ(write::MakeNpyHeader(DType::kFloat32, {2}).bytes.size() + 8,
            fs::file_size(Path("x_min_max.npy")));
}

TEST_F(SourceKeeperTest, FileOfAKilledProcessIsInNobodysWay) {
  std::ofstream(Path(fmt::format(".msitctl-{}-0.partial", ::getpid()))) << "x";
  WriteArray("x.npy", {1, 2});
  Take(both_, "x.npy");
  Work(both_);
  EXPECT_FALSE(Exists("x.npy"));
}

TEST_F(SourceKeeperTest, NothingIsDoneOnceItHasGivenUp) {
  WriteArray("x.npy", {1, 2});
  WriteArray("y.npy", {1, 2});
  Take(both_, "x.npy");
  both_.GiveUp();
  Take(both_, "y.npy");
  both_.Work(now_, /*is_end=*/true);
  EXPECT_TRUE(Exists("x.npy"));
  EXPECT_TRUE(Exists("y.npy"));
  EXPECT_EQ(both_.kept_count(), 2);
  EXPECT_FALSE(both_.is_due(now_));
}

}  // namespace
}  // namespace msitd::watch
