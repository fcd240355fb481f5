// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/query/interrupts.h"
#include "client/msit/compare/scenario.h"
#include "client/msit/pair/file_comparison.h"
#include "client/msit/probe/probe_compare.h"
#include "client/msit/probe/probe_input.h"
#include "client/msit/probe/probe_verbs.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// The kinds of dumps that are compared here.
constexpr char kAuto[] = "auto";
constexpr char kTorchAir[] = "torchair";
constexpr char kAtb[] = "atb";

// The flags of `msprobe compare`, before they are checked.
struct CompareFlags {
  ProbeCompareOptions compare;
  std::string mode = kAuto;
  // The JSON of early releases.
  std::string input;
  std::string rank;
  // Flags that may be given without a file. They belong to the verb.
  const CLI::Option* cells = nullptr;
  const CLI::Option* apis = nullptr;
  const CLI::Option* layers = nullptr;
  bool skips_advice = false;
  // Flags that change nothing here, and flags that are refused.
  bool logs_tensors = false;
  bool shows_stacks = false;
  bool finds_first = false;
  bool checks_consistency = false;
  std::string backend;
  std::string step;
  std::string config;
  // The last value of the flags of the modes for offline models.
  std::string offline;
};

// Returns what to use instead of a flag that was given; OK if there is none.
absl::Status RefuseFlags(const CompareFlags& flags) {
  const auto refuse = [](std::string_view flag, std::string_view instead) {
    return MakeStatus(absl::StatusCode::kUnimplemented,
                      "{} is not in this build: {}", flag, instead);
  };
  if (flags.finds_first) {
    return refuse("-da",
                  "import both dumps with `msitctl run import`; `msitctl "
                  "compare run` names the first divergence over all ranks");
  }
  if (flags.checks_consistency || !flags.backend.empty()) {
    return refuse("--consistent_check",
                  "import both dumps with `msitctl run import` and compare "
                  "them with `msitctl compare run --rewrite`");
  }
  if (!flags.config.empty()) {
    return refuse("--config",
                  "multiply the tensors in a transform of `msitctl compare "
                  "run`, or compare without it");
  }
  return absl::OkStatus();
}

absl::Status CheckMappings(const CompareFlags& flags) {
  const ProbeCompareOptions& compare = flags.compare;
  if (flags.apis->count() > 0 && compare.api_mapping.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "-am requires a file here: the table of msprobe is not "
                      "part of msitd");
  }
  if (flags.layers->count() > 0 && compare.layer_mapping.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "-lm requires a file");
  }
  if (!compare.layer_mapping.empty() &&
      !(compare.cell_mapping.empty() && compare.api_mapping.empty())) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "-lm cannot be combined with -cm or -am");
  }
  return absl::OkStatus();
}

// Returns an error for flags that only dumps of msprobe support.
absl::Status CheckMsitFlags(const CompareFlags& flags) {
  const ProbeCompareOptions& compare = flags.compare;
  std::vector<std::string_view> given;
  for (const auto& [flag, is_given] :
       {std::pair("--xlsx", compare.is_xlsx),
        std::pair("-fm", compare.is_fuzzy),
        std::pair("-dm", !compare.data_mapping.empty()),
        std::pair("-cm", flags.cells->count() > 0),
        std::pair("-am", flags.apis->count() > 0),
        std::pair("-lm", flags.layers->count() > 0),
        std::pair("-i", !flags.input.empty()),
        std::pair("--step", !flags.step.empty()),
        std::pair("--rank", flags.mode == kAtb && !flags.rank.empty())}) {
    if (is_given) given.emplace_back(flag);
  }
  if (given.empty()) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "-m {} does not support {}", flags.mode,
                    fmt::join(given, ", "));
}

// Compares with the verb of msit that has the same formats.
absl::Status CompareAsMsit(const CompareFlags& flags,
                           ask::Interrupts& interrupts, Logger& log) {
  MSITD_RETURN_IF_ERROR(CheckMsitFlags(flags));
  CompareOptions options;
  options.golden = flags.compare.golden;
  options.my = flags.compare.target;
  options.output = flags.compare.output;
  options.rank = flags.rank;
  options.is_compat = flags.compare.is_compat;
  return CompareSides(options, interrupts, log);
}

absl::Status CompareWith(CompareFlags flags, Logger& log) {
  ask::Interrupts interrupts;
  ProbeCompareOptions& compare = flags.compare;
  if (!flags.input.empty()) {
    MSITD_ASSIGN_OR_RETURN(const ProbeInput input, ReadProbeInput(flags.input));
    compare.golden = input.golden;
    compare.target = input.target;
    // Early releases wrote advice unless this flag prevented it.
    compare.writes_advice = !flags.skips_advice;
  }
  if (compare.golden.empty() || compare.target.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "-tp and -gp are required");
  }
  MSITD_RETURN_IF_ERROR(RefuseFlags(flags));
  MSITD_RETURN_IF_ERROR(CheckMappings(flags));
  const bool is_msit = flags.mode == kTorchAir || flags.mode == kAtb;
  if (flags.mode != kAuto && !is_msit) {
    return MakeStatus(
        absl::StatusCode::kUnimplemented,
        "-m {} is not in this build: it runs models or needs CANN; import the "
        "dumps of both sides with `msitctl run import` and compare them with "
        "`msitctl compare run`",
        flags.mode);
  }
  if (!flags.offline.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "fusion rules and properties of models apply only to -m "
                      "offline_data and offline_model, which are not in this "
                      "build");
  }
  if (is_msit) return CompareAsMsit(flags, interrupts, log);
  if (!flags.rank.empty() || !flags.step.empty()) {
    log.Warning(
        "--rank and --step have no effect on dumps of msprobe and are ignored");
  }
  compare.maps_frameworks = flags.cells->count() > 0;
  return CompareProbeDumps(compare, interrupts, log).status();
}

