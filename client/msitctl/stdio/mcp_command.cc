// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/query/exit_code.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/stdio/captured_commands.h"
#include "client/msitctl/stdio/mcp_session.h"

namespace msitd::msitctl {
namespace {

// `flags` are global ones, for each command.
ask::Outcome RunMcp(Invocation& invocation, bool allows_changes,
                    const std::vector<std::string>& flags) {
  std::unique_ptr<CapturedCommands> commands;
  MSITCTL_RETURN_IF_FAILED(CapturedCommands::Create(invocation, commands));
  bool is_interrupted = false;
  McpSession session(
      allows_changes, [&](const std::vector<std::string>& words) {
        std::vector<std::string> all = flags;
        all.insert(all.end(), words.begin(), words.end());
        CapturedAnswer answer = commands->Run(all);
        is_interrupted = answer.exit_code == ask::kExitInterrupted;
        return answer;
      });
  while (true) {
    commands->Prepare();
    std::optional<std::string> line;
    MSITCTL_RETURN_IF_FAILED(commands->requests().Next(line));
    if (!line.has_value()) return commands->answers().Finish();
    const std::string answer = session.Answer(*line);
    if (!answer.empty()) {
      commands->answers().Write(answer + "\n");
      commands->answers().Flush();
    }
    if (is_interrupted) return ask::Interrupted();
  }
}

}  // namespace

void AddMcpCommand(CommandLine& line) {
  const auto allows_changes = std::make_shared<bool>(false);
  CLI::App& verb = line.AddVerb(
      line.app(),
      {.name = "mcp",
       .summary = "Serve agents: the Model Context Protocol on stdin and "
                  "stdout, with tools that read runs and comparisons.",
       .examples = "msitctl mcp\n"
                   "msitctl --endpoint node7:7741 mcp --allow-changes",
       .rpcs = ""},
      [allows_changes, &line](Invocation& invocation) {
        return RunMcp(invocation, *allows_changes, line.ConnectionWords());
      });
  verb.add_flag("--allow-changes", *allows_changes,
                "Also offer the tools that start comparisons and record runs: "
                "compare and verify");
}

}  // namespace msitd::msitctl
