// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ask {

// The conclusion of a comparison.
enum class Conclusion {
  kPass,  // Finished: nothing fails or is unmatched, and something passes.
  // Finished: no failure is proven, but ranks or records are missing, or rows
  // could not be compared.
  kPartial,
  kFail,  // Everything else.
};

// Deficiencies that do not affect a conclusion.
struct Allowed {
  // Implicit, because most callers allow only the first or nothing.
  Allowed(bool partial, bool undecided = false)  // NOLINT
      : partial(partial), undecided(undecided) {}

  // Anything that is missing: ranks, records, and rows as below.
  bool partial;
  // Rows with both sides that could not be compared.
  bool undecided;
};

Conclusion ConclusionOf(const v1::Comparison& comparison, Allowed allowed);

// Returns whether a comparison has ended, with a result or without one.
bool IsOver(const v1::Comparison& comparison);

// Number of rows with any verdict.
int64_t RowCountOf(const v1::Comparison& comparison);

// PASS, PARTIAL or FAIL.
const char* WordOf(Conclusion conclusion);

// Returns the same word for a finished comparison; `-` for any other.
const char* VerdictWord(const v1::Comparison& comparison, Allowed allowed);

}  // namespace msitd::ask
