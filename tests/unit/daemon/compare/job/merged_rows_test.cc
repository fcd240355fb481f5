// SPDX-License-Identifier: Apache-2.0
// Tests of comparisons of runs whose ranks, or the tokens of one rank, are in
// several stores. Each row is the same as with one store that contains them
// all.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "protos/status/status.h"
#include "storage/run_sources.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

constexpr int kStoreCount = 3;

// A source that reads from one store and is named by a letter.
class StoreSource final : public storage::RunSource {
 public:
  StoreSource(std::string name, testing::FakeStore& store)
      : name_(std::move(name)), store_(store) {}

  bool Takes(std::string_view source) const override { return source == name_; }
  absl::StatusOr<std::unique_ptr<storage::RunReader>> Open(
      const storage::RunAddress& run,
      const storage::WaitCheck& /*wait*/) override {
    return store_.OpenRun(run.name);
  }

 private:
  const std::string name_;
  testing::FakeStore& store_;
};

// Two runs in one store, and the same runs with their ranks in several stores.
class MergedRowsTest : public ::testing::TestWithParam<int> {
 protected:
  MergedRowsTest() {
    for (int i = 0; i < kStoreCount; ++i) {
      for (const char* run : {"g", "t"}) {
        apart_.emplace(std::pair(i, run),
                       std::make_unique<RunRecorder>(stores_[i], run));
      }
    }
  }

  // `store` is the number of the store that receives the rank.
  void Record(const std::string& run, int store, const RecordedTensor& tensor) {
    (run == "g" ? whole_golden_ : whole_target_).Record(tensor);
    apart_.at({store, run})->Record(tensor);
  }

  storage::SourcedRunReaders Readers() {
    std::vector<std::unique_ptr<storage::RunSource>> sources;
    for (int i = 1; i < kStoreCount; ++i) {
      sources.push_back(std::make_unique<StoreSource>(
          std::string(1, static_cast<char>('a' + i)), stores_[i]));
    }
    return storage::SourcedRunReaders(stores_[0], std::move(sources));
  }

  testing::FakeStore whole_;
  RunRecorder whole_golden_{whole_, "g"};
  RunRecorder whole_target_{whole_, "t"};
  testing::FakeStore stores_[kStoreCount];
  std::map<std::pair<int, std::string>, std::unique_ptr<RunRecorder>> apart_;
  ComparisonPlan plan_{"g", "t", {}, {}};
};

TEST_P(MergedRowsTest, RowsAreThoseOfOneStore) {
  std::mt19937 random(GetParam());
  const auto below = [&random](int end) {
    return static_cast<int>(random() % end);
  };
  constexpr int kRanks = 4;
  // The ranks of the golden run may be in other stores than those of the target
  // run.
  std::vector<int> golden_at(kRanks);
  std::vector<int> target_at(kRanks);
  for (int& at : golden_at) at = below(kStoreCount);
  for (int& at : target_at) at = below(kStoreCount);
  const bool is_sharded = below(2) == 0;
  const bool are_ranks_whole = below(2) == 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int token = 0; token < 3; ++token) {
      if (!are_ranks_whole) {
        golden_at[rank] = below(kStoreCount);
        target_at[rank] = below(kStoreCount);
      }
      for (int op = 0; op < 4; ++op) {
        std::vector<float> values(8);
        for (float& value : values) value = static_cast<float>(below(100));
        RecordedTensor tensor = Floats("op" + std::to_string(op), values);
        tensor.rank = rank;
        tensor.token = token;
        tensor.sequence = 4 * token + op;
        if (is_sharded && op == 0) {
          tensor.shape = {1, 8};
          tensor.placement = "0+4/1:S(0)";
        }
        if (below(8) != 0) Record("g", golden_at[rank], tensor);
        if (below(3) == 0) {
          values[below(8)] += 1;
          tensor.bytes = BytesOf(values);
        }
        if (below(8) != 0) Record("t", target_at[rank], tensor);
      }
    }
  }
  RowObserver expected;
  ASSERT_TRUE(ComparisonEngine(whole_, plan_, expected).Run().ok());
  storage::SourcedRunReaders readers = Readers();
  plan_.golden_source = plan_.target_source = "local,b,c";
  RowObserver got;
  const absl::Status status = ComparisonEngine(readers, plan_, got).Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(got.rows.size(), expected.rows.size());
  for (size_t i = 0; i < got.rows.size(); ++i) {
    EXPECT_EQ(got.rows[i].DebugString(), expected.rows[i].DebugString());
  }
  EXPECT_EQ(got.comparison.total_count(), expected.comparison.total_count());
  EXPECT_EQ(got.comparison.fail_count(), expected.comparison.fail_count());
  EXPECT_EQ(got.comparison.first_divergence().DebugString(),
            expected.comparison.first_divergence().DebugString());
  EXPECT_EQ(got.comparison.required_tolerances_size(),
            expected.comparison.required_tolerances_size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, MergedRowsTest, ::testing::Range(0, 40));

class SourcesTest : public MergedRowsTest {};

TEST_F(SourcesTest, ATokenOfARankInTwoPlacesIsRefusedAndBothAreNamed) {
  Record("g", 0, Floats("op", {1}));
  apart_.at({1, "g"})->Record(Floats("op", {1}));
  storage::SourcedRunReaders readers = Readers();
  const auto run = readers.OpenRunAt({"local,b", "g"}, {});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(Message(run.status()),
            "rank 0 of run g has records of token 0 in both local and b");
}

TEST_F(SourcesTest, APlaceThatFailsIsNamed) {
  storage::SourcedRunReaders readers = Readers();
  EXPECT_EQ(readers.OpenRunAt({"local,x", "g"}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto run = readers.OpenRunAt({"local,c", "none"}, {});
  EXPECT_EQ(run.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(Message(run.status()).find("local"), std::string_view::npos);
  for (const char* source : {",", "b,", ",b", "b,,c"}) {
    EXPECT_EQ(readers.OpenRunAt({source, "g"}, {}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << source;
  }
}

}  // namespace
}  // namespace msitd::compare
