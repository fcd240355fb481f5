// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "client/ask/text/ranges.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/whole_number.h"
#include "protos/base/check.h"

namespace msitd::msitctl {
namespace {

// Returns the values of `row` itself, and those of messages in it that contain
// no other messages.
std::vector<std::string> NearPaths(const google::protobuf::Descriptor& row) {
  const std::vector<std::string> all = ask::AllPaths(row, {});
  const auto is_deep = [](std::string_view path) {
    return path.find('.') != path.rfind('.');
  };
  std::vector<std::string> out;
  for (const std::string& path : all) {
    const std::string parent = path.substr(0, path.find('.') + 1);
    const bool is_near =
        parent.empty() || std::none_of(all.begin(), all.end(), [&](auto& p) {
          return p.starts_with(parent) && is_deep(p);
        });
    if (is_near) out.push_back(path);
  }
  return out;
}

}  // namespace

void AddRunName(CLI::App& verb, std::string& name) {
  AddRunName(verb, name, "Name of the run");
}

void AddRunName(CLI::App& verb, std::string& name, const std::string& help) {
  verb.add_option("RUN,--run", name, help)->required()->type_name("RUN");
}

void AddComparisonName(CLI::App& verb, std::string& name) {
  verb.add_option("COMPARISON", name,
                  "Name of the comparison, such as c-000009 or c-9; latest or "
                  "-1 is the newest, -2 the one before it")
      ->required()
      ->type_name("COMPARISON");
}

std::vector<std::string> ColumnWords(
    const google::protobuf::Descriptor& response,
    const ask::ListLayout& layout) {
  const google::protobuf::Descriptor& row =
      *response.FindFieldByName(layout.field)->message_type();
  std::vector<std::string> out;
  for (const std::string& text : ask::SplitLists({layout.columns})) {
    const auto column = ask::Column::Parse(row, text, layout.computed);
    MSITD_CHECK(column.ok());
    out.push_back(column->header());
  }
  for (std::string& path : NearPaths(row)) {
    if (std::find(out.begin(), out.end(), path) == out.end()) {
      out.push_back(std::move(path));
    }
  }
  return out;
}

void AddColumnsFlag(CLI::App& verb, std::string& columns,
                    std::vector<std::string> words) {
  verb.add_option("--columns", columns,
                  "Columns of a table or CSV, separated by commas: any fields, "
                  "such as op,nan_count")
      ->check(Offers(std::move(words)))
      ->type_name("LIST");
}

void AddListFlags(CLI::App& verb, ListFlags& flags,
                  std::vector<std::string> column_words,
                  const std::string& limit_help) {
  verb.add_option("--limit", flags.limit, limit_help)
      ->check(WholeNumber())
      ->type_name("N");
  AddColumnsFlag(verb, flags.columns, std::move(column_words));
}

void AddNodeColumn(Invocation& invocation, ask::ListLayout& layout) {
  ask::NodeFanout* const fanout = invocation.node_fanout();
  if (fanout == nullptr) return;
  // Runs may be on several nodes. Anything else is on one node.
  if (layout.field == "runs") {
    layout.columns += ",nodes?=@nodes";
    layout.computed["nodes"] = [fanout](const google::protobuf::Message& row) {
      return fanout->HoldersOf(static_cast<const v1::Run&>(row).name());
    };
    return;
  }
  layout.columns += ",node?=@node";
  layout.computed["node"] = [fanout](const google::protobuf::Message&) {
    return fanout->row_node();
  };
}

void NoteIncomplete(int64_t count) {
  if (count == 0) return;
  fmt::print(stderr,
             "msitctl: note: {} tensors are incomplete and not listed: parts "
             "are missing or have not arrived yet\n",
             count);
}

ask::Outcome PrintOne(Invocation& invocation,
                      const google::protobuf::Message& message,
                      std::string_view name, std::vector<std::string> hidden) {
  ask::PrintOptions options = invocation.print_options();
  options.hidden_fields = std::move(hidden);
  const absl::Status status =
      ask::PrintMessage(message, name, options, invocation.out());
  return status.ok() ? ask::Outcome() : ask::UsageError(Message(status));
}

}  // namespace msitd::msitctl