void AddSides(VerbTable& table, CLI::App& verb, CompareFlags& flags) {
  ProbeCompareOptions& compare = flags.compare;
  table
      .AddFlag(verb, "--mode", "-m",
               "Kind of the dumps: auto (those of msprobe), torchair or atb; "
               "default auto",
               flags.mode)
      .required(false)
      ->check(CLI::IsMember(
          {kAuto, kTorchAir, kAtb, "offline_data", "offline_model"}));
  table
      .AddFlag(verb, "--target_path", "-tp",
               "dump.json, or the folder of a rank or step", compare.target)
      .required(false);
  table
      .AddFlag(verb, "--golden_path", "-gp",
               "dump.json, or the folder of a rank or step, to compare it with",
               compare.golden)
      .required(false);
  table
      .AddFlag(verb, "--input_path", "-i",
               "JSON with npu_path and bench_path, as early releases require",
               flags.input)
      .required(false);
  table
      .AddFlag(verb, "--output_path", "-o",
               "Folder of the report; default ./output", compare.output)
      .required(false);
  table.AddSwitch(verb, "--xlsx", "", "Write .xlsx instead of .csv",
                  compare.is_xlsx);
  table.AddSwitch(verb, "--compat", "",
                  "Report the results of msprobe, including its mistakes",
                  compare.is_compat);
}

void AddPairing(VerbTable& table, CLI::App& verb, CompareFlags& flags) {
  ProbeCompareOptions& compare = flags.compare;
  const auto add = [&](const char* long_name, const char* short_name,
                       const char* what, std::string& path) -> CLI::Option& {
    CLI::Option& option =
        table.AddFlag(verb, long_name, short_name, what, path);
    return *option.required(false);
  };
  table.AddSwitch(verb, "--fuzzy_match", "-fm",
                  "Pair calls with different numbers", compare.is_fuzzy);
  add("--data_mapping", "-dm",
      "YAML: tensors of the target and their counterparts",
      compare.data_mapping);
  flags.cells =
      add("--cell_mapping", "-cm",
          "Pair Cell of MindSpore with Module; YAML: names of modules",
          compare.cell_mapping)
          .expected(0, 1);
  flags.apis = add("--api_mapping", "-am", "YAML: APIs with their arguments",
                   compare.api_mapping)
                   .expected(0, 1);
  flags.layers = add("--layer_mapping", "-lm",
                     "YAML: layers of a class and their counterparts",
                     compare.layer_mapping)
                     .expected(0, 1);
}

void AddOthers(VerbTable& table, CLI::App& verb, CompareFlags& flags) {
  const std::string ignored = "Accepted without effect";
  const std::string refused = "Not in this build";
  table
      .AddFlag(verb, "--rank", "", "Rank of a dump of TorchAir; default all",
               flags.rank)
      .required(false);
  table
      .AddFlag(verb, "--step", "",
               "Accepted without effect for dumps of msprobe; give the folder "
               "of the step",
               flags.step)
      .required(false);
  table.AddSwitch(verb, "--is_print_compare_log", "-tensor_log", ignored,
                  flags.logs_tensors);
  table.AddSwitch(verb, "--stack_mode", "-s",
                  "Accepted without effect: stacks are always in the report",
                  flags.shows_stacks);
  table.AddSwitch(verb, "--compare_only", "-c",
                  "With -i: do not write the advice", flags.skips_advice);
  table.AddSwitch(verb, "--fuzzy", "-f", "The same as --fuzzy_match",
                  flags.compare.is_fuzzy);
  table.AddSwitch(verb, "--diff_analyze", "-da", refused, flags.finds_first);
  table.AddSwitch(verb, "--consistent_check", "", refused,
                  flags.checks_consistency);
  table.AddFlag(verb, "--backend", "", refused, flags.backend).required(false);
  table.AddFlag(verb, "--config", "", refused, flags.config).required(false);
  // Flags of the modes that are not in this build.
  for (const auto& [long_name, short_name] :
       {std::pair("--fusion_rule_file", "-fr"),
        std::pair("--quant_fusion_rule_file", "-qfr"),
        std::pair("--close_fusion_rule_file", "-cfr"),
        std::pair("--input_data", ""), std::pair("--input_shape", ""),
        std::pair("--output_size", ""), std::pair("--dym_shape_range", ""),
        std::pair("--onnx_fusion_switch", "-ofs")}) {
    table.AddFlag(verb, long_name, short_name, refused, flags.offline)
        .required(false);
  }
}

}  // namespace

void AddProbeCompare(VerbTable& table) {
  const auto flags = std::make_shared<CompareFlags>();
  CLI::App& verb =
      table.AddVerb(table.root(), "compare", "Compare two dumps", kProbeLogger,
                    [flags](Logger& log) { return CompareWith(*flags, log); });
  AddSides(table, verb, *flags);
  AddPairing(table, verb, *flags);
  AddOthers(table, verb, *flags);
}

}  // namespace msitd::msit_command
