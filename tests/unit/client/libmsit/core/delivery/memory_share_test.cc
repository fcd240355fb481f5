// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/memory_share.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace msitd::libmsit {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Provides mounts whose files each test writes.
class MemoryShareTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  uint64_t Share() {
    return MemoryShare(directory_ / "proc", directory_ / "cgroup");
  }

  testing::TempDir directory_;
};

TEST_F(MemoryShareTest, OfWhatTheNodeHas) {
  Write("proc/meminfo",
        "MemTotal:       65536000 kB\nMemFree:  1 kB\n"
        "MemAvailable:   33554432 kB\nBuffers:  1 kB\n");
  EXPECT_EQ(Share(), 512 * kMiB);
}

TEST_F(MemoryShareTest, OfWhatTheControlGroupsAllow) {
  Write("proc/meminfo", "MemAvailable:   33554432 kB\n");
  Write("proc/self/cgroup", "0::/jobs/7/rank\n");
  Write("cgroup/jobs/7/rank/memory.max", "max\n");
  EXPECT_EQ(Share(), 512 * kMiB);
  Write("cgroup/jobs/7/memory.max", "8589934592\n");
  EXPECT_EQ(Share(), 128 * kMiB) << "of a group around it";
  Write("cgroup/jobs/7/rank/memory.max", "4294967296\n");
  EXPECT_EQ(Share(), 64 * kMiB);
}

TEST_F(MemoryShareTest, OfAContainerThatSeesItsOwnGroupsOnly) {
  Write("proc/meminfo", "MemAvailable:   33554432 kB\n");
  Write("proc/self/cgroup", "0::/path/of/the/node\n");
  Write("cgroup/memory.max", "8589934592\n");
  EXPECT_EQ(Share(), 128 * kMiB);
}

TEST_F(MemoryShareTest, OfGroupsOfVersionOne) {
  Write("proc/meminfo", "MemAvailable:   33554432 kB\n");
  Write("proc/self/cgroup",
        "12:cpu,cpuacct:/jobs\n9:memory:/jobs/7\n0::/jobs\n");
  Write("cgroup/memory/jobs/7/memory.limit_in_bytes", "4294967296\n");
  EXPECT_EQ(Share(), 64 * kMiB);
}

TEST_F(MemoryShareTest, UnknownWhereNobodySays) {
  EXPECT_EQ(Share(), 0u);
  Write("proc/meminfo", "MemTotal: 5 kB\n");
  Write("proc/self/cgroup", "nonsense\n0:\n::\n0::\n");
  EXPECT_EQ(Share(), 0u);
}

TEST(RealMemoryShareTest, IsLessThanTheMemoryOfAnyNode) {
  EXPECT_GT(MemoryShare(), 0u);
  EXPECT_LT(MemoryShare(), uint64_t{1} << 40);
}

}  // namespace
}  // namespace msitd::libmsit
