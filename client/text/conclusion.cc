// SPDX-License-Identifier: Apache-2.0
#include "client/text/conclusion.h"

#include <cstdint>

namespace msitd::ctl {

Conclusion ConclusionOf(const v1::Comparison& comparison, bool allows_partial) {
  const int64_t proven = comparison.fail_count() +
                         comparison.unmatched_count() -
                         comparison.for_want_of_ranks_count();
  if (comparison.state() != v1::Comparison::DONE || proven > 0) {
    return Conclusion::kFail;
  }
  if (comparison.partial() && !allows_partial) return Conclusion::kPartial;
  return comparison.pass_count() > 0 ? Conclusion::kPass : Conclusion::kFail;
}

}  // namespace msitd::ctl
