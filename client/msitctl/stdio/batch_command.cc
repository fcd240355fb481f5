// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/query/exit_code.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/stdio/captured_commands.h"

namespace msitd::msitctl {
namespace {

using BatchJson = nlohmann::json;

// Returns nothing if the line is not a list of words.
std::optional<std::vector<std::string>> BatchWordsOf(const std::string& line) {
  const BatchJson json =
      BatchJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> words;
  for (const BatchJson& word : json) {
    if (!word.is_string()) return std::nullopt;
    words.push_back(word.get<std::string>());
  }
  return words;
}

ask::Outcome RunBatch(Invocation& invocation) {
  std::unique_ptr<CapturedCommands> commands;
  MSITCTL_RETURN_IF_FAILED(CapturedCommands::Create(invocation, commands));
  while (true) {
    commands->Prepare();
    std::optional<std::string> line;
    MSITCTL_RETURN_IF_FAILED(commands->requests().Next(line));
    if (!line.has_value()) return commands->answers().Finish();
    CapturedAnswer answer;
    if (const auto words = BatchWordsOf(*line); words.has_value()) {
      answer = commands->Run(*words);
    } else {
      answer.exit_code = ask::kExitUsage;
      answer.err = "msitctl batch: the line is not a JSON array of strings\n";
    }
    const BatchJson json = {{"exit_code", answer.exit_code},
                            {"stdout", std::move(answer.out)},
                            {"stderr", std::move(answer.err)}};
    commands->answers().Write(
        json.dump(-1, ' ', false, BatchJson::error_handler_t::replace) + "\n");
    commands->answers().Flush();
    if (answer.exit_code == ask::kExitInterrupted) return ask::Interrupted();
  }
}

}  // namespace

void AddBatchCommand(CommandLine& line) {
  line.AddVerb(
      line.app(),
      {.name = "batch",
       .summary = "Run many commands in one process. Each line of stdin is a "
                  "JSON array of the words after msitctl. For each, a line is "
                  "printed: a JSON object with exit_code, stdout and stderr.",
       .examples = "msitctl batch",
       .rpcs = ""},
      RunBatch);
}

}  // namespace msitd::msitctl
