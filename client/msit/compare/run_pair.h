// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
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

// Two trees as runs of a daemon of their own. Import both sides, then compare
// them as often as you like. Thread-compatible; lives on the main thread.
class RunPair {
 public:
  // Borrows `interrupts`. The errors of PrivateRuns::Start.
  static absl::StatusOr<std::unique_ptr<RunPair>> Start(
      ask::Interrupts& interrupts);

  // Brings the tree that was opened at `root` into `run`, kGoldenRun or kMyRun.
  // A tree of one rank has rank 0 there. What is not compared, such as files
  // that cannot be read, is warned of. Errors: CANCELLED; RESOURCE_EXHAUSTED
  // once the disk is full; what the daemon says.
  absl::Status Import(const std::string& run, trees::Tree& tree,
                      const std::string& root, Logger& log);

  // A tree that was opened at `root`, and the run that it becomes.
  struct Side {
    std::string run;
    trees::Tree* tree = nullptr;
    std::string root;
  };
  // Does that with both sides at the same time: `second` is read by another
  // thread. Calls `on_first_over` once `first` is not read any more. Warnings
  // and errors of the first one come first, when both are over.
  absl::Status ImportBoth(const Side& first, const Side& second,
                          const std::function<void()>& on_first_over,
                          Logger& log);

  // What of the tree of `run` could not be imported: the first ones.
  const std::vector<fill::ImportProblems::Problem>& ProblemsOf(
      const std::string& run) const;

  // True if the ops of two runs have the same names. Both are imported.
  absl::StatusOr<bool> HaveSameOps(const std::string& golden,
                                   const std::string& my);

  // Puts the tensors of two runs together by `matcher`. Both are imported.
  absl::StatusOr<match::Mapping> Match(const std::string& golden,
                                       const std::string& my,
                                       match::Matcher matcher,
                                       const match::MatchOptions& options);

  // Compares two runs by a mapping, or by names. As PrivateRuns::Compare.
  absl::Status Compare(const std::string& golden, const std::string& my,
                       const match::Mapping* mapping,
                       v1::Comparison& comparison,
                       const PrivateRuns::TakeRow& take);

  // Keeps `text` with a run, in place of what has this name there.
  absl::Status Attach(const std::string& run, const std::string& name,
                      const std::string& media_type, const std::string& text);

 private:
  explicit RunPair(ask::Interrupts& interrupts) : interrupts_(interrupts) {}

  class SideImport;

  void Keep(SideImport& import);
  // What a matcher knows of a run, which is read once.
  absl::StatusOr<const match::RunFacts*> FactsOf(const std::string& run);

  ask::Interrupts& interrupts_;
  std::unique_ptr<PrivateRuns> runs_;
  // By run, as far as they are imported; without ops if these are not read.
  std::map<std::string, match::RunFacts> facts_;
  std::map<std::string, std::vector<fill::ImportProblems::Problem>> problems_;
  int mapping_count_ = 0;
};

}  // namespace msitd::msit_command
