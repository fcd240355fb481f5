// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/dump_writer.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <new>
#include <span>
#include <string>

namespace {

// Number of allocations that succeed, in threads other than that of the test,
// before one fails. Negative: all succeed.
std::atomic<int64_t> allocations_left{-1};
std::atomic<bool> has_failed{false};
thread_local bool is_test_thread = false;

void* Allocate(size_t size) {
  if (!is_test_thread && allocations_left.load() >= 0 &&
      allocations_left.fetch_sub(1) == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  void* const memory = ::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { ::free(memory); }
void operator delete[](void* memory) noexcept { ::free(memory); }
void operator delete(void* memory, size_t) noexcept { ::free(memory); }
void operator delete[](void* memory, size_t) noexcept { ::free(memory); }

namespace msitd::acl {
namespace {

constexpr uint64_t kMemoryBytes = 100'000;
constexpr char kFolder[] = "out/20250101000000/0/Graph/1/0/";

// No daemon is involved: the tests check how files are released, not where they
// are sent.
class DumpWriterTest : public ::testing::Test {
 protected:
  DumpWriterTest() { is_test_thread = true; }
  ~DumpWriterTest() override { allocations_left = -1; }

  void Put(const std::string& name, size_t size, bool is_last = true) {
    const std::string bytes(size, 'x');
    Slice slice;
    const std::string path = kFolder + name;
    slice.file = path;
    slice.bytes = std::as_bytes(std::span(bytes));
    slice.is_last = is_last;
    table_.Put(slice);
  }

  static Settings NoDaemon() {
    Settings settings;
    settings.run = "r";
    settings.endpoint = "none:";
    return settings;
  }

  Reporter reporter_;
  SliceTable table_{{.memory_bytes_max = kMemoryBytes,
                     .overflow = libmsit::OverflowMode::kDropNewest},
                    [](std::string_view, std::string_view) {}};
};

// Fails the first allocation, then the second one, and so on, until no
// allocation fails.
TEST_F(DumpWriterTest, NoFailureKeepsTheMemoryOfAFile) {
  DumpWriter writer(NoDaemon(), table_, reporter_);
  bool has_any = true;
  for (int64_t number = 0; has_any; ++number) {
    ASSERT_LT(number, 100'000);
    has_failed = false;
    allocations_left = number;
    Put("Add.Add_1.1.1735689600000000", kMemoryBytes / 2);
    writer.Flush();
    allocations_left = -1;
    has_any = has_failed;
    // The memory is not released, so there is no space for the next file.
    ASSERT_EQ(table_.counts().lost_file_count, 0u) << number;
  }
  writer.Stop();
}

TEST_F(DumpWriterTest, NoFailureAtTheEndKeepsTheResultFromBeingSaid) {
  bool has_any = true;
  for (int64_t number = 0; has_any; ++number) {
    ASSERT_LT(number, 100'000);
    has_failed = false;
    Reporter reporter;
    SliceTable table({.memory_bytes_max = kMemoryBytes,
                      .overflow = libmsit::OverflowMode::kDropNewest},
                     [](std::string_view, std::string_view) {});
    DumpWriter writer(NoDaemon(), table, reporter);
    const std::string path =
        std::string(kFolder) + "Add.Add_1.1.1735689600000000";
    Slice slice;
    slice.file = path;
    const std::string bytes(10, 'x');
    slice.bytes = std::as_bytes(std::span(bytes));
    table.Put(slice);
    ::testing::internal::CaptureStderr();
    allocations_left = number;
    writer.Stop();
    allocations_left = -1;
    const std::string said = ::testing::internal::GetCapturedStderr();
    has_any = has_failed;
    ASSERT_NE(said.find("run r: 0 tensors from "), std::string::npos)
        << number << ": " << said;
  }
}

}  // namespace
}  // namespace msitd::acl
