// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_verdict.h"
#include "msitd/v1/comparison_service.pb.h"

// Rows that pass in msprobe although they were not compared, or differ.
namespace msitd::report {

// Sets the reason why a row must not pass. Rows that the comparison cannot
// judge are left to msprobe's rules if they have the values that the rules use.
// If `trusts_rules`, so are tensors that differ in numbers only: NaN and
// infinities are the same on both sides, and there is something to judge.
void SetDoubt(const v1::ComparisonRow& row, MsprobeMode mode, bool trusts_rules,
              MsprobeRow& judged);

}  // namespace msitd::report
