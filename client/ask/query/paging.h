// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "client/ask/query/connection.h"

namespace msitd::ask {

// Most rows that a daemon returns in one page.
inline constexpr int64_t kPageRowsMax = 1000;

struct SeeNothing {
  template <typename Page>
  void operator()(const Page& /*page*/) const {}
};

// Requests page after page of a list, at most `limit` rows if that is not 0.
// Calls `see` with each page and `take` with its rows; `take` may return false
// to stop. `method` is a method of a stub, and `field` of its response contains
// the rows. `response` receives the last page.
template <typename Stub, typename Request, typename Response, typename Take,
          typename See = SeeNothing>
Outcome ForEachRow(Connection& connection,
                   Connection::Method<Stub, Request, Response> method,
                   Request request, const std::string& field, int64_t limit,
                   Take&& take, Response& response, const See& see = {}) {
  if (connection.fanout() != nullptr) {
    return connection.fanout()->ForEachRow(
        {.call = Connection::NodeCallOf(method),
         .request = request,
         .field = field,
         .limit = limit,
         .take =
             [&take](const google::protobuf::Message& row) {
               if constexpr (std::is_void_v<decltype(take(row))>) {
                 take(row);
                 return true;
               } else {
                 return take(row);
               }
             },
         .see =
             [&see](const google::protobuf::Message& page) {
               see(static_cast<const Response&>(page));
             }},
        response);
  }
  const auto* rows = Response::descriptor()->FindFieldByName(field);
  int64_t left = limit;
  while (true) {
    request.set_page_size(static_cast<int32_t>(
        limit == 0 ? kPageRowsMax : std::min(left, kPageRowsMax)));
    response.Clear();
    MSITCTL_RETURN_IF_FAILED(connection.Ask(method, request, response));
    see(response);
    const auto& reflection = *response.GetReflection();
    const int row_count = reflection.FieldSize(response, rows);
    for (int i = 0; i < row_count; ++i) {
      const auto& row = reflection.GetRepeatedMessage(response, rows, i);
      if constexpr (std::is_void_v<decltype(take(row))>) {
        take(row);
      } else if (!take(row)) {
        return {};
      }
    }
    left -= row_count;
    const bool is_last = response.next_page_token().empty();
    if (is_last || (limit != 0 && left <= 0)) return {};
    if (response.next_page_token() == request.page_token()) {
      return connection.OutcomeOf(
          grpc::Status(grpc::StatusCode::INTERNAL,
                       "the daemon returned the same page token twice"));
    }
    request.set_page_token(response.next_page_token());
  }
}

}  // namespace msitd::ask
