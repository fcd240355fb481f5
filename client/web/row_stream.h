// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "client/web/http_message.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::web {

struct RowStreamRequest {
  std::string comparison;
  int64_t first_row = 0;
  // The verdicts of the rows to send; empty for all.
  std::vector<v1::Verdict> verdicts;
};

// Parses `{"comparison": "c-000001", "first_row": 0, "verdicts": ["FAIL"]}`, of
// which only the first member is required. Returns a usage error for any other
// text.
ask::Outcome ParseRowStreamRequest(const std::string& text,
                                   RowStreamRequest& out);

// Streams the rows of a comparison while they are produced, as JSON lines:
//
//   {"rows":[...],"next_row":256,"state":"running","counts":[pass,fail,
//    unmatched,skipped],"total_count":1000,"first_divergence":7}
//
// `next_row` is the first row that later lines are about. A client that was
// disconnected continues there, without a gap or a row that arrives twice. The
// last line has the state that the comparison ended with, or `error`. Empty
// lines keep the connection alive. Returns an error only if nothing was sent.
ask::Outcome StreamRows(ask::Connection& connection,
                        const RowStreamRequest& request, HttpReply& reply);

}  // namespace msitd::web
