// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/stdio/mcp_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr McpArgument kRun{"run", "name of a run", true};
constexpr McpArgument kComparison{
    "comparison", "name of a comparison, such as c-000007, or latest", true};
constexpr McpArgument kOps{"ops", "patterns of ops, such as *.q_proj", false,
                           "--ops"};
constexpr McpArgument kLimit{"limit", "maximum number of rows", false,
                             "--limit", true};

std::vector<McpTool> ToolsForRuns() {
  return {
      {"list_runs",
       "Lists the runs: recorded captures of a model.",
       {"run", "list"},
       {kLimit}},
      {"get_run",
       "Shows one run: state, ranks, counters, labels.",
       {"run", "get"},
       {kRun}},
      {"coverage",
       "Shows how many tensors of each rank of a run were stored, filtered, "
       "dropped or truncated.",
       {"capture", "coverage"},
       {kRun}},
      {"list_tensors",
       "Lists the recorded tensors of a run in execution order: op, io, shape, "
       "dtype, statistics.",
       {"tensor", "list"},
       {kRun,
        kOps,
        {"ranks", "ranks, such as 0,2-3", false, "--ranks"},
        {"tokens", "tokens, such as 0 or 3-5", false, "--tokens"},
        kLimit}},
      {"find_tensors",
       "Lists the tensors of a run whose statistics meet a condition.",
       {"tensor", "find"},
       {kRun,
        {"where", "the condition, such as nan_count > 0", true, "--where"},
        kLimit}},
      {"get_tensor",
       "Shows one tensor: statistics, hash, and the stack of its call.",
       {"tensor", "get"},
       {{"name", "name of the tensor: runs/.../output/0", true}}},
      {"histogram",
       "Shows the distribution of the elements of one tensor.",
       {"tensor", "histogram"},
       {{"name", "name of the tensor: runs/.../output/0", true}}},
      {"origin",
       "Finds the op that made the first NaN or infinity of a run, or the "
       "first "
       "tensor that meets a condition, without a second run.",
       {"run", "origin"},
       {kRun,
        {"where", "another condition, such as abs_max > 65504", false,
         "--where"}}},
  };
}

std::vector<McpTool> ToolsForComparisons() {
  return {
      {"list_comparisons",
       "Lists the comparisons, oldest first.",
       {"compare", "list"},
       {kLimit}},
      {"first_divergence",
       "Shows the result of a comparison: the verdict, the first op that "
       "differs, its cause, and how many tensors differ.",
       {"compare", "get"},
       {kComparison}},
      {"comparison_rows",
       "Lists rows of a comparison: one for each pair of tensors, with the "
       "reason of its verdict.",
       {"compare", "rows"},
       {kComparison,
        {"verdict", "fail, unmatched, skipped or pass; default all", false,
         "--verdict"},
        kOps,
        kLimit}},
      {"explain_row",
       "Shows everything that is known about one row of a comparison.",
       {"compare", "rows"},
       {kComparison, {"row", "number of the row", true, "--row", true}},
       false,
       /*is_json=*/true},
      {"compare",
       "Compares two runs and shows the result as first_divergence does.",
       {"compare", "run", "--rows", "none"},
       {{"golden", "the trusted run", true},
        {"target", "the run to judge", true},
        kOps},
       true},
      {"verify",
       "Makes the recorded calls of a run again in float64 and shows which ops "
       "are wrong by themselves.",
       {"verify"},
       {kRun, kOps},
       true},
  };
}

}  // namespace

std::span<const McpTool> McpTools() {
  static const auto& tools = *new std::vector<McpTool>([] {
    std::vector<McpTool> all = ToolsForRuns();
    for (McpTool& tool : ToolsForComparisons()) all.push_back(std::move(tool));
    return all;
  }());
  return tools;
}

absl::StatusOr<std::vector<std::string>> McpWords(
    const McpTool& tool,
    absl::FunctionRef<std::string(std::string_view)> value_of) {
  std::vector<std::string> words = tool.command;
  words.emplace_back(tool.is_json ? "--output=json" : "--output=table");
  std::vector<std::string> positional;
  for (const McpArgument& argument : tool.arguments) {
    std::string value = value_of(argument.name);
    if (value.empty()) {
      if (!argument.is_required) continue;
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "the argument {} is missing", argument.name);
    }
    if (value.size() > kMcpArgumentBytesMax ||
        value.find('\0') != std::string::npos) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "the argument {} has more than {} bytes, or a NUL",
                        argument.name, kMcpArgumentBytesMax);
    }
    const bool is_number =
        std::all_of(value.begin(), value.end(),
                    [](char each) { return each >= '0' && each <= '9'; });
    if (argument.is_number && !is_number) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "the argument {} is not a whole number", argument.name);
    }
    if (argument.flag.empty()) {
      positional.push_back(std::move(value));
    } else {
      words.push_back(fmt::format("{}={}", argument.flag, value));
    }
  }
  words.emplace_back("--");
  words.insert(words.end(), positional.begin(), positional.end());
  return words;
}

}  // namespace msitd::msitctl
