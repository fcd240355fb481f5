// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "client/web/connection_pool.h"
#include "client/web/http_message.h"

namespace msitd::web {

// Answers the calls of the page: `POST /api/v1/NAME` with a JSON object.
//
// If NAME is a method of WebMethods, such as `RunService.ListRuns`, the object
// is the proto JSON of its request, and the answer is that of its response, as
// `msitctl -o json` prints it. `page.comparisons`, `page.comparison`,
// `page.rows` and `page.row` are those of comparison_page.h,
// `page.groups` is that of group_json.h, `page.summaries` is that of
// summary_json.h, `page.values` and `page.logits` are
// those of value_page.h, and `page.stream` is that of row_stream.h.
//
// An error has the status that corresponds to its gRPC code, and is
// `{"error": TEXT, "reason": ErrorReason}`. Thread-safe.
class Api {
 public:
  // Borrows `pool`.
  explicit Api(ConnectionPool& pool) : pool_(pool) {}

  // `name` is the part of the target after `/api/v1/`. The request has been
  // admitted.
  void Answer(std::string_view name, const HttpRequest& request,
              HttpReply& reply);

 private:
  ConnectionPool& pool_;
};

}  // namespace msitd::web
