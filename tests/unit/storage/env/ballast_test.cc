// SPDX-License-Identifier: Apache-2.0
#include "storage/env/ballast.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/support/fault_env.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using ::msitd::testing::FaultEnv;
using ::msitd::testing::TempDir;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBytes = 16 * kMiB;

// The directory is in memory, where no other process uses much space at the
// same time.
class BallastTest : public ::testing::Test {
 protected:
  uint64_t FreeBytes() { return *env_.FreeBytes(dir_.path()); }
  uint64_t Held() {
    const auto file = env_.OpenForRead(dir_ / "ballast", false);
    return file.ok() ? *(*file)->AllocatedBytes() : 0;
  }

  TempDir dir_ = TempDir::InMemory();
  FaultEnv env_{Env::Posix()};
  Ballast ballast_{env_, dir_.path(), kBytes};
};

TEST_F(BallastTest, TakesRealBlocksAndGivesThemBack) {
  EXPECT_FALSE(ballast_.is_whole());
  EXPECT_FALSE(ballast_.Release());
  ASSERT_TRUE(ballast_.Take(kMiB).ok());
  EXPECT_TRUE(ballast_.is_whole());
  EXPECT_GE(Held(), kBytes);
  // A new process finds the ballast.
  Ballast next(env_, dir_.path(), kBytes);
  env_.LimitFreeBytes(0);
  EXPECT_TRUE(next.Take(kMiB).ok());
  EXPECT_TRUE(next.is_whole());
  EXPECT_TRUE(next.Release());
  EXPECT_FALSE(next.is_whole());
  EXPECT_EQ(Held(), 0u);
}

TEST_F(BallastTest, TakesWhatThereIsAndTheRestLater) {
  env_.LimitFreeBytes(kBytes / 2);
  EXPECT_EQ(ballast_.Take(kMiB).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(ballast_.is_whole());
  EXPECT_EQ(Held(), kBytes / 2 - Ballast::kLeaveBytes);
  // All of the ballast fits, without any spare space.
  env_.LimitFreeBytes(kBytes - Held());
  EXPECT_EQ(ballast_.Take(kMiB).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(ballast_.is_whole());
  env_.LimitFreeBytes(3 * kBytes);
  EXPECT_TRUE(ballast_.Take(kMiB).ok());
  EXPECT_TRUE(ballast_.is_whole());
  EXPECT_GE(Held(), kBytes);
}

TEST_F(BallastTest, GrowthThatFailsLeavesWhatWasHeld) {
  env_.LimitFreeBytes(kBytes / 2);
  EXPECT_FALSE(ballast_.Take(kMiB).ok());
  const uint64_t held = Held();
  EXPECT_GE(held, kBytes / 4);
  env_.LimitFreeBytes(3 * kBytes);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{kBytes / 2, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = ballast_.Take(kMiB);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(ballast_.is_whole());
  EXPECT_EQ(Held(), held);
  EXPECT_TRUE(ballast_.Take(kMiB).ok());
}

TEST_F(BallastTest, ErrorsAreToldAndTheNextCallGoesOn) {
  int failures = 0;
  for (uint64_t number = 1;; ++number) {
    env_.FailAt(number, absl::UnavailableError("broken"), /*forever=*/true);
    const absl::Status status = ballast_.Take(kMiB);
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(ballast_.is_whole());
    ++failures;
  }
  EXPECT_GE(failures, 3);
  EXPECT_TRUE(ballast_.is_whole());
}

}  // namespace
}  // namespace msitd::storage
