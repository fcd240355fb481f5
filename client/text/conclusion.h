// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// What a comparison concludes.
enum class Conclusion {
  kPass,     // Over: nothing fails or is unmatched, and something passes.
  kPartial,  // Over: no failure is proven, but ranks are lacking.
  kFail,     // All else.
};

// `allows_partial`: lacking ranks make no difference.
Conclusion ConclusionOf(const v1::Comparison& comparison, bool allows_partial);

// Number of rows with any verdict.
int64_t RowCountOf(const v1::Comparison& comparison);

// PASS, PARTIAL or FAIL.
const char* WordOf(Conclusion conclusion);

// The same word for a comparison that is over; `-` for any other.
const char* VerdictWord(const v1::Comparison& comparison, bool allows_partial);

}  // namespace msitd::ctl
