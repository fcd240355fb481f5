// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/judge/stored_row.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::compare {

// Judges rows of an earlier comparison by another policy, without the tensors.
//
// A row has the metrics that its own policy needed, and a verdict is a
// predicate over metrics. The other policy can therefore be applied to most
// rows as it is. The difficulty is to find the rows for which that would be
// wrong, because an unchecked pass is worse than no verdict:
//
// - A metric that was not computed is not the same as one that is undefined for
//   the pair. An undefined metric fails a predicate; a missing one decides
//   nothing, even under `if present`. The row is then SKIPPED (kLacks).
// - `outlier_count` depends on rtol and atol. Other numbers decide only if the
//   stored metrics prove that no element, or some element, exceeds them.
// - The default policy passes some rows although they exceed its bounds, and
//   leaves out closed places of masks. Such a row keeps its verdict if both
//   policies require the same of it. Otherwise, its bounds decide, or nothing
//   does if a mask may be in both runs.
// - Statistics are judged only by the policy of the comparison.
// - Rows that the earlier policy skipped stay skipped, and count as not
//   compared.
// - Rows of equal bytes and rows without elements depend on the rule for shapes
//   only. Values that are texts, shards that differ or do not fit, and rows
//   that are unmatched keep their verdicts.
//
// Only presets need more than the row (JudgeBasis): tolerances by type also
// depend on how the pair was computed.
//
// Immutable, hence thread-safe.
class StoredRowJudge {
 public:
  // `earlier` is the policy of the comparison that has the rows, and `context`
  // is its judge_context. `is_same`: both policies are equal. All arguments
  // must outlive this object.
  StoredRowJudge(const Policy& earlier, const Policy& policy,
                 const v1::JudgeContext& context, bool is_same)
      : earlier_(earlier),
        policy_(policy),
        context_(context),
        is_same_(is_same) {}

  // The results that are not in the row.
  struct Outcome {
    // True if the row is as it was.
    bool is_kept = true;
    // Set if the metrics were compared with the predicate of `verification`.
    bool has_bounds = false;
    Verification verification = {};
    RowMetrics metrics = {};
    // False for a row that fails although the bounds with which it would pass
    // are not known.
    bool are_bounds_known = true;
    // True if the row follows a statement of the golden run on its tolerance,
    // which no flag replaces.
    bool is_stated = false;
  };

  Outcome Judge(StoredRow& stored) const;

 private:
  void JudgeShapes(StoredRow& stored, Outcome& out) const;
  // Keeps a row that the earlier policy skipped as one that is not compared.
  static void KeepSkipped(v1::ComparisonRow& row, Outcome& out);
  // Skips a row because its verdict needs more than is stored.
  static void Lack(std::string reason, v1::ComparisonRow& row, Outcome& out);
  void JudgeOfTensors(const Verification& last, StoredRow& stored,
                      Outcome& out) const;
  // Returns why no metric of the row can be used; empty if they can.
  std::string WhyMetricsDoNotCount(const Verification& last,
                                   const Verification& verification,
                                   const v1::ComparisonRow& row) const;
  void JudgeByMetrics(const Verification& last, StoredRow& stored,
                      Outcome& out) const;
  bool IsSame(const Verification& last, const Verification& next,
              const v1::ComparisonRow& row) const;

  const Policy& earlier_;
  const Policy& policy_;
  const v1::JudgeContext& context_;
  const bool is_same_;
};

}  // namespace msitd::compare
