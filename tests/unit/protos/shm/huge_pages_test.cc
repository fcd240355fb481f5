// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/huge_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "protos/shm/sealed_memory.h"
#include "tests/support/temp_dir.h"

namespace msitd::shm {
namespace {

class HugePagesTest : public ::testing::Test {
 protected:
  HugePagesTest() { std::filesystem::create_directories(folder_ + kOfSize); }

  void Choose(const std::string& text) { Write("/shmem_enabled", text); }
  void ChooseForSize(const std::string& text) {
    Write("/hpage_pmd_size", "2097152\n");
    Write(kOfSize + std::string("/shmem_enabled"), text);
  }
  bool Has() const { return HasHugePages(directory_.path()); }

 private:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + name) << text;
  }

  static constexpr const char* kOfSize = "/hugepages-2048kB";
  testing::TempDir directory_;
  const std::string folder_ = directory_ / "kernel/mm/transparent_hugepage";
};

TEST_F(HugePagesTest, NoneWhereTheSystemKnowsNone) { EXPECT_FALSE(Has()); }

TEST_F(HugePagesTest, AsTheSystemHasChosen) {
  for (const char* no :
       {"always within_size advise [never] deny force\n",
        "always within_size advise never [deny] force\n", "advise\n", "[]\n"}) {
    Choose(no);
    EXPECT_FALSE(Has()) << no;
  }
  for (const char* yes : {"always within_size [advise] never deny force\n",
                          "[always] within_size advise never deny force\n",
                          "always [within_size] advise never deny force\n",
                          "always within_size advise never deny [force]\n"}) {
    Choose(yes);
    EXPECT_TRUE(Has()) << yes;
  }
}

TEST_F(HugePagesTest, AChoiceForTheirSizeGoesBefore) {
  Choose("always within_size advise [never] deny force\n");
  ChooseForSize("always [inherit] within_size advise never\n");
  EXPECT_FALSE(Has());
  ChooseForSize("always inherit within_size [advise] never\n");
  EXPECT_TRUE(Has());
  Choose("always within_size advise never [deny] force\n");
  EXPECT_FALSE(Has());
  Choose("always within_size [advise] never deny force\n");
  ChooseForSize("always [inherit] within_size advise never\n");
  EXPECT_TRUE(Has());
  ChooseForSize("always inherit within_size advise [never]\n");
  EXPECT_FALSE(Has());
  Choose("always within_size advise never deny [force]\n");
  EXPECT_TRUE(Has());
}

// Whatever pages the system provides, the memory is usable and keeps its size.
TEST(AskedPagesTest, AreSealedMemoryAsAnyOther) {
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  const UniqueFd fd = MakeSealedMemory("test", kBytes);
  ASSERT_TRUE(fd.valid());
  const MappedRegion writer(fd.get(), kBytes, PROT_READ | PROT_WRITE);
  const MappedRegion reader(fd.get(), kBytes, PROT_READ);
  ASSERT_TRUE(writer.valid() && reader.valid());
  writer.AskForHugePages();
  reader.AskForHugePages();
  std::memset(writer.data(), 7, kBytes);
  EXPECT_EQ(std::memcmp(reader.data(), writer.data(), kBytes), 0);
  EXPECT_EQ(SealedMemorySize(fd.get()), kBytes);
  EXPECT_NE(::ftruncate(fd.get(), 0), 0);
}

// Returns the size in KiB of the huge pages that are mapped at `address`.
uint64_t HugeKibibytes(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(address) << '-';
  bool is_ours = false;
  for (std::string word; maps >> word;) {
    is_ours |= word.starts_with(begin.str());
    uint64_t kibibytes = 0;
    if (is_ours && word == "ShmemPmdMapped:" && maps >> kibibytes) {
      return kibibytes;
    }
  }
  return 0;
}

TEST(AskedPagesTest, AreHugeExactlyWhereTheSystemSaysSo) {
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  const UniqueFd fd = MakeSealedMemory("test", kBytes);
  const MappedRegion memory(fd.get(), kBytes, PROT_READ | PROT_WRITE);
  ASSERT_TRUE(memory.valid());
  memory.AskForHugePages();
  std::memset(memory.data(), 7, kBytes);
  EXPECT_EQ(HugeKibibytes(memory.data()) > 0, HasHugePages());
}

}  // namespace
}  // namespace msitd::shm
