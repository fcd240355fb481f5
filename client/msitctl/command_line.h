// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

// The contents of a verb's help in addition to its flags.
struct VerbHelp {
  std::string name;
  std::string summary;
  // Complete command lines, one per line.
  std::string examples;
  // "RunService.GetRun". Several methods are separated by commas. Empty if none
  // is called.
  std::string rpcs;
  // True if the verb also supports several daemons: see NodeFanout.
  bool takes_nodes = false;
};

// The nouns and verbs of msitctl with their flags, and the global flags.
// Thread-compatible.
class CommandLine {
 public:
  using Action = std::function<ask::Outcome(Invocation&)>;

  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Called by the files of the nouns. The returned App receives flags and
  // arguments. `action` runs once they are parsed. `examples`: see VerbHelp.
  CLI::App& AddNoun(const std::string& name, const std::string& summary,
                    const std::string& examples);
  CLI::App& AddVerb(CLI::App& noun, const VerbHelp& help, Action action);

  CLI::App& app() { return app_; }

  // Returns the global flags that select the daemon and limit the time of a
  // command, as they were given, for other command lines.
  std::vector<std::string> ConnectionWords() const;

  // Parses, runs the verb and reports on stderr. Returns the exit code.
  int Run(int argc, char** argv);

 private:
  struct GlobalFlags {
    std::string endpoint;
    std::string endpoints;
    std::string endpoints_file;
    std::string node_timeout = "10s";
    bool tls = false;
    std::string ca_file;
    std::string cert_file;
    std::string key_file;
    std::string timeout;
    std::string connect_timeout = "5s";
    std::string output = "table";
    bool no_start = false;
    bool no_color = false;
    bool guard_formulas = false;
    int progress = 0;  // Above 0: forced. Below 0: disabled.
  };

  void AddGlobalFlags();
  absl::StatusOr<InvocationOptions> MakeInvocationOptions() const;
  // Returns the nodes in the flags for several daemons; none if these are not
  // given.
  absl::StatusOr<std::vector<ask::ConnectionOptions>> MakeNodes(
      const ask::ConnectionOptions& of_all) const;
  ask::Outcome RunVerb();
  // The word that is wrong. CLI11's errors do not name it clearly, or at all.
  struct Slip {
    const CLI::App* command;  // The last command that was parsed.
    std::string what;         // Empty if no word is wrong.
  };
  Slip FindSlip(const std::vector<std::string>& words) const;
  // Returns the first option on the command line with an empty value, such as
  // that of an unset shell variable. Empty if there is none.
  std::string EmptyOption();
  // Returns the verb on the command line or, without a verb, its last noun.
  CLI::App* ParsedCommand();

  CLI::App app_;
  GlobalFlags globals_;
  std::map<const CLI::App*, Action> actions_;
  std::set<const CLI::App*> take_nodes_;
};

// Returns the nouns of the root, or the verbs of a noun, in the order in which
// they were added.
std::vector<const CLI::App*> SubcommandsOf(const CLI::App& app);

// Returns the subcommand with this name or alias, or null.
const CLI::App* FindCommand(const CLI::App& app, const std::string& name);

// Each noun is defined in its own file.
void AddRunCommands(CommandLine& line);
void AddTensorCommands(CommandLine& line);
void AddCompareCommands(CommandLine& line);
void AddCaptureCommands(CommandLine& line);
void AddNodeCommands(CommandLine& line);
void AddWatchCommand(CommandLine& line);
void AddExecCommand(CommandLine& line);
void AddBisectCommand(CommandLine& line);
void AddVerifyCommand(CommandLine& line);
void AddWebCommand(CommandLine& line);
void AddBatchCommand(CommandLine& line);
void AddMcpCommand(CommandLine& line);
void AddCompletionCommand(CommandLine& line);
void AddHelpCommand(CommandLine& line);

}  // namespace msitd::msitctl
