// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {

using Floats32 = std::vector<float>;

class ConditioningTest : public ::testing::Test {
 protected:
  void Record(RecordedTensor golden, RecordedTensor target, Io io,
              std::string_view index = "0", int64_t token = 0) {
    for (RecordedTensor* const tensor : {&golden, &target}) {
      tensor->io = io;
      tensor->index = std::string(index);
      tensor->token = token;
    }
    golden_.Record(golden);
    target_.Record(target);
  }

  void RecordFloats(std::string_view op, const Floats32& golden,
                    const Floats32& target, Io io, std::string_view index = "0",
                    int64_t token = 0) {
    Record(Floats(op, golden), Floats(op, target), io, index, token);
  }

  void RecordNarrow(std::string_view op, const Floats32& golden,
                    const Floats32& target, Io io) {
    Record(Bfloats(op, golden), Bfloats(op, target), io);
  }

  // The last row.
  v1::ComparisonRow Compare(Policy policy = {}) {
    const ComparisonPlan plan{"g", "t", {}, std::move(policy)};
    RowObserver observer;
    EXPECT_TRUE(ComparisonEngine(store_, plan, observer).Run().ok());
    return observer.rows.back();
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
};

}  // namespace msitd::compare
