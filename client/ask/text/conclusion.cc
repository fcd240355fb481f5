// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/conclusion.h"

namespace msitd::ask {

namespace {

// Returns whether the runs lack records, regardless of the verdicts of rows.
bool LacksRecords(const v1::Comparison& comparison) {
  return comparison.golden_ranks().partial() ||
         comparison.target_ranks().partial() ||
         comparison.has_golden_losses() || comparison.has_target_losses() ||
         comparison.for_want_of_ranks_count() > 0;
}

}  // namespace

Conclusion ConclusionOf(const v1::Comparison& comparison, Allowed allowed) {
  const int64_t proven = comparison.fail_count() +
                         comparison.unmatched_count() -
                         comparison.for_want_of_ranks_count();
  if (comparison.state() != v1::Comparison::DONE || proven > 0) {
    return Conclusion::kFail;
  }
  const int64_t not_compared = comparison.not_compared_count();
  if (not_compared > 0 && not_compared == RowCountOf(comparison)) {
    return Conclusion::kFail;
  }
  const bool is_partial =
      comparison.partial() || comparison.for_want_of_ranks_count() > 0;
  const bool is_allowed =
      allowed.partial || (allowed.undecided && !LacksRecords(comparison));
  if (is_partial && !is_allowed) return Conclusion::kPartial;
  return comparison.pass_count() > 0 ? Conclusion::kPass : Conclusion::kFail;
}

bool IsOver(const v1::Comparison& comparison) {
  return comparison.state() == v1::Comparison::DONE ||
         comparison.state() == v1::Comparison::CANCELLED ||
         comparison.state() == v1::Comparison::FAILED;
}

int64_t RowCountOf(const v1::Comparison& comparison) {
  return comparison.pass_count() + comparison.fail_count() +
         comparison.unmatched_count() + comparison.skipped_count();
}

const char* WordOf(Conclusion conclusion) {
  switch (conclusion) {
    case Conclusion::kPass:
      return "PASS";
    case Conclusion::kPartial:
      return "PARTIAL";
    case Conclusion::kFail:
      break;
  }
  return "FAIL";
}

const char* VerdictWord(const v1::Comparison& comparison, Allowed allowed) {
  return comparison.state() == v1::Comparison::DONE
             ? WordOf(ConclusionOf(comparison, allowed))
             : "-";
}

}  // namespace msitd::ask
