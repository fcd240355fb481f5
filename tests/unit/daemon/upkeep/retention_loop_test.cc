// SPDX-License-Identifier: Apache-2.0
#include "daemon/upkeep/retention_loop.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/fake_store.h"

namespace msitd::upkeep {
namespace {

using testing::FakeStore;

TEST(RetentionLoopTest, GoesOnUntilNothingIsLeftThenWaits) {
  FakeStore store;
  storage::RetentionStep more;
  more.is_done = false;
  store.ScriptRetention({more, more, storage::RetentionStep()});
  storage::RetentionPolicy policy;
  policy.disk_bytes_max = 5;
  RetentionLoop loop(store, {policy, true, std::chrono::hours(1)});
  EXPECT_EQ(store.AwaitRetain(3).disk_bytes_max, 5u);
  loop.Stop();
  EXPECT_EQ(store.retain_count(), 3u);
  EXPECT_EQ(loop.error(), "");
}

TEST(RetentionLoopTest, TriesAgainAfterAnErrorAndTellsIt) {
  FakeStore store;
  std::vector<absl::StatusOr<storage::RetentionStep>> errors(
      3, absl::UnavailableError("punch hole: input/output error"));
  store.ScriptRetention(errors);
  {
    RetentionLoop loop(store, {{}, true, std::chrono::hours(1)});
    store.AwaitRetain(1);
    loop.Stop();
    EXPECT_EQ(loop.error(), "punch hole: input/output error");
  }
  RetentionLoop loop(store, {{}, true, std::chrono::milliseconds(1)});
  // The fourth call succeeds; the error is gone before the fifth.
  store.AwaitRetain(5);
  EXPECT_EQ(loop.error(), "");
}

TEST(RetentionLoopTest, SharesStepByStepAndGivesUpBytesBeforeEachStep) {
  FakeStore store;
  store.ScriptSharing({storage::ShareStep{4096, false},
                       storage::ShareStep{4096, false}, storage::ShareStep()});
  RetentionLoop loop(store, {{}, true, std::chrono::hours(1)});
  store.AwaitShare(3);
  loop.Stop();
  EXPECT_EQ(store.share_count(), 3u);
  EXPECT_EQ(store.retain_count(), 3u);
}

TEST(RetentionLoopTest, TellsThatSharingFailsAndTriesAgain) {
  FakeStore store;
  store.ScriptSharing({absl::UnavailableError("punch hole: broken")});
  {
    RetentionLoop loop(store, {{}, true, std::chrono::hours(1)});
    store.AwaitShare(1);
    loop.Stop();
    EXPECT_EQ(loop.error(), "punch hole: broken");
  }
  RetentionLoop loop(store, {{}, true, std::chrono::milliseconds(1)});
  store.AwaitShare(3);
  EXPECT_EQ(loop.error(), "");
}

TEST(RetentionLoopTest, SharesAlthoughTidyingFails) {
  FakeStore store;
  store.ScriptTidying({absl::UnavailableError("broken")});
  store.ScriptSharing({storage::ShareStep{4096, true}});
  RetentionLoop loop(store, {{}, true, std::chrono::hours(1)});
  store.AwaitShare(1);
  loop.Stop();
  EXPECT_EQ(loop.error(), "broken");
}

TEST(RetentionLoopTest, TidiesStepByStepAndTellsThatItFails) {
  FakeStore store;
  store.ScriptTidying({false, false, absl::UnavailableError("broken")});
  {
    RetentionLoop loop(store, {{}, false, std::chrono::hours(1)});
    store.AwaitTidy(3);
    loop.Stop();
    EXPECT_EQ(loop.error(), "broken");
  }
  RetentionLoop loop(store, {{}, true, std::chrono::milliseconds(1)});
  store.AwaitTidy(5);
  EXPECT_EQ(loop.error(), "");
}

TEST(RetentionLoopTest, SharesNothingIfItIsNotTo) {
  FakeStore store;
  RetentionLoop loop(store, {{}, false, std::chrono::milliseconds(1)});
  store.AwaitRetain(3);
  loop.Stop();
  EXPECT_EQ(store.share_count(), 0u);
}

}  // namespace
}  // namespace msitd::upkeep
