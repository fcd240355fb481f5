// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/msit/command/verbs.h"
#include "client/msit/dump/atb_dump.h"
#include "client/msit/dump/logits_dump.h"

namespace msitd::msit_command {
namespace {

// The value of --seed without a number.
constexpr char kSeedDefault[] = "2024";

void AddParts(VerbTable& table, CLI::App& verb, AtbDumpOptions& options) {
  table
      .AddFlag(verb, "--save-operation-ids", "-ids",
               "Operations by their ids, such as 2,3_1; default all",
               options.ids)
      .required(false)
      ->check(CheckIds);
  table
      .AddFlag(verb, "--execute-range", "-er",
               "Tokens from,to,from,to...; default 0,0", options.range)
      .required(false)
      ->check(CheckRange);
  table
      .AddFlag(verb, "--save-operation-child", "-child",
               "Also operations inside those selected by id; default true",
               options.saves_children)
      .required(false)
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, std::string>{{"yes", "true"},
                                             {"true", "true"},
                                             {"t", "true"},
                                             {"y", "true"},
                                             {"1", "true"},
                                             {"no", "false"},
                                             {"false", "false"},
                                             {"f", "false"},
                                             {"n", "false"},
                                             {"0", "false"}},
          CLI::ignore_case));
  table
      .AddFlag(verb, "--save-time", "-time",
               "Which tensors to write: 0 before an operation, 1 after it, 2 "
               "both, 3 inputs before and outputs after it; default 3",
               options.time)
      .required(false)
      ->check(CLI::Range(0, 3));
  table
      .AddFlag(verb, "--save-tensor-part", "-stp",
               "Which tensors to write: 0 inputs, 1 outputs, 2 both; default 2",
               options.part)
      .required(false)
      ->check(CLI::Range(0, 2));
  table
      .AddFlag(verb, "--operation-name", "-opname",
               "Operations by their names; default all", options.ops)
      .required(false);
  table
      .AddFlag(verb, "--type", "", "What to write; default tensor model",
               options.types)
      .required(false)
      ->check(CLI::IsMember({"model", "layer", "op", "kernel", "tensor",
                             "cpu_profiling", "onnx", "stats"}));
  table
      .AddFlag(verb, "--device-id", "-device", "Only this device",
               options.device)
      .required(false)
      ->check(CheckNumber);
}

}  // namespace

void AddAtbDump(VerbTable& table, CLI::App& llm) {
  const auto options = std::make_shared<AtbDumpOptions>();
  CLI::App& verb = table.AddLauncher(
      llm, "dump", "Run a program of ATB and write its tensors", kLlmLogger,
      [options, &table](Logger& log) {
        options->log_level = table.log_level();
        return DumpAtb(*options, log);
      });
  verb.alias("dd");
  table.AddFlag(verb, "--exec", "", "The command to run, without quotes",
                options->command);
  table
      .AddFlag(verb, "--output", "-o", "Folder to write to; default ./",
               options->output)
      .required(false);
  table.AddSwitch(verb, "--only-save-desc", "-sd",
                  "Write descriptions instead of tensors",
                  options->saves_descriptions_only);
  AddParts(table, verb, *options);
  table.AddSwitch(verb, "--save-tiling", "-tiling", "Also write tiling data",
                  options->saves_tiling);
  table
      .AddFlag(verb, "--seed", "-seed",
               "Compute deterministically; the seed is 2024 if none is given",
               options->seed)
      .required(false)
      ->expected(0, 1)
      ->default_str(kSeedDefault)
      ->check(CheckNumber);
  table.AddSwitch(verb, "--enable-symlink", "-symlink",
                  "Write links instead of equal files",
                  options->links_equal_files);
  table
      .AddFlag(verb, "--config-path", "-config",
               "JSON file that the probe reads at run time", options->config)
      .required(false);
}

void AddLogitsDump(VerbTable& table, CLI::App& llm) {
  const auto options = std::make_shared<LogitsDumpOptions>();
  CLI::App& verb = table.AddLauncher(
      llm, "logitsdump", "Run a test again and save the logits of bad cases",
      kLlmLogger, [options](Logger& log) { return DumpLogits(*options, log); });
  table.AddFlag(verb, "--exec", "-e",
                "The command to run; starts with torchrun or modeltest",
                options->command);
  table.AddFlag(verb, "--bad-case-result", "-bcr",
                "CSV file of msit llm bcanalyze", options->bad_cases);
  table
      .AddFlag(verb, "--token-range", "-tr",
               "Number of tokens of each case; default 1", options->tokens)
      .required(false)
      ->check(CLI::PositiveNumber)
      ->check(CheckNumber);
}

}  // namespace msitd::msit_command
