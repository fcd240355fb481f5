// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::web {

// A request for one value of the summaries of groups of tensors.
struct SummaryRequest {
  v1::SummarizeTensorsRequest request;
  std::string value;  // A field of Summary, such as `l2_norm`.
};

// Parses the proto JSON of a SummarizeTensorsRequest that has `value` in
// addition. Returns a usage error for any other text.
ask::Outcome ParseSummaryRequest(const std::string& text, SummaryRequest& out);

// Returns the groups in a compact form, because a curve has up to 65,536 of
// them: `keys`, which are those of the groups, and `values`. A value is null if
// the field is not set in the summary, such as the minimum of no elements.
// `ranks_lacking` is that of the message, as `[[first, last], ...]`.
ask::Outcome SummariesPage(ask::Connection& connection,
                           const SummaryRequest& request, std::string& json);

}  // namespace msitd::web
