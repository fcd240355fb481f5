// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/match/tensor_mapping.h"
#include "protos/base/request.h"
#include "protos/status/status.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {

// Two runs whose rows are compared by request and position.
class JoinedRowsFixture : public testing::EitherStoreTest {
 protected:
  JoinedRowsFixture() { matching_.set_by_request(true); }

  // Records a document at a token.
  static void RecordText(RunRecorder& run, int64_t token, std::string op,
                         const std::string& text) {
    RecordedTensor out;
    out.op = std::move(op);
    out.bytes = text;
    out.dtype = DType::kUint8;
    out.shape = {static_cast<int64_t>(text.size())};
    out.token = token;
    out.io = Io::kState;
    out.index = "";
    out.device = std::string(kRequestDevice);
    out.kind = RecordKind::kDocument;
    run.Record(out);
  }

  static void Tell(RunRecorder& run, int64_t token, const std::string& id,
                   const std::string& text) {
    RecordText(run, token, std::string(kRequestOpPrefix) + id, text);
  }

  static RecordedTensor Shaped(int64_t token, std::string_view op,
                               const std::vector<float>& values,
                               std::vector<int64_t> shape) {
    RecordedTensor out = Floats(op, values);
    out.shape = std::move(shape);
    out.token = token;
    return out;
  }

  static void Record(RunRecorder& run, int64_t token, std::string_view op,
                     const std::vector<float>& values,
                     std::vector<int64_t> shape) {
    run.Record(Shaped(token, op, values, std::move(shape)));
  }

  v1::View& AddView(bool is_golden, std::string pattern, std::string text,
                    std::string as_op = "") {
    v1::View& view = is_golden ? *matching_.add_golden_views()
                               : *matching_.add_target_views();
    view.set_op_pattern(std::move(pattern));
    view.set_view(std::move(text));
    view.set_as_op(std::move(as_op));
    return view;
  }

  absl::Status Compare() {
    auto matching = MatchRules::Create(matching_);
    MSITD_RETURN_IF_ERROR(matching.status());
    plan_.matching = *std::move(matching);
    if (mapping_ != nullptr) plan_.matching.UseMapping(mapping_);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    comparison_ = observer.comparison;
    rows_ = observer.rows;
    return status;
  }

  const std::vector<v1::ComparisonRow>& Rows() {
    const absl::Status status = Compare();
    EXPECT_TRUE(status.ok()) << status;
    return rows_;
  }

  // Returns the only row of each op.
  std::map<std::string, v1::ComparisonRow> RowsByOp() {
    std::map<std::string, v1::ComparisonRow> out;
    for (const v1::ComparisonRow& row : Rows()) {
      EXPECT_TRUE(out.emplace(row.op(), row).second) << row.op();
    }
    return out;
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  v1::Matching matching_;
  std::shared_ptr<const TensorMapping> mapping_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  v1::Comparison comparison_;
  std::vector<v1::ComparisonRow> rows_;
};

}  // namespace msitd::compare
