// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/verb_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cstdio>
#include <string_view>

#include "client/ask/query/exit_code.h"
#include "client/ask/text/text.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

// Files are accessible only to their owner and its group.
constexpr mode_t kUmask = 027;

}  // namespace

VerbTable::VerbTable(ProgramFace face)
    : face_(std::move(face)), app_("", face_.name) {
  app_.description(face_.description);
  app_.set_help_flag("-h,--help", "Print help");
}

int VerbTable::Complain(int exit_code, std::string_view message) const {
  fmt::print(stderr, "{}: {}\n", face_.name, ask::Printable(message));
  return exit_code;
}

CLI::App& VerbTable::AddGroup(const std::string& name,
                              const std::string& summary) {
  return *app_.add_subcommand(name, summary);
}

CLI::App& VerbTable::AddVerb(CLI::App& above, const std::string& name,
                             const std::string& summary,
                             const std::string& logger, Action action) {
  return AddLauncher(
      above, name, summary, logger,
      [action = std::move(action)](Logger& log) -> absl::StatusOr<int> {
        MSITD_RETURN_IF_ERROR(action(log));
        return kExitOk;
      });
}

CLI::App& VerbTable::AddLauncher(CLI::App& above, const std::string& name,
                                 const std::string& summary,
                                 const std::string& logger, Launch launch) {
  CLI::App* verb = above.add_subcommand(name, summary);
  Verb& entry = verbs_[verb];
  entry.logger = logger;
  entry.launch = std::move(launch);
  AddFlag(*verb, "--log-level", "-l",
          "debug, info, warning, error, fatal or critical; default info",
          log_level_)
      .required(false)
      ->check(CLI::IsMember(
          {"debug", "info", "warning", "error", "fatal", "critical"}));
  entry.spelling.Add("--help", "-h");
  return *verb;
}

void VerbTable::Refuse(CLI::App& above, const std::string& name,
                       const std::string& alias, const std::string& instead) {
  const std::string full =
      &above == &app_
          ? fmt::format("{} {}", face_.name, name)
          : fmt::format("{} {} {}", face_.name, above.get_name(), name);
  CLI::App& verb =
      AddVerb(above, name, "Not in this build: " + instead, kCommonLogger,
              [full, instead](Logger&) {
                return MakeStatus(absl::StatusCode::kUnimplemented,
                                  "{} is not in this build: {}", full, instead);
              });
  if (!alias.empty()) verb.alias(alias);
  verb.allow_extras();
}

VerbTable::FlagText VerbTable::Describe(CLI::App& verb,
                                        const std::string& long_name,
                                        const std::string& short_name,
                                        const std::string& what) {
  verbs_.at(&verb).spelling.Add(long_name, short_name);
  // CLI11 does not support names of several letters after one dash.
  if (short_name.size() == 2) return {short_name + "," + long_name, what};
  return {long_name, short_name.empty() ? what : what + "; also " + short_name};
}

CLI::Option& VerbTable::AddSwitch(CLI::App& verb, const std::string& long_name,
                                  const std::string& short_name,
                                  const std::string& what, bool& value) {
  const FlagText flag = Describe(verb, long_name, short_name, what);
  return *verb.add_flag(flag.names, value, flag.what);
}

std::pair<CLI::App*, size_t> VerbTable::FindCommand(
    const std::vector<std::string>& words) {
  CLI::App* command = &app_;
  size_t used = 0;
  while (used < words.size()) {
    CLI::App* below = nullptr;
    for (CLI::App* sub :
         command->get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->check_name(words[used])) below = sub;
    }
    if (below == nullptr) break;
    command = below;
    ++used;
  }
  return {command, used};
}

int VerbTable::RunVerb(const CLI::App& verb) {
  const Verb& entry = verbs_.at(&verb);
  Logger log(entry.logger, ParseLogLevel(log_level_).value_or(LogLevel::kInfo),
             face_.log_file, face_.log_style);
  const absl::StatusOr<int> exit_code = entry.launch(log);
  if (exit_code.ok()) return *exit_code;
  const bool is_interrupted = absl::IsCancelled(exit_code.status());
  return Complain(is_interrupted ? ask::kExitInterrupted : kExitError,
                  Message(exit_code.status()));
}

int VerbTable::Run(const std::vector<std::string>& words) {
  umask(kUmask);
  const auto [command, used] = FindCommand(words);
  const auto behind = words.begin() + static_cast<std::ptrdiff_t>(used);
  std::vector<std::string> flags(behind, words.end());
  const auto verb = verbs_.find(command);
  if (verb == verbs_.end()) {
    // A group of verbs prints its help, as msit does.
    const bool wants_help =
        flags.empty() || flags[0] == "-h" || flags[0] == "--help";
    if (wants_help) {
      fmt::print("{}", command->help());
      return std::fflush(stdout) == 0 ? kExitOk : kExitError;
    }
    std::string name = face_.name;
    for (size_t i = 0; i < used; ++i) name += " " + words[i];
    return Complain(kExitUsage,
                    fmt::format("\"{}\" is not a command of {}; see {} --help",
                                flags[0], name, name));
  }
  flags = verb->second.spelling.Rewrite(flags);
  // CLI11 requires the arguments in reverse order.
  std::vector<std::string> reversed(flags.rbegin(), flags.rend());
  for (size_t i = used; i > 0; --i) reversed.push_back(words[i - 1]);
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::Success& done) {
    return app_.exit(done) == 0 ? kExitOk : kExitError;
  } catch (const CLI::ParseError& error) {
    return Complain(
        kExitUsage,
        fmt::format("{}; see {} {} --help", error.what(), face_.name,
                    fmt::join(words.begin(), behind, " ")));
  }
  return RunVerb(*command);
}

}  // namespace msitd::msit_command
