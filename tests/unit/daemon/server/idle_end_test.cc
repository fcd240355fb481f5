// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/idle_end.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace msitd::server {
namespace {

using std::chrono::seconds;

class IdleEndTest : public ::testing::Test {
 protected:
  IdleEndTest() {
    for (const std::string& socket : sockets_) std::ofstream(socket) << "x";
  }

  std::string At(const std::string& name) const {
    return dir_.path() + "/" + name;
  }
  bool HasSockets() const {
    return std::filesystem::exists(sockets_[0]) &&
           std::filesystem::exists(sockets_[1]);
  }
  // Checks at `offset` after the start.
  bool Check(IdleEnd& idle, seconds offset, Activity activity = {}) {
    return idle.Check(start_ + offset, [&] { return activity; });
  }

  const testing::TempDir dir_;
  const std::vector<std::string> sockets_ = {At("a.sock"), At("b.sock")};
  const IdleEnd::Clock::time_point start_ = IdleEnd::Clock::now();
};

TEST_F(IdleEndTest, WithoutABoundItNeverEnds) {
  IdleEnd idle(seconds(0), sockets_);
  EXPECT_FALSE(Check(idle, seconds(1'000'000)));
  EXPECT_TRUE(HasSockets());
}

TEST_F(IdleEndTest, EndsAfterTheBoundWithoutSockets) {
  {
    IdleEnd idle(seconds(60), sockets_);
    EXPECT_FALSE(Check(idle, seconds(10)));
    EXPECT_FALSE(Check(idle, seconds(50)));
    EXPECT_TRUE(HasSockets());
    EXPECT_TRUE(Check(idle, seconds(70)));
    EXPECT_FALSE(std::filesystem::exists(sockets_[0]));
    EXPECT_FALSE(std::filesystem::exists(sockets_[1]));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(IdleEndTest, AnyUseBeginsTheTimeAgain) {
  IdleEnd idle(seconds(60), sockets_);
  EXPECT_FALSE(Check(idle, seconds(50), {.is_busy = true}));
  EXPECT_FALSE(Check(idle, seconds(100)));
  EXPECT_FALSE(Check(idle, seconds(105), {.connection_count = 1}));
  EXPECT_FALSE(Check(idle, seconds(160), {.connection_count = 1}));
  EXPECT_TRUE(Check(idle, seconds(170), {.connection_count = 1}));
}

TEST_F(IdleEndTest, AClientThatFoundTheSocketsKeepsTheDaemon) {
  IdleEnd idle(seconds(60), sockets_);
  int looks = 0;
  EXPECT_FALSE(idle.Check(start_ + seconds(70), [&] {
    const bool is_last_look = ++looks == 2;
    EXPECT_EQ(HasSockets(), !is_last_look);
    return Activity{.connection_count = is_last_look ? 1u : 0u};
  }));
  EXPECT_EQ(looks, 2);
  EXPECT_TRUE(HasSockets());
}

TEST_F(IdleEndTest, EndsAtOnceWhenItsSocketsAreRemoved) {
  IdleEnd idle(seconds(60), sockets_);
  std::filesystem::remove(sockets_[1]);
  EXPECT_FALSE(Check(idle, seconds(5), {.is_busy = true}));
  EXPECT_TRUE(Check(idle, seconds(10)));
}

}  // namespace
}  // namespace msitd::server
