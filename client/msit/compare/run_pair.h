// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/query/interrupts.h"
#include "client/foreign/fill/import_problems.h"
#include "client/foreign/match/match.h"
#include "client/msit/command/logger.h"
#include "client/msit/pair/private_runs.h"

namespace msitd::trees {
class Tree;
}  // namespace msitd::trees

namespace msitd::msit_command {

// Two trees as runs of a private daemon. Import both sides, then compare them
// any number of times. Thread-compatible; lives on the main thread.
class RunPair {
 public:
  // Borrows `interrupts`. Returns the errors of PrivateRuns::Start.
  static absl::StatusOr<std::unique_ptr<RunPair>> Start(
      ask::Interrupts& interrupts);

  // Imports the tree that was opened at `root` into `run`, kGoldenRun or
  // kMyRun. A tree of one rank has rank 0 there. Logs a warning for everything
  // that is not compared, such as files that cannot be read. Errors: CANCELLED;
  // RESOURCE_EXHAUSTED if the disk is full; errors of the daemon.
  absl::Status Import(const std::string& run, trees::Tree& tree,
                      const std::string& root, Logger& log);

  // A tree that was opened at `root`, and the run into which it is imported.
  struct Side {
    std::string run;
    trees::Tree* tree = nullptr;
    std::string root;
    // The token of everything in the tree, instead of its own ones.
    std::optional<int64_t> token = {};
    // Records the statistics of tensors whose files are missing.
    bool takes_substitutes = false;
  };
  // Imports both sides at the same time: another thread reads `second`. Calls
  // `on_first_over` once `first` is no longer being read. Returns when both are
  // imported; warnings and errors of the first one precede those of the second.
  absl::Status ImportBoth(const Side& first, const Side& second,
                          const std::function<void()>& on_first_over,
                          Logger& log);

  // The first files of the tree of `run` that could not be imported.
  const std::vector<fill::ImportProblems::Problem>& ProblemsOf(
      const std::string& run) const;

  // Returns true if the ops of two imported runs have the same names.
  absl::StatusOr<bool> HaveSameOps(const std::string& golden,
                                   const std::string& my);

  // Pairs the tensors of two imported runs with `matcher`.
  absl::StatusOr<match::Mapping> Match(const std::string& golden,
                                       const std::string& my,
                                       match::Matcher matcher,
                                       const match::MatchOptions& options);

  // Compares two runs using a mapping, or by name. See PrivateRuns::Compare.
  absl::Status Compare(const std::string& golden, const std::string& my,
                       const match::Mapping* mapping,
                       v1::Comparison& comparison,
                       const PrivateRuns::TakeRow& take);

  // Stores `text` with a run, and replaces any attachment with this name.
  absl::Status Attach(const std::string& run, const std::string& name,
                      const std::string& media_type, const std::string& text);

 private:
  explicit RunPair(ask::Interrupts& interrupts) : interrupts_(interrupts) {}

  class SideImport;

  void Keep(SideImport& import);
  // Returns the facts about a run that a matcher needs. They are read once.
  absl::StatusOr<const match::RunFacts*> FactsOf(const std::string& run);

  ask::Interrupts& interrupts_;
  std::unique_ptr<PrivateRuns> runs_;
  // By run, for runs that are imported; without ops if these were not read.
  std::map<std::string, match::RunFacts> facts_;
  std::map<std::string, std::vector<fill::ImportProblems::Problem>> problems_;
  int mapping_count_ = 0;
};

}  // namespace msitd::msit_command
