// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/query/interrupts.h"
#include "client/msit/command/verbs.h"
#include "client/msit/compare/scenario.h"
#include "client/msit/pair/logits_comparison.h"
#include "client/msit/pair/weight_comparison.h"
#include "client/msit/table/bad_cases.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

void AddAnalyze(VerbTable& table, CLI::App& llm) {
  const auto options = std::make_shared<BadCaseOptions>();
  const auto add = [&](const std::string& name,
                       const std::string& summary) -> CLI::App& {
    return table.AddLauncher(
        llm, name, summary, kLlmLogger, [options, name, &table](Logger&) {
          return FindBadCases(name, *options, table.log_level());
        });
  };
  const std::string golden = "CSV of the golden evaluation";
  const std::string other = "CSV of the evaluation to compare with it";
  CLI::App& by_query =
      add("analyze", "Compare two evaluations by their queries; needs pandas");
  table.AddFlag(by_query, "--golden", "-g", golden, options->golden);
  table.AddFlag(by_query, "--test", "-t", other, options->test);
  CLI::App& by_key =
      add("bcanalyze", "Compare two evaluations by their keys; needs pandas");
  table.AddFlag(by_key, "--golden-path", "-gp", golden, options->golden);
  table.AddFlag(by_key, "--my-path", "-mp", other, options->test);
}

void AddCompare(VerbTable& table, CLI::App& llm) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App& verb =
      table.AddVerb(llm, "compare",
                    "Compare dumps or weights in two folders, or two files "
                    "with one tensor each",
                    kLlmLogger, [options](Logger& log) {
                      ask::Interrupts interrupts;
                      const CompareOptions& compare = *options;
                      if (compare.compares_weights) {
                        if (!compare.algorithms.empty()) {
                          log.Warning(
                              "--custom-algorithms has no effect with --weight "
                              "and is ignored");
                        }
                        return CompareWeights(compare.golden, compare.my,
                                              compare.output, interrupts, log);
                      }
                      return CompareSides(compare, interrupts, log);
                    });
  verb.alias("cc");
  CompareOptions& compare = *options;
  table.AddFlag(verb, "--golden-path", "-gp", "Golden file or folder",
                compare.golden);
  table.AddFlag(verb, "--my-path", "-mp", "File or folder to compare with it",
                compare.my);
  table
      .AddFlag(verb, "--cmp-level", "-cl",
               "Level of modules: layer, module, api or logits; default all",
               compare.level)
      .required(false)
      ->check(CLI::IsMember({"layer", "module", "api", "logits"}));
  table
      .AddFlag(verb, "--output", "-o", "Folder of the report; default ./",
               compare.output)
      .required(false);
  table
      .AddFlag(verb, "--op-mapping-file", "-mf",
               "Folder with op_mapping_file.json: pairs of types",
               compare.mapping_folder)
      .required(false);
  table
      .AddFlag(verb, "--rank", "-r", "Rank of a dump of TorchAir; default all",
               compare.rank)
      .required(false);
  table.AddSwitch(verb, "--stats", "-st",
                  "Compare the statistics of tensors, for torch models and ATB",
                  compare.compares_statistics);
  table.AddSwitch(verb, "--compat", "-compat",
                  "Report folders as the original does, including its mistakes",
                  compare.is_compat);
  table.AddSwitch(
      verb, "--weight", "-w",
      "Compare the quantized weights of MY with those of GOLDEN, two "
      "folders",
      compare.compares_weights);
  table
      .AddFlag(verb, "--custom-algorithms", "-alg",
               "Your own functions, as FILE.py:FUNCTION", compare.algorithms)
      .required(false);
}

void AddLogitsCompare(VerbTable& table, CLI::App& llm) {
  const auto options = std::make_shared<LogitsOptions>();
  CLI::App& verb =
      table.AddVerb(llm, "logitscmp", "Compare the logits in two folders",
                    kLlmLogger, [options](Logger& log) {
                      ask::Interrupts interrupts;
                      return CompareLogits(*options, interrupts, log);
                    });
  table.AddFlag(verb, "--golden-path", "-gp", "Folder of the golden side",
                options->golden);
  table.AddFlag(verb, "--my-path", "-mp", "Folder to compare with it",
                options->my);
  constexpr double kAny = std::numeric_limits<double>::max();
  const auto add = [&](const char* long_name, const char* short_name,
                       const char* what, double least, double most,
                       double& value) {
    table
        .AddFlag(verb, long_name, short_name,
                 fmt::format("{}; default {}", what, value), value)
        .required(false)
        ->check(CLI::Range(least, most))
        // NaN would be within any range.
        ->check([](const std::string& text) {
          return std::isnan(std::strtod(text.c_str(), nullptr))
                     ? text + " is not a number"
                     : std::string();
        });
  };
  add("--cosine-similarity", "-cs", "Pass above this value", -1, 1,
      options->cosine);
  add("--kl-divergence", "-kl", "Pass below this value", 0, kAny, options->kl);
  add("--l1-norm", "-l1", "Pass below this value", -1, kAny, options->l1);
  table
      .AddFlag(verb, "--dtype", "-d", "fp16, bf16 or fp32; default fp16",
               options->dtype)
      .required(false)
      ->check(CLI::IsMember({"fp16", "bf16", "fp32"}));
  table
      .AddFlag(verb, "--output-dir", "-o",
               "Folder of the report; default ./output", options->output)
      .required(false);
}

}  // namespace

void AddLlmVerbs(VerbTable& table) {
  CLI::App& llm =
      table.AddGroup("llm", "Debugging tools for large language models");
  AddAnalyze(table, llm);
  AddCompare(table, llm);
  AddLogitsCompare(table, llm);
  AddAtbDump(table, llm);
  AddLogitsDump(table, llm);
  const std::string hardware = "it requires an Ascend device and ATB";
  table.Refuse(llm, "opcheck", "oo",
               hardware +
                   ", which run the operations again; to check their recorded "
                   "outputs, use msit llm compare with a golden dump");
  table.Refuse(llm, "errcheck", "ee",
               hardware +
                   "; to find NaN and infinities, use msit llm dump, msitctl "
                   "run import and msitctl tensor find");
  table.Refuse(llm, "transform", "",
               "it converts source code of ATB models, which msitd does not "
               "do, and nothing replaces it");
}

}  // namespace msitd::msit_command
