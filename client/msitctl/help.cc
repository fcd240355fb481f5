// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/help.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "client/ask/text/wrap.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/flag/one_of.h"

namespace msitd::msitctl {
namespace {

constexpr size_t kTextColumn = 26;
constexpr size_t kLineWidth = 80;

// Returns a line with `left` in the left column and `text`, wrapped, in the
// right.
std::string Entry(const std::string& left, const std::string& text) {
  std::string out = "  " + left;
  if (out.size() + 2 > kTextColumn) {
    out += "\n" + std::string(kTextColumn, ' ');
  } else {
    out.resize(kTextColumn, ' ');
  }
  return out + ask::Wrap(text, kTextColumn, kTextColumn, kLineWidth) + "\n";
}

ask::Outcome ShowHelp(CLI::App& root, const std::vector<std::string>& topic,
                      Invocation& invocation) {
  if (topic.size() == 1 && topic[0] == "exit-codes") {
    invocation.out().Write(ask::ExitCodeHelp());
    return {};
  }
  const CLI::App* app = &root;
  for (const std::string& word : topic) {
    const CLI::App* const named = FindCommand(*app, word);
    if (named == nullptr) {
      return ask::UsageError(
          fmt::format("no help for \"{}\"; for all topics: msitctl help",
                      fmt::join(topic, " ")));
    }
    app = named;
  }
  invocation.out().Write(app->get_formatter()->make_help(
      app, FullName(*app), CLI::AppFormatMode::Normal));
  return {};
}

}  // namespace

HelpFormatter::HelpFormatter() {
  label("OPTIONS", "flags");
  label("SUBCOMMAND", "<command>");
  label("Positionals", "Arguments");
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string,
                                     CLI::AppFormatMode mode) const {
  std::string out;
  if (!app->get_footer().empty()) out += app->get_footer() + "\n";
  out += ask::Wrap(app->get_description(), 0, 0, kLineWidth) + "\n\n";
  out += make_usage(app, FullName(*app));
  out += make_positionals(app);
  // CLI11 puts two blank lines between groups.
  std::string groups =
      CLI::detail::find_and_replace(make_groups(app, mode), "\n\n\n", "\n\n");
  while (groups.ends_with("\n\n")) groups.pop_back();
  out += groups;
  out += make_subcommands(app, mode);
  if (app->get_parent() != nullptr) {
    out +=
        "\nGlobal flags: msitctl --help. Exit codes: msitctl help "
        "exit-codes.\n";
  }
  return out;
}

std::string HelpFormatter::make_option(const CLI::Option* option,
                                       bool is_positional) const {
  if (is_positional)
    return Entry(option->get_name(true), option->get_description());
  std::vector<std::string> names;
  for (const std::string& name : option->get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option->get_lnames()) {
    names.push_back("--" + name);
  }
  std::string left = fmt::format("{}", fmt::join(names, ", "));
  if (option->get_type_size() != 0) {
    left += " " + TypeOf(*option);
  }
  return Entry(left, option->get_description());
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  std::string names = sub->get_name();
  for (const std::string& alias : sub->get_aliases()) names += ", " + alias;
  return Entry(names, sub->get_description());
}

std::string FullName(const CLI::App& app) {
  return app.get_parent() == nullptr
             ? app.get_name()
             : FullName(*app.get_parent()) + " " + app.get_name();
}

void AddHelpCommand(CommandLine& line) {
  auto topic = std::make_shared<std::vector<std::string>>();
  CLI::App& root = line.app();
  CLI::App& help =
      line.AddVerb(root,
                   {.name = "help",
                    .summary = "Print help for a command, or the exit codes.",
                    .examples = "msitctl help exit-codes\n"
                                "msitctl help compare run",
                    .rpcs = ""},
                   [topic, &root](Invocation& invocation) {
                     return ShowHelp(root, *topic, invocation);
                   });
  help.add_option("TOPIC", *topic, "exit-codes, or a noun and a verb");
}

}  // namespace msitd::msitctl
