// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/ctl/partial.h"
#include "client/ctl/printer.h"
#include "client/ctl/session.h"
#include "protos/status/status.h"

namespace msitd::ctl {

// Most rows that a daemon returns at a time.
inline constexpr int64_t kPageRowsMax = 1000;

struct ListFlags {
  int64_t limit = 0;
  std::string columns;
  bool allow_partial = false;  // See AddPartialFlag.
};

// Binds --limit and --columns. `flags` outlives `verb`.
void AddListFlags(
    CLI::App& verb, ListFlags& flags,
    const std::string& limit_help = "Most rows to print; default all");

// Gets page after page of a list, at most `limit` rows if that is not 0, and
// gives each page to `see` and then its rows to `take`. `call` makes one call:
// (ClientContext*, const Request&, Response*) -> grpc::Status. `response` is
// the last page.
struct SeeNothing {
  template <typename Page>
  void operator()(const Page& /*page*/) const {}
};
template <typename Request, typename Response, typename Call, typename Take,
          typename See = SeeNothing>
Outcome ForEachRow(Session& session, Request request, const std::string& field,
                   int64_t limit, Call&& call, Take&& take, Response& response,
                   const See& see = {}) {
  const auto* rows = Response::descriptor()->FindFieldByName(field);
  int64_t left = limit;
  while (true) {
    request.set_page_size(static_cast<int32_t>(
        limit == 0 ? kPageRowsMax : std::min(left, kPageRowsMax)));
    MSITCTL_RETURN_IF_FAILED(session.Unary([&](grpc::ClientContext& context) {
      response.Clear();
      return call(&context, request, &response);
    }));
    see(response);
    const auto& reflection = *response.GetReflection();
    const int row_count = reflection.FieldSize(response, rows);
    for (int i = 0; i < row_count; ++i) {
      take(reflection.GetRepeatedMessage(response, rows, i));
    }
    left -= row_count;
    const bool is_last = response.next_page_token().empty();
    if (is_last || (limit != 0 && left <= 0)) return {};
    if (response.next_page_token() == request.page_token()) {
      return session.OutcomeOf(
          grpc::Status(grpc::StatusCode::INTERNAL,
                       "the daemon gave the same page token twice"));
    }
    request.set_page_token(response.next_page_token());
  }
}

// Prints a list as its pages come, and says first if it is partial. See
// ForEachRow.
template <typename Response, typename Request, typename Call>
Outcome PrintPages(Session& session, ListLayout layout, const ListFlags& flags,
                   Request request, Call&& call) {
  const std::string field = layout.field;
  layout.response = Response::descriptor();
  std::unique_ptr<ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ListPrinter::Create(std::move(layout),
                          session.print_options(flags.columns), session.out()));
  PartialNotice partial(session);
  const auto see = [&]<typename Page>(const Page& page) {
    if constexpr (requires { page.partial(); }) {
      partial.See(request.run(), page);
    }
  };
  Response response;
  MSITCTL_RETURN_IF_FAILED(ForEachRow(
      session, request, field, flags.limit, call,
      [&printer](const auto& row) { printer->Add(row); }, response, see));
  printer->Finish(response);
  return partial.End(flags.allow_partial);
}

// Prints one message; `name` is as in ListLayout.
Outcome PrintOne(Session& session, const google::protobuf::Message& message,
                 std::string_view name);

// Says that the thing called `name` is gone, in the form that was asked for:
// the empty response as JSON, the name, nothing as CSV, words on stderr.
Outcome ReportDeleted(Session& session, std::string_view noun,
                      std::string_view name);

}  // namespace msitd::ctl
