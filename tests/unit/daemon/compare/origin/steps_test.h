// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {

// The output of an op, or its input if the name begins with `>`. Equal numbers
// mean equal bytes.
struct Step {
  std::string op;
  float value;
  float error = 0;
};

// Runs of several ranks, each of which executes its own steps.
class StepsTest : public testing::EitherStoreTest {
 protected:
  v1::Comparison Compare(const std::vector<std::vector<Step>>& ranks) {
    for (const bool is_target : {false, true}) {
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        for (const Step& step : ranks[rank]) {
          RecordedTensor tensor = Tensor(step, is_target);
          tensor.rank = static_cast<int32_t>(rank);
          (is_target ? target_ : golden_).Record(tensor);
        }
      }
    }
    return Compare();
  }

  v1::Comparison Compare() {
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    rows_ = observer.rows;
    return observer.comparison;
  }

  static RecordedTensor Tensor(const Step& step, bool is_target) {
    const bool is_input = step.op[0] == '>';
    const float error = is_target ? step.error : 0;
    RecordedTensor tensor = Floats(is_input ? step.op.substr(1) : step.op,
                                   {step.value + error, step.value * 2 + 1});
    if (is_input) tensor.io = Io::kInput;
    return tensor;
  }

  static std::string MakerOf(const v1::Comparison& comparison) {
    if (comparison.makers().empty()) return "";
    const v1::Maker& maker = comparison.makers(0);
    return v1::Maker::Kind_Name(maker.kind()) + " " + maker.op() + " " +
           std::to_string(maker.row().rank());
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
  std::vector<v1::ComparisonRow> rows_;
};

}  // namespace msitd::compare
