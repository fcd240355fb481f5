// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/ask/query/interrupts.h"
#include "client/foreign/trees/tree_folder.h"
#include "client/msit/command/python_program.h"
#include "client/msit/probe/dump_pairs.h"
#include "client/msit/probe/probe_compare.h"
#include "client/msit/probe/probe_scripts.h"
#include "client/msit/probe/probe_verbs.h"
#include "client/msit/table/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

struct GraphFlags {
  ProbeCompareOptions compare;
  bool logs_tensors = false;
  bool logs_progress = false;
  bool checks_overflow = false;
  // The parallel layout of the ranks, for graphs that join them.
  std::vector<std::string> layout;
};

// A folder for temporary files, which is removed with its contents.
class TemporaryFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Make() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error).string() +
                       "/msprobe-XXXXXX";
    if (error) return ErrnoStatus(error.value(), "find a temporary folder");
    if (::mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, path);
    return std::unique_ptr<TemporaryFolder>(
        new TemporaryFolder(std::move(path)));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

// The name of the file with the dumps in the temporary folder. It is not an
// argument of the program, because Linux limits the length of an argument.
constexpr char kDumpsFile[] = "dumps.json";

// Returns the dumps as graph_visualize.py expects them. `reports` is empty for
// a graph of one side.
std::string DumpsJson(const ProbePairs& found,
                      const std::vector<std::string>& reports) {
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < found.pairs.size(); ++i) {
    const ProbePair& pair = found.pairs[i];
    nlohmann::json& dump = out.emplace_back();
    dump["step"] = pair.step;
    dump["rank"] = pair.rank;
    dump["target"] = AbsolutePath(pair.target);
    if (reports.empty()) continue;
    dump["golden"] = AbsolutePath(pair.golden);
    dump["report"] = reports[i];
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::Status CheckGraphFlags(const GraphFlags& flags) {
  if (flags.checks_overflow) {
    return MakeStatus(absl::StatusCode::kUnimplemented,
                      "-oc is not in this build: use msprobe overflow_check");
  }
  if (!flags.layout.empty()) {
    return MakeStatus(
        absl::StatusCode::kUnimplemented,
        "graphs that join ranks are not in this build: import both dumps with "
        "`msitctl run import`, and compare them with `msitctl compare run "
        "--layout`");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Visualize(GraphFlags flags, Logger& log) {
  MSITD_RETURN_IF_ERROR(CheckGraphFlags(flags));
  ProbeCompareOptions& compare = flags.compare;
  const bool is_comparison = !compare.golden.empty();
  const std::string output = AbsolutePath(compare.output);
  MSITD_ASSIGN_OR_RETURN(
      const ProbePairs found,
      FindProbePairs(is_comparison ? compare.golden : compare.target,
                     compare.target));
  MSITD_RETURN_IF_ERROR(Annotate(CheckReportFolder(output), "-o"));
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFolder> folder,
                         TemporaryFolder::Make());
  std::vector<std::string> reports;
  if (is_comparison) {
    compare.output = folder->path();
    compare.is_intermediate = true;
    // Afterwards, signals are forwarded to the child.
    ask::Interrupts interrupts;
    MSITD_ASSIGN_OR_RETURN(reports,
                           CompareProbeDumps(compare, interrupts, log));
  } else {
    for (const std::string& warning : found.warnings) log.Warning(warning);
  }
  const std::string dumps = trees::JoinPath(folder->path(), kDumpsFile);
  MSITD_RETURN_IF_ERROR(
      ReplaceReportFile(dumps, [&](const ByteTake& take) -> absl::Status {
        return take(DumpsJson(found, reports));
      }));
  MSITD_RETURN_IF_ERROR(MakeReportFolder(output));
  return RunPythonProgram(
      GraphVisualizeScript(),
      {fmt::format("{}/{}_{}.vis.db", output,
                   is_comparison ? "compare" : "build", UtcTimeStamp()),
       dumps});
}

void AddUnusedFlags(VerbTable& table, CLI::App& verb, GraphFlags& flags) {
  const std::string ignored = "Accepted without effect";
  const std::string refused = "Not in this build";
  table.AddSwitch(verb, "--is_print_compare_log", "-tensor_log", ignored,
                  flags.logs_tensors);
  table.AddSwitch(verb, "--is_print_progress_log", "-progress_log", ignored,
                  flags.logs_progress);
  table.AddSwitch(verb, "--overflow_check", "-oc", refused,
                  flags.checks_overflow);
  for (const char* name :
       {"--rank_size", "--tp", "--pp", "--vpp", "--order", "--file_type"}) {
    table.AddFlag(verb, name, "", refused, flags.layout).required(false);
  }
}

}  // namespace

void AddGraphVisualize(VerbTable& table) {
  const auto flags = std::make_shared<GraphFlags>();
  CLI::App& verb = table.AddLauncher(
      table.root(), "graph_visualize",
      "Write the graph of a dump, or of two that are compared, as a database; "
      "needs python3",
      kProbeLogger, [flags](Logger& log) { return Visualize(*flags, log); });
  verb.alias("graph");
  ProbeCompareOptions& compare = flags->compare;
  table.AddFlag(verb, "--target_path", "-tp",
                "Folder of a rank, of a step or of steps", compare.target);
  table
      .AddFlag(verb, "--golden_path", "-gp", "The same, to compare it with",
               compare.golden)
      .required(false);
  table.AddFlag(verb, "--output_path", "-o", "Folder of the database",
                compare.output);
  table
      .AddFlag(verb, "--layer_mapping", "-lm",
               "YAML: layers of a class and their counterparts",
               compare.layer_mapping)
      .required(false);
  table.AddSwitch(verb, "--fuzzy_match", "-fm",
                  "Pair calls with different numbers", compare.is_fuzzy);
  table.AddSwitch(verb, "--compat", "",
                  "Use the results of msprobe, including its mistakes",
                  compare.is_compat);
  AddUnusedFlags(table, verb, *flags);
}

}  // namespace msitd::msit_command
