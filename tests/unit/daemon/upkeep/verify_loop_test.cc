// SPDX-License-Identifier: Apache-2.0
#include "daemon/upkeep/verify_loop.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/fake_store.h"

namespace msitd::upkeep {
namespace {

using testing::FakeStore;

TEST(VerifyLoopTest, ReadsNoFasterThanItWasTold) {
  constexpr uint64_t kBytes = 100'000;
  FakeStore store;
  const storage::VerifyStep step{
      .frame_count = 1, .bytes = kBytes, .is_done = false};
  store.ScriptVerifying({step, step, step});
  const auto begin = std::chrono::steady_clock::now();
  VerifyLoop loop(store, {10 * kBytes, {}, std::chrono::hours(1)});
  store.AwaitVerify(4);
  // Three steps of a tenth of a second each.
  EXPECT_GE(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(300));
}

TEST(VerifyLoopTest, TellsAnErrorUntilAStepSucceeds) {
  FakeStore store;
  store.ScriptVerifying({absl::UnavailableError("read: input/output error")});
  {
    VerifyLoop loop(store, {1, {}, std::chrono::hours(1)});
    store.AwaitVerify(1);
    loop.Stop();
    EXPECT_EQ(loop.error(), "read: input/output error");
  }
  VerifyLoop loop(store, {1, {}, std::chrono::milliseconds(1)});
  store.AwaitVerify(3);
  EXPECT_EQ(loop.error(), "");
}

TEST(VerifyLoopTest, ChecksNothingAtARateOfZero) {
  FakeStore store;
  store.ScriptVerifying({absl::UnavailableError("called")});
  VerifyLoop loop(store, {0, {}, std::chrono::milliseconds(1)});
  loop.Stop();
  EXPECT_EQ(loop.error(), "");
}

TEST(VerifyLoopTest, ARateThatIsSetLaterStartsTheChecks) {
  FakeStore store;
  store.ScriptVerifying({absl::UnavailableError("called")});
  VerifyLoop loop(store, {0, {}, std::chrono::milliseconds(1)});
  loop.SetOptions({1, {}, std::chrono::hours(1)});
  store.AwaitVerify(1);
  loop.Stop();
  EXPECT_EQ(loop.error(), "called");
}

TEST(VerifyLoopTest, TurningTheChecksOffForgetsTheirError) {
  FakeStore store;
  store.ScriptVerifying({absl::UnavailableError("called")});
  VerifyLoop loop(store, {1, {}, std::chrono::milliseconds(1)});
  store.AwaitVerify(1);
  loop.SetOptions({0, {}, std::chrono::milliseconds(1)});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!loop.error().empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(loop.error(), "");
}

}  // namespace
}  // namespace msitd::upkeep
