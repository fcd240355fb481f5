// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <span>
#include <string_view>

#include "client/ask/query/outcome.h"
#include "client/msitctl/compare/compare_flags.h"

// The flags of `compare run` that exclude each other.
//
// Many flags work in only one of the ways to run a comparison: on one daemon or
// several, with rows that arrive while it runs, or in parts. Each such pair is
// a row of one table, so that a new flag needs rows instead of a check in each
// of these ways, and all refusals read alike. The check needs only the command
// line: it makes no call, and runs before anything is created.
namespace msitd::msitctl {

// Operands that are not flags.
inline constexpr std::string_view kFarRun =
    "a run of another daemon or an archive";
inline constexpr std::string_view kFarTarget =
    "a target run of another daemon or an archive";

inline constexpr std::string_view kReportFile = "--out FILE";

// `flag` cannot be combined with `excludes`. Each is a long flag, a flag with
// one of its values such as `--rows all`, or one of the operands above.
struct FlagConflict {
  std::string_view flag;
  std::string_view excludes;
  std::string_view why;
};

// `flag` has no effect without `requires_flag`. Both are as in FlagConflict.
struct FlagRequirement {
  std::string_view flag;
  std::string_view requires_flag;
};

std::span<const FlagConflict> FlagConflicts();
std::span<const FlagRequirement> FlagRequirements();

// Returns the operands of the tables that hold for a command line whose runs
// are located and whose matcher is settled (SettleMatcher). `--match` holds if
// a matcher is selected, so for neither auto nor none.
std::set<std::string_view> GivenOperands(const CompareFlags& flags,
                                         bool has_endpoints);

// Returns a usage error for the first row of the tables that `given` violates:
// `A cannot be combined with B: why`, or `A requires B`.
ask::Outcome CheckFlags(const std::set<std::string_view>& given);

}  // namespace msitd::msitctl
