// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/flag_conflicts.h"

#include <fmt/format.h>

#include "client/msitctl/compare/run_place.h"

namespace msitd::msitctl {
namespace {

constexpr std::string_view kOneDaemon =
    "it supports a single daemon only; select it with --endpoint";
constexpr std::string_view kLocalRuns =
    "it supports only runs of the daemon that compares";
constexpr std::string_view kRowsInFiles =
    "a comparison in parts writes its rows to files";
constexpr std::string_view kPairsByName =
    "a comparison in parts pairs tensors by name only";
constexpr std::string_view kNeedsTheEnd =
    "plug-ins measure a finished comparison; add metrics later with compare "
    "metric";
constexpr std::string_view kMatcherPairs =
    "the matcher already determines the pairs of tensors";

constexpr FlagConflict kConflicts[] = {
    {"--mapping", "--mapping-file", "a comparison uses only one mapping"},

    {"--endpoints", kFarRun, kLocalRuns},
    {"--follow", kFarRun, kLocalRuns},
    {"--plugin", kFarRun, kLocalRuns},
    {"--match", kFarRun, kLocalRuns},
    {"--mapping-file", kFarTarget,
     "the file is attached to the target run on the daemon that compares"},

    {"--engine", "--endpoints", "a comparison in parts uses a single daemon"},
    {"--engine", "--follow",
     "the rows of a comparison in parts are available only at its end"},
    {"--engine", "--detach",
     "msitctl itself runs the parts, and waits for them"},
    {"--engine", "--plugin", kRowsInFiles},
    {"--engine", "--match", kPairsByName},
    {"--engine", "--mapping", kPairsByName},
    {"--engine", "--mapping-file", kPairsByName},
    {"--engine", "--rows all", kRowsInFiles},

    {kReportFile, "--endpoints",
     "a report is of the comparison of one daemon; write it with compare "
     "report"},
    {kReportFile, "--detach", "it reports the end of the comparison"},

    {"--follow", "--endpoints", kOneDaemon},
    {"--plugin", "--endpoints", kOneDaemon},
    {"--match", "--endpoints", kOneDaemon},
    {"--mapping-file", "--endpoints", kOneDaemon},

    {"--plugin", "--follow", kNeedsTheEnd},
    {"--plugin", "--detach", kNeedsTheEnd},

    {"--by request", "--endpoints", kOneDaemon},
    {"--by request", "--engine",
     "a request may be in several parts of the target run"},
    {"--by request", "--follow", "requests are joined in complete runs"},
    {"--by request", "--token-offset", "requests determine the tokens"},

    {"--match", "--follow", "a matcher needs the complete runs"},
    {"--match", "--mapping", kMatcherPairs},
    {"--match", "--mapping-file", kMatcherPairs},
    {"--match", "--op-map", kMatcherPairs},
    {"--match", "--rewrite", kMatcherPairs},
    {"--match", "--fuzzy", kMatcherPairs},
};

constexpr FlagRequirement kRequirements[] = {
    {"--ray-address", "--engine"},   {"--ray-address", "--engine ray"},
    {"--worker-config", "--engine"}, {"--no-passing-rows", "--engine"},
    {"--workers", "--engine"},       {"--request", "--by request"},
};

}  // namespace

std::span<const FlagConflict> FlagConflicts() { return kConflicts; }

std::span<const FlagRequirement> FlagRequirements() { return kRequirements; }

std::set<std::string_view> GivenOperands(const CompareFlags& flags,
                                         bool has_endpoints) {
  const MatchingFlags& matching = flags.matching;
  const PartsFlags& parts = flags.parts;
  const std::string& matcher = flags.match.matcher;
  std::set<std::string_view> given;
  const auto add = [&given](std::string_view operand, bool holds) {
    if (holds) given.insert(operand);
  };
  add(kFarRun, IsFar(flags));
  add(kFarTarget, !flags.target_source.empty());
  add("--endpoints", has_endpoints);
  add("--follow", flags.follow);
  add("--detach", flags.detach);
  add("--plugin", !flags.plugins.plugins.empty());
  add("--match", matcher != "auto" && matcher != "none");
  add("--mapping", !matching.mapping.empty());
  add("--mapping-file", !matching.mapping_file.empty());
  add("--op-map", !matching.op_map_file.empty());
  add("--rewrite", !matching.rewrites.empty());
  add("--fuzzy", matching.fuzzy);
  add("--by request", matching.by == "request");
  add("--request", !flags.selection.requests.empty());
  add("--token-offset", matching.token_offset != 0);
  add("--rows all", flags.rows == "all");
  add("--engine", parts.asked_for());
  add("--engine ray", parts.engine == "ray");
  add("--ray-address", !parts.ray_address.empty());
  add(kReportFile, !flags.out.empty() && !parts.asked_for());
  add("--worker-config", !parts.worker_config.empty());
  add("--no-passing-rows", parts.no_passing_rows);
  add("--workers", parts.workers > 0);
  return given;
}

ask::Outcome CheckFlags(const std::set<std::string_view>& given) {
  for (const FlagConflict& row : kConflicts) {
    if (!given.contains(row.flag) || !given.contains(row.excludes)) continue;
    return ask::UsageError(fmt::format("{} cannot be combined with {}: {}",
                                       row.flag, row.excludes, row.why));
  }
  for (const FlagRequirement& row : kRequirements) {
    if (!given.contains(row.flag) || given.contains(row.requires_flag)) {
      continue;
    }
    return ask::UsageError(
        fmt::format("{} requires {}", row.flag, row.requires_flag));
  }
  return {};
}

}  // namespace msitd::msitctl
