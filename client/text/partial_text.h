// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>
#include <string_view>

#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/filter.pb.h"

namespace msitd::ctl {

using RankRanges = google::protobuf::RepeatedPtrField<v1::RankRange>;

// `partial: 2 of 4 ranks; run tp8 lacks ranks 2-3`. Printable. Says `at least`
// before a number if the daemon may have left ranges out.
std::string PartialText(std::string_view run, const RankRanges& held,
                        const RankRanges& lacking);

// The same for each run of a comparison that lacks ranks, one line each. Empty
// if no run lacks any.
std::string PartialLines(const v1::Comparison& comparison);

// `golden-fp32`, or `golden-fp32 at host:7741` for a run that lies elsewhere.
// Printable.
std::string RunPlaceText(const std::string& run, const std::string& source);

}  // namespace msitd::ctl
