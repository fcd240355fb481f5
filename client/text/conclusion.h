// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// What a comparison concludes.
enum class Conclusion {
  kPass,  // Over: nothing fails or is unmatched, and something passes.
  // Over: no failure is proven, but ranks or records are lacking, or rows could
  // not be compared.
  kPartial,
  kFail,  // All else.
};

// `allows_partial`: what is lacking makes no difference.
Conclusion ConclusionOf(const v1::Comparison& comparison, bool allows_partial);

// Number of rows with any verdict.
int64_t RowCountOf(const v1::Comparison& comparison);

// PASS, PARTIAL or FAIL.
const char* WordOf(Conclusion conclusion);

// The same word for a comparison that is over; `-` for any other.
const char* VerdictWord(const v1::Comparison& comparison, bool allows_partial);

}  // namespace msitd::ctl
