// SPDX-License-Identifier: Apache-2.0
#include "client/msit/probe/dump_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/trees/msprobe/msprobe_layout.h"
#include "client/foreign/trees/tree_folder.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

using Source = trees::MsprobeIndex::Source;
using trees::MsprobePlace;

// Entries of a folder beyond this number that are not dumps are only counted.
constexpr size_t kProblemsListed = 20;

// The dump of a rank.
struct ProbeDump {
  std::string folder;
  bool is_process = false;
};

// The dumps of one side.
struct ProbeSide {
  std::string path;
  // A single dump: `path` is its folder or its file.
  bool is_single = false;
  Source source = Source::kDump;
  // By step, then rank.
  std::map<int64_t, std::map<int32_t, ProbeDump>> steps;
  std::vector<trees::TreeProblem> problems;
};

bool Exists(const std::string& folder, std::string_view name) {
  std::error_code error;
  return std::filesystem::is_regular_file(trees::JoinPath(folder, name), error);
}

absl::StatusOr<ProbeSide> SideOfFile(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name != names::kMsprobeDump && name != names::kMsprobeDebug) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: the file of a dump is named {} or {}", path.string(),
                      names::kMsprobeDump, names::kMsprobeDebug);
  }
  ProbeSide out;
  out.path = path.string();
  out.is_single = true;
  if (name == names::kMsprobeDebug) out.source = Source::kDebug;
  out.steps[0][0].folder =
      path.has_parent_path() ? path.parent_path().string() : std::string(".");
  return out;
}

absl::StatusOr<ProbeSide> SideOf(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return MakeStatus(absl::StatusCode::kNotFound, "{}: no such file or folder",
                      path);
  }
  if (!std::filesystem::is_directory(status)) return SideOfFile(path);
  MSITD_ASSIGN_OR_RETURN(const auto folder, trees::TreeFolder::Open(path));
  auto layout = trees::LayOutMsprobe(folder);
  if (!layout.ok()) return Annotate(layout.status(), path);
  ProbeSide out;
  out.path = path;
  for (const MsprobePlace& place : layout->places) {
    out.steps[place.token][place.rank] = {folder.PathOf(place.path),
                                          place.is_process};
    out.is_single = place.path.empty();
  }
  out.problems = std::move(layout->problems);
  const std::string& first = out.steps.begin()->second.begin()->second.folder;
  const bool has_dump = Exists(first, names::kMsprobeDump);
  if (!has_dump && Exists(first, names::kMsprobeDebug)) {
    out.source = Source::kDebug;
  }
  return out;
}

// Returns `rank0` for the folder of a rank.
std::string NameOfFolder(const std::string& folder) {
  const std::filesystem::path path(folder);
  return path.has_filename() ? path.filename().string()
                             : path.parent_path().filename().string();
}

// The numbers of two sides that belong together.
struct NumberPairs {
  std::vector<std::pair<int64_t, int64_t>> pairs;  // Golden first.
  // Numbers that exist on one side only.
  std::vector<int64_t> golden_left;
  std::vector<int64_t> target_left;
  bool is_by_order = false;
};

NumberPairs PairNumbers(const std::set<int64_t>& golden,
                        const std::set<int64_t>& target) {
  NumberPairs out;
  for (const int64_t number : golden) {
    if (target.contains(number)) {
      out.pairs.emplace_back(number, number);
    } else {
      out.golden_left.push_back(number);
    }
  }
  for (const int64_t number : target) {
    if (!golden.contains(number)) out.target_left.push_back(number);
  }
  if (!out.pairs.empty() || golden.size() != target.size()) return out;
  out.is_by_order = true;
  auto other = target.begin();
  for (const int64_t number : golden) out.pairs.emplace_back(number, *other++);
  out.golden_left.clear();
  out.target_left.clear();
  return out;
}

template <typename Map>
std::set<int64_t> KeysOf(const Map& map) {
  std::set<int64_t> out;
  for (const auto& [number, value] : map) out.insert(number);
  return out;
}

class PairFinder {
 public:
  PairFinder(const ProbeSide& golden, const ProbeSide& target)
      : golden_(golden), target_(target) {}

