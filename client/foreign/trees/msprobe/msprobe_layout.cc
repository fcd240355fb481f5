// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/trees/json/numbers.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

// The folder of a rank, parsed from its name.
struct RankName {
  bool is_process = false;
  int64_t number = 0;
};

// Parses `<prefix><number>`.
std::optional<int64_t> NumberBehind(std::string_view prefix,
                                    std::string_view name, int64_t max) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto number = ParseNumber(name.substr(prefix.size()));
  return number.has_value() && *number <= max ? number : std::nullopt;
}

std::optional<RankName> ParseRankName(std::string_view name) {
  if (name == "rank") return RankName{false, 0};
  if (const auto rank = NumberBehind("rank", name, kRankMax)) {
    return RankName{false, *rank};
  }
  if (const auto process = NumberBehind("proc", name, INT64_MAX)) {
    return RankName{true, *process};
  }
  return std::nullopt;
}

std::optional<int64_t> ParseStepName(std::string_view name) {
  return NumberBehind("step", name, kTokenMax);
}

bool HasDump(const std::vector<std::string>& files) {
  return std::any_of(files.begin(), files.end(), [](const std::string& name) {
    return name == names::kMsprobeDump || name == names::kMsprobeDebug;
  });
}

class Finder {
 public:
  explicit Finder(const TreeFolder& folder) : folder_(folder) {}

  absl::StatusOr<MsprobeLayout> Find() {
    Listing top = folder_.List("");
    const std::vector<std::string>& above = folder_.above();
    const std::string name = above.empty() ? "" : above.back();
    const auto has = [&top](auto parse) {
      return std::any_of(
          top.folders.begin(), top.folders.end(),
          [parse](const std::string& one) { return parse(one).has_value(); });
    };
    if (HasDump(top.files)) {
      const auto rank = ParseRankName(name);
      const std::string parent =
          above.size() < 2 ? "" : above[above.size() - 2];
      found_.push_back(
          {rank.value_or(RankName()), ParseStepName(parent).value_or(0), ""});
    } else if (has(ParseRankName)) {
      Step(std::move(top), "", ParseStepName(name).value_or(0));
    } else if (has(ParseStepName)) {
      Root(std::move(top));
    }
    if (found_.empty()) {
      return absl::InvalidArgumentError(
          "there is no folder step<N> or rank<R>, and no dump.json");
    }
    NumberRanks();
    return std::move(layout_);
  }

 private:
  struct FoundDump {
    RankName rank;
    int64_t token;
    std::string path;
  };

  void Root(Listing listing) {
    Files(listing, "");
    for (const std::string& name : listing.folders) {
      if (const auto step = ParseStepName(name)) {
        Step(folder_.List(name), name, *step);
      } else {
        NoDump(name, "it is not the folder of a step");
      }
    }
  }

  void Step(Listing listing, const std::string& path, int64_t step) {
    Files(listing, path);
    for (const std::string& name : listing.folders) {
      if (const auto rank = ParseRankName(name)) {
        found_.push_back({*rank, step, JoinPath(path, name)});
      } else {
        NoDump(JoinPath(path, name), "it is not the folder of a rank");
      }
    }
  }

  // Handles files next to the folders. Files that msprobe is known to write are
  // attached to the run.
  void Files(Listing& listing, const std::string& path) {
    for (TreeProblem& problem : listing.problems) {
      layout_.problems.push_back(std::move(problem));
    }
    for (const std::string& name : listing.files) {
      const std::string relative = JoinPath(path, name);
      const bool is_json =
          name.starts_with("kernel_config_") && name.ends_with(".json");
      if (is_json || name == "free_benchmark.csv") {
        layout_.attachments.push_back(
            {relative, folder_.PathOf(relative),
             is_json ? "application/json" : "text/csv"});
      } else {
        NoDump(relative, "msprobe writes no such file here");
      }
    }
  }

  void NoDump(const std::string& relative, std::string_view why) {
    layout_.problems.push_back({folder_.PathOf(relative),
                                MakeStatus(absl::StatusCode::kInvalidArgument,
                                           "not a dump: {}", why)});
  }

  void NumberRanks() {
    int32_t next = 0;
    std::map<int64_t, int32_t> processes;
    for (const FoundDump& found : found_) {
      if (found.rank.is_process) {
        processes[found.rank.number] = 0;
      } else {
        next = std::max(next, static_cast<int32_t>(found.rank.number) + 1);
      }
    }
    const bool is_clear = next == 0 && processes.size() == 1;
    for (auto& [process, rank] : processes) {
      rank = next++;
      if (is_clear) continue;
      layout_.problems.push_back(
          {folder_.PathOf(""),
           MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "proc{} does not specify its rank, so rank {} is used",
                      process, rank)});
    }
    for (FoundDump& found : found_) {
      const int64_t rank = found.rank.is_process ? processes[found.rank.number]
                                                 : found.rank.number;
      layout_.places.push_back({static_cast<int32_t>(rank), found.token,
                                std::move(found.path), found.rank.is_process});
    }
    DropDoubles();
  }

  // `rank` and `rank0` are the same rank, `step1` and `step01` the same step.
  void DropDoubles() {
    std::vector<MsprobePlace>& places = layout_.places;
    const auto id = [](const MsprobePlace& place) {
      return std::tuple(place.rank, place.token);
    };
    std::stable_sort(places.begin(), places.end(),
                     [id](const MsprobePlace& a, const MsprobePlace& b) {
                       return id(a) < id(b);
                     });
    for (size_t i = 1; i < places.size();) {
      if (id(places[i - 1]) != id(places[i])) {
        ++i;
        continue;
      }
      NoDump(places[i].path, "another folder has the same rank and step: " +
                                 places[i - 1].path);
      places.erase(places.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const TreeFolder& folder_;
  std::vector<FoundDump> found_;
  MsprobeLayout layout_;
};

}  // namespace

bool LooksLikeMsprobe(const TreeSample& sample) {
  return std::any_of(sample.folders.begin(), sample.folders.end(),
                     [](const SampledFolder& folder) {
                       const auto names = SplitPath(folder.path);
                       return HasDump(folder.files) &&
                              (names.empty() || ParseRankName(names.back()));
                     });
}

absl::StatusOr<MsprobeLayout> LayOutMsprobe(const TreeFolder& folder) {
  return Finder(folder).Find();
}

}  // namespace msitd::trees
