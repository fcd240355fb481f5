// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/call_counter.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory_resource>
#include <new>
#include <random>
#include <string>

namespace msitd::libmsit {
namespace {

class CountingResource : public std::pmr::memory_resource {
 public:
  // The allocation of this number fails; numbers start at 0.
  explicit CountingResource(int failing = -1) : failing_(failing) {}
  int allocation_count() const { return allocation_count_; }

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    if (allocation_count_++ == failing_) throw std::bad_alloc();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  const int failing_;
  int allocation_count_ = 0;
};

TEST(CallCounterTest, NumbersEachNameWithinEachToken) {
  CallCounter counter;
  EXPECT_EQ(counter.Next(0, "a"), 0);
  EXPECT_EQ(counter.Next(0, "a"), 1);
  EXPECT_EQ(counter.Next(0, "b"), 0);
  EXPECT_EQ(counter.Next(1, "a"), 0);
  EXPECT_EQ(counter.Next(0, "a"), 2);
}

TEST(CallCounterTest, ForgetsTheOldestTokenWhenFull) {
  CallCounter counter(/*names_max=*/3);
  EXPECT_EQ(counter.Next(5, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 0);
  EXPECT_EQ(counter.Next(7, "a"), 0);
  EXPECT_EQ(counter.Next(8, "a"), 0);
  EXPECT_EQ(counter.Next(7, "a"), 1);
  EXPECT_EQ(counter.Next(8, "a"), 1);
  EXPECT_EQ(counter.Next(9, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 0) << "6 was forgotten";
}

TEST(CallCounterTest, CountsAsOneMapOfTokensAndNamesDoes) {
  constexpr size_t kNamesMax = 40;
  std::mt19937 random(7);
  CallCounter counter(kNamesMax);
  std::map<int64_t, std::map<std::string, int32_t>> expected;
  std::list<int64_t> order;
  size_t count = 0;
  for (int i = 0; i < 20000; ++i) {
    // Token 0 has calls again and again.
    const int64_t token =
        random() % 4 == 0 ? 0 : i / 500 + static_cast<int64_t>(random() % 4);
    // Some names are of one token only.
    const std::string name =
        std::to_string(random() % 12) +
        (random() % 8 == 0 ? "." + std::to_string(token) : "");
    order.remove(token);
    order.push_back(token);
    auto& calls = expected[token];
    const bool is_new = !calls.contains(name);
    ASSERT_EQ(counter.Next(token, name), calls[name]++);
    count += is_new ? 1 : 0;
    while (count > kNamesMax && expected.size() > 1) {
      count -= expected[order.front()].size();
      expected.erase(order.front());
      order.pop_front();
    }
  }
}

TEST(CallCounterTest, ForgetsTheOldestOfTooManyTokens) {
  CallCounter counter(/*names_max=*/100, /*tokens_max=*/2);
  EXPECT_EQ(counter.Next(5, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 0);
  EXPECT_EQ(counter.Next(7, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 1);
  EXPECT_EQ(counter.Next(7, "a"), 1);
  EXPECT_EQ(counter.Next(5, "a"), 0) << "5 was forgotten, and 6 is now";
  EXPECT_EQ(counter.Next(5, "a"), 1);
  EXPECT_EQ(counter.Next(7, "a"), 2);
  EXPECT_EQ(counter.Next(6, "a"), 0);
}

// A host may record one series at a token of its own while others advance.
TEST(CallCounterTest, RemembersALowTokenThatIsInUse) {
  CallCounter counter(/*names_max=*/100, /*tokens_max=*/4);
  for (int32_t step = 0; step < 50; ++step) {
    EXPECT_EQ(counter.Next(step + 1, "op"), 0);
    EXPECT_EQ(counter.Next(0, "loss"), step);
  }
}

// Memory that tokens need is not taken from the host piece by piece.
TEST(CallCounterTest, TakesMemoryInLargeBlocks) {
  constexpr int kTokens = 1000;
  CountingResource host;
  CallCounter counter(CallCounter::kNamesMax, CallCounter::kTokensMax, &host);
  for (int token = 0; token < kTokens; ++token) {
    for (const char* name : {"an op with a long name.1", "op.2", "op.3"}) {
      (void)counter.Next(token, name);
    }
  }
  EXPECT_LT(host.allocation_count(), kTokens / 10);
}

// Each allocation fails once. A failed call is made again and is then the
// first.
TEST(CallCounterTest, CountsOnAfterTheHostHadNoMemory) {
  constexpr int kTokens = 300;
  constexpr int kNames = 20;
  int failing = 0;
  for (;; ++failing) {
    SCOPED_TRACE(failing);
    CountingResource host(failing);
    CallCounter counter(/*names_max=*/1000, /*tokens_max=*/200, &host);
    int failed_count = 0;
    for (int token = 0; token < kTokens; ++token) {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = "an op with a long name." + std::to_string(i);
        try {
          ASSERT_EQ(counter.Next(token, name), 0);
        } catch (const std::bad_alloc&) {
          ++failed_count;
          ASSERT_EQ(counter.Next(token, name), 0);
        }
        ASSERT_EQ(counter.Next(token, name), 1);
      }
    }
    ASSERT_LE(failed_count, 1);
    if (host.allocation_count() <= failing) break;
  }
  EXPECT_GE(failing, 3);
}

TEST(CallCounterTest, RefusesMoreNamesInOneTokenThanItHolds) {
  CallCounter counter(/*names_max=*/2);
  EXPECT_TRUE(counter.Next(0, "a").has_value());
  EXPECT_TRUE(counter.Next(0, "b").has_value());
  EXPECT_FALSE(counter.Next(0, "c").has_value());
  EXPECT_EQ(counter.Next(0, "b"), 1);
}

}  // namespace
}  // namespace msitd::libmsit
