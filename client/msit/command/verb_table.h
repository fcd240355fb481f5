// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/msit/command/logger.h"
#include "client/msit/command/spelling.h"

namespace msitd::msit_command {

inline constexpr char kLlmLogger[] = "msit_llm_logger";
inline constexpr char kDebugLogger[] =
    "msit_debug_loger";  // The spelling of msit.
inline constexpr char kCommonLogger[] = "msit_logger";

// A program whose command line is accepted.
struct ProgramFace {
  std::string name;
  std::string description;
  LogStyle log_style = LogStyle::kMsit;
  // Where log lines are written. Errors are written to stderr.
  std::FILE* log_file = stderr;
};

// The verbs of a program with their flags and actions. Each verb has --help and
// --log-level. Flags may be written in any form that argparse accepts. The
// values that flags set must live as long as the table: keep them in the
// action. Thread-compatible.
class VerbTable {
 public:
  using Action = std::function<absl::Status(Logger&)>;
  // Returns the exit code of a command that the verb ran.
  using Launch = std::function<absl::StatusOr<int>(Logger&)>;

  explicit VerbTable(ProgramFace face);
  VerbTable(const VerbTable&) = delete;
  VerbTable& operator=(const VerbTable&) = delete;

  CLI::App& root() { return app_; }
  CLI::App& AddGroup(const std::string& name, const std::string& summary);

  // The exit code of the verb is 0 if `action` succeeds, 130 if it returns
  // CANCELLED, and otherwise 1.
  CLI::App& AddVerb(CLI::App& above, const std::string& name,
                    const std::string& summary, const std::string& logger,
                    Action action);
  CLI::App& AddLauncher(CLI::App& above, const std::string& name,
                        const std::string& summary, const std::string& logger,
                        Launch launch);
  // Adds a verb that is not supported. It prints its name and what to use
  // `instead`.
  void Refuse(CLI::App& above, const std::string& name,
              const std::string& alias, const std::string& instead);

  // Adds a flag with a value, or with one or more values if `value` is a
  // vector. The flag is required unless the caller changes this. If a flag with
  // a single value is repeated, the last value is used.
  template <typename Value>
  CLI::Option& AddFlag(CLI::App& verb, const std::string& long_name,
                       const std::string& short_name, const std::string& what,
                       Value& value) {
    const FlagText flag = Describe(verb, long_name, short_name, what);
    CLI::Option* const option = verb.add_option(flag.names, value, flag.what);
    if (option->get_items_expected_max() == 1) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    return *option->required();
  }
  // Adds a flag without a value.
  CLI::Option& AddSwitch(CLI::App& verb, const std::string& long_name,
                         const std::string& short_name, const std::string& what,
                         bool& value);

  // The value of --log-level.
  const std::string& log_level() const { return log_level_; }

  // Runs the verb that the first words name, with the umask 027. Returns the
  // exit code.
  int Run(const std::vector<std::string>& words);

 private:
  struct Verb {
    std::string logger;
    Spelling spelling;
    Launch launch;
  };
  struct FlagText {
    std::string names;
    std::string what;
  };

  FlagText Describe(CLI::App& verb, const std::string& long_name,
                    const std::string& short_name, const std::string& what);
  // Returns the command that the first words name, and the number of these
  // words.
  std::pair<CLI::App*, size_t> FindCommand(
      const std::vector<std::string>& words);
  int RunVerb(const CLI::App& verb);

  int Complain(int exit_code, std::string_view message) const;

  const ProgramFace face_;
  CLI::App app_;
  std::string log_level_ = "info";
  std::map<const CLI::App*, Verb> verbs_;
};

}  // namespace msitd::msit_command
