// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "protos/os/aligned_buffer.h"
#include "protos/os/unique_fd.h"
#include "storage/env/directory_lock.h"
#include "storage/env/env.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using msitd::testing::TempDir;
using ::testing::UnorderedElementsAre;

AlignedBuffer Filled(uint64_t bytes, int value) {
  AlignedBuffer buffer(bytes);
  std::memset(buffer.data(), value, buffer.size());
  return buffer;
}

// The results are the same with and without O_DIRECT, on disk and in memory.
class PosixEnvTest : public ::testing::TestWithParam<std::pair<bool, bool>> {
 protected:
  TempDir dir_ = GetParam().first ? TempDir() : TempDir::InMemory();
  const bool direct_ = GetParam().second;
  Env& env_ = Env::Posix();
};

TEST_P(PosixEnvTest, PiecesAreWrittenOneBehindTheOther) {
  auto file = env_.Create(dir_ / "file", direct_);
  ASSERT_TRUE(file.ok()) << file.status();
  const AlignedBuffer a = Filled(4096, 1);
  const AlignedBuffer b = Filled(8192, 2);
  const std::array<std::span<const std::byte>, 3> pieces = {
      a.span(), {}, b.span()};
  ASSERT_TRUE((*file)->Write(4096, pieces).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(*(*file)->Size(), 4096u * 4);

  auto reader = env_.OpenForRead(dir_ / "file", direct_);
  ASSERT_TRUE(reader.ok());
  AlignedBuffer out(5 * 4096);
  EXPECT_EQ(*(*reader)->Read(0, out.span()), 4096u * 4);
  EXPECT_EQ(out.data()[0], std::byte{0});
  EXPECT_EQ(out.data()[4096], std::byte{1});
  EXPECT_EQ(out.data()[8192], std::byte{2});
  EXPECT_EQ(out.data()[4 * 4096 - 1], std::byte{2});
  EXPECT_EQ(*(*reader)->Read(1 << 20, out.span()), 0u);
}

TEST_P(PosixEnvTest, ManyPiecesAreOneWrite) {
  auto file = env_.Create(dir_ / "file", direct_);
  ASSERT_TRUE(file.ok());
  std::vector<AlignedBuffer> buffers;
  std::vector<std::span<const std::byte>> pieces;
  for (int i = 0; i < 200; ++i) {
    buffers.push_back(Filled(4096, i));
    pieces.push_back(buffers.back().span());
  }
  ASSERT_TRUE((*file)->Write(0, pieces).ok());
  AlignedBuffer out(200 * 4096);
  ASSERT_EQ(*(*file)->Read(0, out.span()), out.size());
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(out.data()[i * 4096 + 4095], std::byte(i));
  }
}

TEST_P(PosixEnvTest, PreallocationKeepsTheSizeAndTruncationCuts) {
  auto file = env_.Create(dir_ / "file", direct_);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Preallocate(1 << 20).ok());
  EXPECT_EQ(*(*file)->Size(), 0u);
  const AlignedBuffer a = Filled(8192, 3);
  const std::array<std::span<const std::byte>, 1> pieces = {a.span()};
  ASSERT_TRUE((*file)->Write(0, pieces).ok());
  ASSERT_TRUE((*file)->Truncate(4096).ok());
  EXPECT_EQ(*(*file)->Size(), 4096u);
}

TEST_P(PosixEnvTest, FileThatEndsBetweenPagesIsReadToItsEnd) {
  auto file = env_.Create(dir_ / "file", direct_);
  ASSERT_TRUE(file.ok());
  const AlignedBuffer a = Filled(8192, 4);
  const std::array<std::span<const std::byte>, 1> pieces = {a.span()};
  ASSERT_TRUE((*file)->Write(0, pieces).ok());
  ASSERT_TRUE((*file)->Truncate(5000).ok());
  AlignedBuffer out(16384);
  EXPECT_EQ(*(*file)->Read(0, out.span()), 5000u);
}

