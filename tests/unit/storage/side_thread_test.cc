// SPDX-License-Identifier: Apache-2.0
#include "storage/side_thread.h"

#include <thread>

#include "gtest/gtest.h"

namespace msitd::storage {
namespace {

TEST(SideThreadTest, DoesEachThingOnAThreadOfItsOwnAndWhatItWroteIsSeen) {
  SideThread thread;
  std::thread::id first;
  for (int i = 0; i < 100; ++i) {
    int written = -1;
    std::thread::id id;
    thread.Start([&written, &id, i] {
      written = i;
      id = std::this_thread::get_id();
    });
    thread.Await();
    EXPECT_EQ(written, i);
    EXPECT_NE(id, std::this_thread::get_id());
    if (i == 0) first = id;
    EXPECT_EQ(id, first);
  }
}

TEST(SideThreadTest, ThatWasNeverUsedEnds) { const SideThread thread; }

}  // namespace
}  // namespace msitd::storage
