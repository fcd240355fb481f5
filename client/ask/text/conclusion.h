// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ask {

// What a comparison concludes.
enum class Conclusion {
  kPass,  // Over: nothing fails or is unmatched, and something passes.
  // Over: no failure is proven, but ranks or records are lacking, or rows could
  // not be compared.
  kPartial,
  kFail,  // All else.
};

// What makes no difference to a conclusion.
struct Allowed {
  // Converts, since most who ask allow for the one or nothing.
  Allowed(bool partial, bool undecided = false)  // NOLINT
      : partial(partial), undecided(undecided) {}

  // Anything that is lacking: ranks, records, and rows as below.
  bool partial;
  // Rows of which both sides are there and that could not be compared.
  bool undecided;
};

Conclusion ConclusionOf(const v1::Comparison& comparison, Allowed allowed);

// Number of rows with any verdict.
int64_t RowCountOf(const v1::Comparison& comparison);

// PASS, PARTIAL or FAIL.
const char* WordOf(Conclusion conclusion);

// The same word for a comparison that is over; `-` for any other.
const char* VerdictWord(const v1::Comparison& comparison, Allowed allowed);

}  // namespace msitd::ask
