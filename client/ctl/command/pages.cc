// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/command/pages.h"

#include <fmt/format.h>

#include <cstdio>

#include "client/ctl/flag/whole_number.h"
#include "client/text/text.h"

namespace msitd::ctl {

void AddRunName(CLI::App& verb, std::string& name, const std::string& help) {
  verb.add_option("RUN,--run", name, help)->required()->type_name("RUN");
}

void AddListFlags(CLI::App& verb, ListFlags& flags,
                  const std::string& limit_help) {
  verb.add_option("--limit", flags.limit, limit_help)
      ->check(WholeNumber())
      ->type_name("N");
  verb.add_option("--columns", flags.columns,
                  "Columns of a table or CSV, separated by commas: any field, "
                  "such as op,nan_count")
      ->type_name("LIST");
}

Outcome PrintOne(Session& session, const google::protobuf::Message& message,
                 std::string_view name) {
  const absl::Status status =
      PrintMessage(message, name, session.print_options(), session.out());
  return status.ok() ? Outcome() : UsageError(Message(status));
}

Outcome ReportDeleted(Session& session, std::string_view noun,
                      std::string_view name) {
  switch (session.options().format) {
    case Format::kTable:
      fmt::print(stderr, "deleted {} {}\n", noun, Printable(name));
      break;
    case Format::kJson:
      session.out().Write("{}\n");
      break;
    case Format::kName:
      session.out().Write(Printable(name) + '\n');
      break;
    case Format::kCsv:
      break;
  }
  return {};
}

}  // namespace msitd::ctl
