// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/group_loader.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "tests/support/fake_chunk_store.h"
#include "tests/unit/daemon/compare/one_thread_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

class GroupLoaderTest : public ::testing::Test {
 protected:
  // Gives both runs two tensors at each of so many tokens.
  const TensorMatcher& Matcher(int64_t token_count) {
    for (int64_t token = 0; token < token_count; ++token) {
      for (const char* const op : {"a", "b"}) {
        RecordedTensor tensor = Floats(op, {1});
        tensor.token = token;
        golden_.Record(tensor);
        target_.Record(tensor);
      }
    }
    auto matcher = TensorMatcher::Create(store_, "g", "t", {},
                                         *Matching::Create(v1::Matching()));
    EXPECT_TRUE(matcher.ok()) << matcher.status();
    matcher_.emplace(*std::move(matcher));
    EXPECT_EQ(matcher_->group_count(), static_cast<size_t>(token_count));
    return *matcher_;
  }

  static std::vector<size_t> AllOf(const TensorMatcher& matcher) {
    std::vector<size_t> out(matcher.group_count());
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  testing::FakeChunkStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  std::optional<TensorMatcher> matcher_;
  OneThreadObserver observer_;
};

TEST_F(GroupLoaderTest, GroupsComeInTheOrderAskedForWithTheirPairs) {
  GroupLoader loader(Matcher(20), {3, 17, 4, 4}, observer_);
  for (const int64_t token : {3, 17, 4, 4}) {
    const auto group = loader.Next();
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_EQ(group->token, token);
    ASSERT_EQ(group->pairs.size(), 2u);
    for (const TensorPair& pair : group->pairs) {
      ASSERT_NE(pair.golden, nullptr);
      ASSERT_NE(pair.target, nullptr);
      EXPECT_EQ(pair.golden->key.op, pair.target->key.op);
      EXPECT_EQ(pair.target->key.token, token);
    }
  }
}

TEST_F(GroupLoaderTest, NothingNeedsToBeTaken) {
  const TensorMatcher& matcher = Matcher(20);
  GroupLoader none(matcher, {}, observer_);
  GroupLoader untouched(matcher, AllOf(matcher), observer_);
  GroupLoader left(matcher, AllOf(matcher), observer_);
  EXPECT_TRUE(left.Next().ok());
}

TEST_F(GroupLoaderTest, ObserverEndsIt) {
  const TensorMatcher& matcher = Matcher(20);
  GroupLoader loader(matcher, AllOf(matcher), observer_);
  EXPECT_TRUE(loader.Next().ok());
  EXPECT_TRUE(loader.Next().ok());
  observer_.is_cancelled = true;
  EXPECT_TRUE(absl::IsCancelled(loader.Next().status()));
}

TEST_F(GroupLoaderTest, OneGroupIsAheadAndErrorsComeWithTheirOwn) {
  const TensorMatcher& matcher = Matcher(3);
  GroupLoader loader(matcher, AllOf(matcher), observer_);
  EXPECT_TRUE(loader.Next().ok());
  ASSERT_TRUE(store_.DeleteRun("t").ok());
  // Looked up before, or not.
  const auto second = loader.Next();
  EXPECT_TRUE(second.ok() || absl::IsNotFound(second.status()));
  EXPECT_TRUE(absl::IsNotFound(loader.Next().status()));
}

}  // namespace
}  // namespace msitd::compare
