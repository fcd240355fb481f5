// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/ask/text/policy_text.h"
#include "client/ask/text/yaml_text.h"
#include "client/msit/command/python_program.h"
#include "client/msit/probe/probe_scripts.h"
#include "client/msit/probe/probe_verbs.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// The names in the YAML of merge_result.
struct MergeRules {
  std::vector<std::string> apis;
  std::vector<std::string> columns;
};

absl::StatusOr<std::vector<std::string>> NamesIn(const ask::YamlValue& yaml,
                                                 std::string_view key) {
  std::vector<std::string> out;
  const ask::YamlValue* const list = yaml.Find(key);
  if (list == nullptr || list->kind == ask::YamlValue::Kind::kNull) return out;
  if (list->kind != ask::YamlValue::Kind::kList) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "line {}: {} is not a list", list->line, key);
  }
  for (const ask::YamlValue& item : list->items) {
    if (item.kind != ask::YamlValue::Kind::kScalar || item.text.empty()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "line {}: {} has an element that is not a name",
                        item.line, key);
    }
    out.push_back(item.text);
  }
  return out;
}

absl::StatusOr<MergeRules> ParseMergeRules(std::string_view text) {
  MSITD_ASSIGN_OR_RETURN(const ask::YamlValue yaml, ask::ReadYaml(text));
  if (yaml.kind != ask::YamlValue::Kind::kMap) {
    return absl::InvalidArgumentError("it has no keys");
  }
  MergeRules out;
  MSITD_ASSIGN_OR_RETURN(out.apis, NamesIn(yaml, "api"));
  MSITD_ASSIGN_OR_RETURN(out.columns, NamesIn(yaml, "compare_index"));
  if (out.apis.empty()) return absl::InvalidArgumentError("it names no api");
  return out;
}

absl::StatusOr<MergeRules> ReadMergeRules(const std::string& path) {
  const auto text = ask::ReadTextFile(path, ask::kYamlBytesMax);
  auto rules = text.ok() ? ParseMergeRules(*text) : text.status();
  return rules.ok() ? std::move(rules)
                    : Annotate(rules.status(), "-config " + path);
}

std::string JsonOf(const std::vector<std::string>& names) {
  return nlohmann::json(names).dump(-1, ' ', false,
                                    nlohmann::json::error_handler_t::replace);
}

struct ProgramOptions {
  std::string input;
  std::string output = "./output";
  std::string config;
};

void AddOverflowCheck(VerbTable& table) {
  const auto options = std::make_shared<ProgramOptions>();
  CLI::App& verb = table.AddLauncher(
      table.root(), "overflow_check",
      "Find the calls in which NaN and infinities begin; needs python3",
      kProbeLogger, [options](Logger&) {
        return RunPythonProgram(OverflowCheckScript(),
                                {options->input, options->output});
      });
  verb.alias("nan_analyze");
  table.AddFlag(verb, "--input_path", "-i", "Folder of a step with ranks",
                options->input);
  table
      .AddFlag(verb, "--output_path", "-o",
               "Folder of the result; default ./output", options->output)
      .required(false);
}

void AddMergeResult(VerbTable& table) {
  const auto options = std::make_shared<ProgramOptions>();
  CLI::App& verb = table.AddLauncher(
      table.root(), "merge_result",
      "Join the reports of several ranks in a workbook; needs python3",
      kProbeLogger, [options](Logger&) -> absl::StatusOr<int> {
        MSITD_ASSIGN_OR_RETURN(const MergeRules rules,
                               ReadMergeRules(options->config));
        return RunPythonProgram(MergeResultScript(),
                                {options->input, options->output,
                                 JsonOf(rules.apis), JsonOf(rules.columns)});
      });
  table.AddFlag(verb, "--input_dir", "-i", "Folder of the reports",
                options->input);
  table.AddFlag(verb, "--output_dir", "-o", "Folder of the result",
                options->output);
  table.AddFlag(verb, "--config-path", "-config",
                "YAML with the lists `api` and `compare_index`",
                options->config);
}

}  // namespace

void AddProbePrograms(VerbTable& table) {
  AddOverflowCheck(table);
  AddMergeResult(table);
}

}  // namespace msitd::msit_command
