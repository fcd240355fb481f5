// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_observer.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/face/comparisons.h"

// A comparison whose rows are those of another one, judged by another policy.
//
// The result is a comparison of its own, so that lists, reports, exit codes and
// tools need to know nothing about it, and the original remains as it was. It
// has the rows under the same numbers, which costs the space of a copy: a
// comparison that refers to the rows of another one would disappear with it.
namespace msitd::compare {

// Prepares the header of the new comparison: everything that describes the runs
// and the pairs of `source` remains, everything that follows from verdicts is
// reset. `policy` is that of the request; fields that describe what was
// computed or may be unmatched are those of the source.
v1::Comparison JudgedHeader(const v1::Comparison& source,
                            const v1::Policy& policy);

// Judges all rows of `plan.judged` by `plan.policy` and passes them to the
// observer, with the header up to date. Reads no run.
//
// Findings that need the runs are those of the source if the same row fails
// first: the order of the ranks and the causes. Otherwise the first divergence
// is the failing row with the lowest sequence number at the first token, and
// there are no causes.
//
// Errors: CANCELLED if the observer returns it; NOT_FOUND with
// COMPARISON_NOT_FOUND if the source was deleted in the meantime; those of the
// store.
absl::Status JudgeStoredRows(storage::Comparisons& store,
                             const ComparisonPlan& plan,
                             ComparisonObserver& observer);

}  // namespace msitd::compare
