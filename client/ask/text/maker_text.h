// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"

// The findings of a comparison as text. All results are printable.
namespace msitd::ask {

// Returns the rank of a row. For an assembled tensor, `rank` is the number of
// its group, and the result has the ranks of all its shards: `ranks 0-3`.
std::string RanksText(const v1::ComparisonRow& row);

// Returns a row in one line: `op output/0, rank 0, token 0, row 7: reason`.
std::string RowText(const v1::ComparisonRow& row);

// Returns false if the golden run has no known order of execution. The first
// divergence and all concurrent divergences are then the failing tensors of the
// first token with a failure, by name. The only maker has the reason why it is
// not known, and names no op.
bool HasOrder(const v1::Comparison& comparison);

// Returns the cause of a difference: `own code of a, between a.b and a.c; ...`.
// `may_diverge_before` is that of the comparison. `has_reason` adds the reason
// of its row.
std::string MakerText(const v1::Maker& maker, bool may_diverge_before,
                      bool has_reason = true);

// Returns the mistake that explains a cause: `golden * 0.125 (residual 2e-07,
// 0.875 without)`.
std::string ExplanationText(const v1::Explanation& explanation);

// Returns `inputs of the model differ from token 3: 403 against 186; ...`.
std::string InputDifferenceText(const v1::InputDifference& difference);

// A row or a maker that a comparison has found.
struct Finding {
  std::string_view label;  // Valid for the lifetime of the process.
  std::string text;
  int64_t row = -1;  // -1 if it is in no row.
};

// Returns the findings of a comparison: always the `first divergence`, and the
// others if there are any. The reason of a row is in the first of them only.
std::vector<Finding> FindingTexts(const v1::Comparison& comparison);

// Returns `7 pass, 5 fail, 0 unmatched, 0 skipped`.
std::string RowCountsText(const v1::Comparison& comparison);

// Returns the records of the runs that were not compared, such as `values: 12
// of golden, 14 of target`, and how to compare them. Empty if there are none.
std::string LeftOutText(const v1::Comparison& comparison);

// Returns which requests the runs have in common, if their rows are compared by
// request; otherwise empty.
std::string RequestsText(const v1::Comparison& comparison);

// Returns the tensors that the hooks of the two runs did not record; empty if
// they recorded everything.
std::string NotRecordedText(const v1::Comparison& comparison);

}  // namespace msitd::ask