TEST_P(PosixEnvTest, HoleReadsAsZerosAndGivesItsRoomBack) {
  auto file = env_.Create(dir_ / "file", direct_);
  ASSERT_TRUE(file.ok());
  const AlignedBuffer a = Filled(1 << 20, 5);
  const std::array<std::span<const std::byte>, 1> pieces = {a.span()};
  ASSERT_TRUE((*file)->Write(0, pieces).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  const uint64_t before = *(*file)->AllocatedBytes();
  EXPECT_GE(before, uint64_t{1} << 20);
  const absl::Status punched = (*file)->PunchHole(4096, (1 << 20) - 8192);
  if (absl::IsUnimplemented(punched)) GTEST_SKIP() << "no holes here";
  ASSERT_TRUE(punched.ok()) << punched;
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(*(*file)->Size(), uint64_t{1} << 20);
  EXPECT_LE(*(*file)->AllocatedBytes(), before - (1 << 20) + 65536);
  AlignedBuffer out(1 << 20);
  ASSERT_EQ(*(*file)->Read(0, out.span()), out.size());
  EXPECT_EQ(out.data()[4095], std::byte{5});
  EXPECT_EQ(out.data()[4096], std::byte{0});
  EXPECT_EQ(out.data()[(1 << 20) - 4097], std::byte{0});
  EXPECT_EQ(out.data()[(1 << 20) - 4096], std::byte{5});
}

// The kernel writes as much as the limit permits, and then fails.
TEST_P(PosixEnvTest, ShortWriteIsFollowedUpAndTheRefusalReported) {
  auto file = env_.Create(dir_ / "file", direct_);
  ASSERT_TRUE(file.ok());
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 12288;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const AlignedBuffer a = Filled(8192, 6);
  const std::array<std::span<const std::byte>, 2> pieces = {a.span(), a.span()};
  const absl::Status status = (*file)->Write(0, pieces);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(*(*file)->Size(), 12288u);
  // The error is not permanent: with enough space, the same call succeeds.
  ASSERT_TRUE((*file)->Write(0, pieces).ok());
  EXPECT_EQ(*(*file)->Size(), 16384u);
}

TEST(PosixEnvErrorTest, FullDiskIsToldApart) {
  auto file = Env::Posix().OpenForWrite("/dev/full", /*direct=*/false);
  ASSERT_TRUE(file.ok()) << file.status();
  const AlignedBuffer a = Filled(4096, 7);
  const std::array<std::span<const std::byte>, 1> pieces = {a.span()};
  EXPECT_EQ((*file)->Write(0, pieces).code(),
            absl::StatusCode::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(
    All, PosixEnvTest,
    ::testing::Values(std::pair(true, true), std::pair(true, false),
                      std::pair(false, true), std::pair(false, false)),
    [](const auto& info) {
      return std::string(info.param.first ? "Disk" : "Memory") +
             (info.param.second ? "Direct" : "Buffered");
    });

TEST(PosixEnvDirectoryTest, FilesAreMadeListedAndRemoved) {
  Env& env = Env::Posix();
  const TempDir dir;
  const std::string sub = dir / "sub";
  ASSERT_TRUE(env.CreateDirectory(sub).ok());
  ASSERT_TRUE(env.CreateDirectory(sub).ok());
  ASSERT_TRUE(env.CreateDirectory(sub + "/trailing/").ok());
  ASSERT_TRUE(env.Create(sub + "/a", false).ok());
  EXPECT_EQ(env.Create(sub + "/a", false).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(env.CreateDirectory(sub + "/a").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(*env.List(sub), UnorderedElementsAre("a", "trailing"));
  ASSERT_TRUE(env.Remove(sub + "/a").ok());
  EXPECT_EQ(env.Remove(sub + "/a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(env.OpenForRead(sub + "/a", true).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(env.List(dir / "none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_GT(*env.FreeBytes(sub), 0u);
  EXPECT_GT(env.NowNs(), int64_t{1'600'000'000'000'000'000});
}

// The process that created the directory may have ended before its name was
// durable.
TEST(PosixEnvDirectoryTest, DirectoryThatIsThereHasItsNameMadeDurable) {
  const TempDir dir;
  Env& env = Env::Posix();
  ASSERT_TRUE(env.CreateDirectory(dir / "sub").ok());
  const UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_TRUE(watch.valid());
  ASSERT_GE(
      ::inotify_add_watch(watch.get(), dir.path().c_str(), IN_OPEN | IN_CREATE),
      0);
  ASSERT_TRUE(env.CreateDirectory(dir / "sub").ok());
  alignas(inotify_event) std::array<char, 4096> events;
  // The parent was opened, as for a sync, and nothing was created in it.
  const ssize_t bytes = ::read(watch.get(), events.data(), events.size());
  ASSERT_GE(bytes, static_cast<ssize_t>(sizeof(inotify_event)));
  const auto* event = reinterpret_cast<const inotify_event*>(events.data());
  EXPECT_EQ(event->mask & ~IN_ISDIR, static_cast<uint32_t>(IN_OPEN));
  EXPECT_EQ(event->len, 0u);
}

TEST(PosixEnvDirectoryTest, WhatIsFleetingIsNotMadeDurable) {
  const TempDir dir;
  Env& env = Env::Fleeting();
  EXPECT_FALSE(env.is_durable());
  EXPECT_TRUE(Env::Posix().is_durable());
  ASSERT_TRUE(env.CreateDirectory(dir / "sub").ok());
  const UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_TRUE(watch.valid());
  ASSERT_GE(::inotify_add_watch(watch.get(), dir.path().c_str(), IN_OPEN), 0);
  ASSERT_TRUE(env.CreateDirectory(dir / "sub").ok());
  ASSERT_TRUE(env.SyncDirectory(dir.path()).ok());
  std::array<char, 4096> events;
  EXPECT_LT(::read(watch.get(), events.data(), events.size()), 0);
}

TEST(DirectoryLockTest, OneWriterOrManyReaders) {
  using Mode = DirectoryLock::Mode;
  const TempDir dir;
  EXPECT_EQ(DirectoryLock::Acquire(dir.path(), Mode::kShared).status().code(),
            absl::StatusCode::kNotFound);
  {
    const auto writer = DirectoryLock::Acquire(dir.path(), Mode::kExclusive);
    ASSERT_TRUE(writer.ok());
    for (const Mode mode : {Mode::kExclusive, Mode::kShared}) {
      EXPECT_EQ(DirectoryLock::Acquire(dir.path(), mode).status().code(),
                absl::StatusCode::kFailedPrecondition);
    }
  }
  const auto reader = DirectoryLock::Acquire(dir.path(), Mode::kShared);
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(DirectoryLock::Acquire(dir.path(), Mode::kShared).ok());
  EXPECT_FALSE(DirectoryLock::Acquire(dir.path(), Mode::kExclusive).ok());
}

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(DirectoryLockTest, TheDaemonTakesAccessAwayFromGroupAndOthers) {
  using Mode = DirectoryLock::Mode;
  const TempDir dir;
  const std::string lock = dir / "LOCK";
  ASSERT_TRUE(DirectoryLock::Acquire(dir.path(), Mode::kExclusive).ok());
  EXPECT_EQ(ModeOf(dir.path()), 0700u);
  EXPECT_EQ(ModeOf(lock), 0600u);
  // The permissions in a store of an older version.
  ASSERT_EQ(::chmod(dir.path().c_str(), 0750), 0);
  ASSERT_EQ(::chmod(lock.c_str(), 0640), 0);
  ASSERT_TRUE(DirectoryLock::Acquire(dir.path(), Mode::kShared).ok());
  EXPECT_EQ(ModeOf(dir.path()), 0750u);
  ASSERT_TRUE(DirectoryLock::Acquire(dir.path(), Mode::kExclusive).ok());
  EXPECT_EQ(ModeOf(dir.path()), 0700u);
  EXPECT_EQ(ModeOf(lock), 0600u);
}

TEST(DirectoryLockTest, ADirectoryWithForeignFilesKeepsItsPermissions) {
  using Mode = DirectoryLock::Mode;
  const TempDir dir;
  for (const char* name : {"index", "segments", "sub"}) {
    ASSERT_EQ(::mkdir((dir / name).c_str(), 0755), 0);
    ASSERT_EQ(::chmod((dir / name).c_str(), 0755), 0);
  }
  ASSERT_EQ(::chmod(dir.path().c_str(), 01777), 0);
  ASSERT_TRUE(DirectoryLock::Acquire(dir.path(), Mode::kExclusive).ok());
  EXPECT_EQ(ModeOf(dir.path()), 0777u);
  EXPECT_EQ(ModeOf(dir / "sub"), 0755u);
  // Other users cannot access tensors there.
  EXPECT_EQ(ModeOf(dir / "index"), 0700u);
  EXPECT_EQ(ModeOf(dir / "segments"), 0700u);
  EXPECT_EQ(ModeOf(dir / "LOCK"), 0600u);
  ASSERT_EQ(::rmdir((dir / "sub").c_str()), 0);
  ASSERT_TRUE(DirectoryLock::Acquire(dir.path(), Mode::kExclusive).ok());
  EXPECT_EQ(ModeOf(dir.path()), 0700u);
}

TEST(DirectoryLockTest, NothingThatALinkLeadsToLosesPermissions) {
  using Mode = DirectoryLock::Mode;
  const TempDir dir;
  const TempDir other;
  ASSERT_EQ(::chmod(other.path().c_str(), 0755), 0);
  ASSERT_EQ(::symlink(other.path().c_str(), (dir / "segments").c_str()), 0);
  ASSERT_TRUE(DirectoryLock::Acquire(dir.path(), Mode::kExclusive).ok());
  EXPECT_EQ(ModeOf(other.path()), 0755u);
  // Another user may have created a link at the path of the lock.
  ASSERT_EQ(::unlink((dir / "LOCK").c_str()), 0);
  ASSERT_EQ(::symlink((other / "file").c_str(), (dir / "LOCK").c_str()), 0);
  EXPECT_FALSE(DirectoryLock::Acquire(dir.path(), Mode::kExclusive).ok());
  EXPECT_NE(::access((other / "file").c_str(), F_OK), 0);
}

TEST(PosixEnvTest, FilesAndDirectoriesAreForTheirOwnerOnly) {
  const TempDir dir;
  Env& env = Env::Posix();
  ASSERT_TRUE(env.CreateDirectory(dir / "sub").ok());
  ASSERT_TRUE(env.Create(dir / "file", false).ok());
  EXPECT_EQ(ModeOf(dir / "sub"), 0700u);
  EXPECT_EQ(ModeOf(dir / "file"), 0600u);
}

}  // namespace
}  // namespace msitd::storage