  absl::StatusOr<ProbePairs> Find() {
    if (golden_.is_single != target_.is_single) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{} is a single dump and {} has folders of ranks",
                        (golden_.is_single ? golden_ : target_).path,
                        (golden_.is_single ? target_ : golden_).path);
    }
    if (golden_.source != target_.source) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{} and {}: one has a {} and the other a {}",
                        golden_.path, target_.path, names::kMsprobeDump,
                        names::kMsprobeDebug);
    }
    for (const ProbeSide* const side : {&golden_, &target_})
      WarnOfOthers(*side);
    const NumberPairs steps =
        PairNumbers(KeysOf(golden_.steps), KeysOf(target_.steps));
    const bool has_steps = golden_.steps.size() > 1 || target_.steps.size() > 1;
    // A single step may have another number on the other side.
    if (has_steps) Warn("step", "", steps);
    for (const auto& [golden, target] : steps.pairs) {
      PairRanks(golden, target, has_steps);
    }
    if (out_.pairs.empty()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{} and {} have no rank and step in common",
                        golden_.path, target_.path);
    }
    return std::move(out_);
  }

 private:
  void PairRanks(int64_t golden_step, int64_t target_step, bool has_steps) {
    const auto& golden = golden_.steps.at(golden_step);
    const auto& target = target_.steps.at(target_step);
    const NumberPairs ranks = PairNumbers(KeysOf(golden), KeysOf(target));
    const bool is_single = golden_.is_single && target_.is_single;
    const std::string step =
        has_steps ? fmt::format("step{}", target_step) : std::string();
    if (!is_single) Warn("rank", has_steps ? step + ": " : "", ranks);
    for (const auto& [golden_rank, target_rank] : ranks.pairs) {
      const ProbeDump& one = golden.at(static_cast<int32_t>(golden_rank));
      const ProbeDump& other = target.at(static_cast<int32_t>(target_rank));
      if (!is_single && !ranks.is_by_order) WarnOfProcesses(one, other);
      ProbePair pair;
      pair.golden = one.folder;
      pair.target = other.folder;
      pair.source = golden_.source;
      pair.step = target_step;
      pair.rank = static_cast<int32_t>(target_rank);
      if (has_steps) pair.label = "_" + step;
      if (!is_single) pair.label += "_" + NameOfFolder(pair.target);
      out_.pairs.push_back(std::move(pair));
    }
  }

  // Warns about entries of a folder that are not dumps, and about processes.
  void WarnOfOthers(const ProbeSide& side) {
    // A graph of one dump has the same side twice.
    if (&side == &target_ && golden_.path == target_.path) return;
    const size_t count = side.problems.size();
    for (size_t i = 0; i < std::min(count, kProblemsListed); ++i) {
      const trees::TreeProblem& problem = side.problems[i];
      out_.warnings.push_back(fmt::format(
          "{}: {}", problem.file, std::string(problem.reason.message())));
    }
    if (count <= kProblemsListed) return;
    out_.warnings.push_back(fmt::format("{}: {} more entries are not dumps",
                                        side.path, count - kProblemsListed));
  }

  // The numbers of processes do not say which ones belong together.
  void WarnOfProcesses(const ProbeDump& golden, const ProbeDump& target) {
    if (!golden.is_process && !target.is_process) return;
    if (golden.folder == target.folder) return;
    out_.warnings.push_back(
        fmt::format("golden {} and target {} are compared, because they have "
                    "the same position",
                    golden.folder, target.folder));
  }

  void Warn(std::string_view what, const std::string& prefix,
            const NumberPairs& numbers) {
    for (const auto& [left, side] :
         {std::pair(&numbers.golden_left, &golden_),
          std::pair(&numbers.target_left, &target_)}) {
      if (left->empty()) continue;
      out_.warnings.push_back(
          fmt::format("{}{} {} is not compared: only {} has it", prefix, what,
                      fmt::join(*left, ", "), side->path));
    }
    if (!numbers.is_by_order) return;
    for (const auto& [golden, target] : numbers.pairs) {
      out_.warnings.push_back(
          fmt::format("{}golden {} {} and target {} {} are compared, because "
                      "they have the same position",
                      prefix, what, golden, what, target));
    }
  }

  const ProbeSide& golden_;
  const ProbeSide& target_;
  ProbePairs out_;
};

}  // namespace

absl::StatusOr<ProbePairs> FindProbePairs(const std::string& golden,
                                          const std::string& target) {
  MSITD_ASSIGN_OR_RETURN(const ProbeSide golden_side, SideOf(golden));
  MSITD_ASSIGN_OR_RETURN(const ProbeSide target_side, SideOf(target));
  return PairFinder(golden_side, target_side).Find();
}

}  // namespace msitd::msit_command
