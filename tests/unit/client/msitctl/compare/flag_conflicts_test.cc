// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/flag_conflicts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Returns the operands of both tables.
std::set<std::string_view> Operands() {
  std::set<std::string_view> out;
  for (const FlagConflict& row : FlagConflicts()) {
    out.insert({row.flag, row.excludes});
  }
  for (const FlagRequirement& row : FlagRequirements()) {
    out.insert({row.flag, row.requires_flag});
  }
  return out;
}

// Returns flags for which every operand of the tables holds.
CompareFlags AllFlags() {
  CompareFlags flags;
  flags.golden_source = flags.target_source = "node1:7741";
  flags.follow = flags.detach = true;
  flags.plugins.plugins = {"own.py:angle"};
  flags.match.matcher = "msprobe";
  flags.matching.mapping = flags.matching.mapping_file = "m";
  flags.matching.op_map_file = "m";
  flags.matching.rewrites = {"a=>b"};
  flags.matching.fuzzy = true;
  flags.matching.by = "request";
  flags.matching.token_offset = 1;
  flags.selection.requests = {"a"};
  flags.rows = "all";
  flags.parts.engine = "ray";
  flags.parts.ray_address = flags.out = flags.parts.worker_config = "x";
  flags.parts.no_passing_rows = true;
  flags.parts.workers = 1;
  return flags;
}

TEST(FlagConflictsTest, EveryRowIsRefusedWithItsText) {
  std::set<std::pair<std::string_view, std::string_view>> pairs;
  for (const FlagConflict& row : FlagConflicts()) {
    SCOPED_TRACE(fmt::format("{} {}", row.flag, row.excludes));
    EXPECT_FALSE(row.why.empty());
    EXPECT_TRUE(pairs.emplace(row.flag, row.excludes).second);
    EXPECT_FALSE(pairs.contains({row.excludes, row.flag}));
    const ask::Outcome outcome = CheckFlags({row.flag, row.excludes});
    EXPECT_EQ(outcome.exit_code, ask::kExitUsage);
    EXPECT_EQ(outcome.error, fmt::format("{} cannot be combined with {}: {}",
                                         row.flag, row.excludes, row.why));
  }
}

TEST(FlagConflictsTest, AFlagWithoutTheOneThatItRequiresIsRefused) {
  for (const FlagRequirement& row : FlagRequirements()) {
    SCOPED_TRACE(fmt::format("{} {}", row.flag, row.requires_flag));
    std::set<std::string_view> given = {row.flag};
    for (const FlagRequirement& other : FlagRequirements()) {
      if (other.flag == row.flag) given.insert(other.requires_flag);
    }
    EXPECT_TRUE(CheckFlags(given).ok());
    given.erase(row.requires_flag);
    const ask::Outcome outcome = CheckFlags(given);
    EXPECT_EQ(outcome.exit_code, ask::kExitUsage);
    EXPECT_EQ(outcome.error,
              fmt::format("{} requires {}", row.flag, row.requires_flag));
  }
}

TEST(FlagConflictsTest, EveryFlagOfTheTablesExists) {
  CommandLine line;
  const CLI::App* const verb =
      line.app().get_subcommand("compare")->get_subcommand("run");
  for (const std::string_view operand : Operands()) {
    if (operand == kFarRun || operand == kFarTarget) continue;
    const std::string flag(operand.substr(0, operand.find(' ')));
    const CLI::Option* option = verb->get_option_no_throw(flag);
    if (option == nullptr) option = line.app().get_option_no_throw(flag);
    EXPECT_NE(option, nullptr) << flag;
  }
}

TEST(FlagConflictsTest, EveryOperandIsRecognized) {
  CompareFlags flags = AllFlags();
  std::set<std::string_view> given = GivenOperands(flags, true);
  // With --engine, --out is a folder.
  EXPECT_FALSE(given.contains(kReportFile));
  flags.parts.engine.clear();
  given.merge(GivenOperands(flags, true));
  EXPECT_EQ(given, Operands());
  EXPECT_THAT(GivenOperands({}, /*has_endpoints=*/false), IsEmpty());
}

TEST(FlagConflictsTest, MatchersOfTheDefaultAreNotConflicts) {
  CompareFlags flags;
  for (const char* matcher : {"auto", "none"}) {
    flags.match.matcher = matcher;
    EXPECT_THAT(GivenOperands(flags, false), IsEmpty());
  }
  flags.match.matcher = "ge-fx";
  EXPECT_THAT(GivenOperands(flags, false), UnorderedElementsAre("--match"));
}

TEST(FlagConflictsTest, OnlyTheTargetExcludesAMappingFile) {
  CompareFlags flags;
  flags.matching.mapping_file = "m";
  flags.golden_source = "node1:7741";
  EXPECT_TRUE(CheckFlags(GivenOperands(flags, false)).ok());
  flags.target_source = "node1:7741";
  EXPECT_EQ(CheckFlags(GivenOperands(flags, false)).exit_code, ask::kExitUsage);
}

}  // namespace
}  // namespace msitd::msitctl
