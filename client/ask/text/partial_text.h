// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>
#include <string_view>

#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/filter.pb.h"

namespace msitd::ask {

using RankRanges = google::protobuf::RepeatedPtrField<v1::RankRange>;

// Returns `partial: 2 of 4 ranks; run tp8 lacks ranks 2-3`. Printable. A number
// is preceded by `at least` if the daemon may have omitted ranges.
std::string PartialText(std::string_view run, const RankRanges& held,
                        const RankRanges& lacking);

// Whether a run of a comparison lacks ranks.
bool LacksRanks(const v1::Comparison& comparison);

// Returns the reasons why a comparison is partial, one line each: PartialText
// of each run that lacks ranks, the records that a run lacks, and the rows that
// could not be compared. Empty if there are none.
std::string PartialLines(const v1::Comparison& comparison);

// Returns `golden-fp32`, or `golden-fp32 at host:7741` for a run on another
// daemon. Printable.
std::string RunPlaceText(const std::string& run, const std::string& source);

}  // namespace msitd::ask
