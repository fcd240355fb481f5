// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/print/printer.h"
#include "client/ask/query/paging.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/partial.h"
#include "protos/status/status.h"

namespace msitd::msitctl {

struct ListFlags {
  int64_t limit = 0;
  std::string columns;
  bool allow_partial = false;    // See AddPartialFlag.
  bool allow_undecided = false;  // See AddUndecidedFlag. Only for comparisons.
};

// Binds the name of a run, which may be an argument or the value of --run.
// `name` outlives `verb`.
void AddRunName(CLI::App& verb, std::string& name);
void AddRunName(CLI::App& verb, std::string& name, const std::string& help);

// Binds the name of a comparison. `name` outlives `verb`.
void AddComparisonName(CLI::App& verb, std::string& name);

// Returns the completions of --columns for a list: headings of `layout`, values
// of a row of `response`, and those of messages in it that contain no other
// messages.
std::vector<std::string> ColumnWords(
    const google::protobuf::Descriptor& response,
    const ask::ListLayout& layout);

// Binds --columns with the completions `words`. `columns` outlives `verb`.
void AddColumnsFlag(CLI::App& verb, std::string& columns,
                    std::vector<std::string> words);

// Binds --limit and --columns. `flags` outlives `verb`.
void AddListFlags(CLI::App& verb, ListFlags& flags,
                  std::vector<std::string> column_words,
                  const std::string& limit_help =
                      "Maximum number of rows to print; default all");

// Prints on stderr that `count` tensors are not in a list, unless it is 0.
void NoteIncomplete(int64_t count);

// Adds the column of nodes to a list with data of several daemons.
void AddNodeColumn(Invocation& invocation, ask::ListLayout& layout);

// Prints a list as its pages arrive, and reports first if it is partial. Calls
// `when_empty` after a list without rows. See ForEachRow.
template <typename Stub, typename Request, typename Response>
ask::Outcome PrintPages(Invocation& invocation, ask::ListLayout layout,
                        const ListFlags& flags,
                        ask::Connection::Method<Stub, Request, Response> method,
                        Request request,
                        const std::function<void()>& when_empty = {}) {
  const std::string field = layout.field;
  layout.response = Response::descriptor();
  AddNodeColumn(invocation, layout);
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer, ask::ListPrinter::Create(std::move(layout),
                                        invocation.print_options(flags.columns),
                                        invocation.out()));
  PartialNotice partial(invocation);
  int64_t incomplete_count = 0;
  const auto see = [&]<typename Page>(const Page& page) {
    if constexpr (requires { page.partial(); }) {
      partial.See(request.run(), page);
    }
    if constexpr (requires { page.incomplete_count(); }) {
      incomplete_count += page.incomplete_count();
    }
  };
  Response response;
  bool is_empty = true;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      invocation, method, request, field, flags.limit,
      [&](const auto& row) {
        is_empty = false;
        printer->Add(row);
      },
      response, see));
  printer->Finish(response);
  NoteIncomplete(incomplete_count);
  if (is_empty && when_empty) {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    when_empty();
  }
  return partial.End(flags.allow_partial);
}

// Prints one message; `name` is as in ListLayout. A table omits the fields in
// `hidden`, which the caller prints in another form.
ask::Outcome PrintOne(Invocation& invocation,
                      const google::protobuf::Message& message,
                      std::string_view name,
                      std::vector<std::string> hidden = {});

}  // namespace msitd::msitctl
