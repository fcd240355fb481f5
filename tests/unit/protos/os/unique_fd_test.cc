// SPDX-License-Identifier: Apache-2.0
#include "protos/os/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "gtest/gtest.h"

namespace msitd {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

int OpenNull() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(UniqueFdTest, ClosesAtTheEndOfItsLife) {
  const int raw = OpenNull();
  {
    const UniqueFd fd(raw);
    EXPECT_TRUE(fd.valid());
    EXPECT_TRUE(IsOpen(raw));
  }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, MoveHandsTheDescriptorOver) {
  const int raw = OpenNull();
  UniqueFd from(raw);
  UniqueFd to = std::move(from);
  EXPECT_EQ(to.get(), raw);
  EXPECT_TRUE(IsOpen(raw));
  const int other = OpenNull();
  to = UniqueFd(other);
  EXPECT_FALSE(IsOpen(raw));
  EXPECT_TRUE(IsOpen(other));
}

TEST(UniqueFdTest, ReleaseLeavesTheDescriptorOpen) {
  UniqueFd fd(OpenNull());
  const int raw = fd.release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(raw));
  ::close(raw);
}

}  // namespace
}  // namespace msitd
