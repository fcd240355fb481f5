// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/match/match.h"
#include "client/msit/logger.h"
#include "client/msit/private_runs.h"
#include "client/query/interrupts.h"

namespace msitd::trees {
class Tree;
}  // namespace msitd::trees

namespace msitd::msit {

// Two trees as runs of a daemon of their own. Import both sides, then compare
// them as often as you like. Thread-compatible; lives on the main thread.
class RunPair {
 public:
  // Borrows `interrupts`. The errors of PrivateRuns::Start.
  static absl::StatusOr<std::unique_ptr<RunPair>> Start(
      ctl::Interrupts& interrupts);

  // Brings the tree that was opened at `root` into `run`, kGoldenRun or kMyRun.
  // A tree of one rank has rank 0 there. What is not compared, such as files
  // that cannot be read, is warned of. Errors: CANCELLED; RESOURCE_EXHAUSTED
  // once the disk is full; what the daemon says.
  absl::Status Import(const std::string& run, trees::Tree& tree,
                      const std::string& root, Logger& log);

  // Puts the tensors of two runs together by `matcher`, or by that which their
  // sources ask for. Nothing if their names are enough.
  absl::Status Match(const std::string& golden, const std::string& my,
                     std::optional<match::Matcher> matcher,
                     const match::MatchOptions& options,
                     std::optional<match::Mapping>& mapping);

  // Compares two runs by a mapping, or by names. As PrivateRuns::Compare.
  absl::Status Compare(const std::string& golden, const std::string& my,
                       const match::Mapping* mapping,
                       v1::Comparison& comparison,
                       const PrivateRuns::TakeRow& take);

  // Keeps `text` with a run, in place of what has this name there.
  absl::Status Attach(const std::string& run, const std::string& name,
                      const std::string& media_type, const std::string& text);

 private:
  explicit RunPair(ctl::Interrupts& interrupts) : interrupts_(interrupts) {}

  ctl::Interrupts& interrupts_;
  std::unique_ptr<PrivateRuns> runs_;
  int mapping_count_ = 0;
};

}  // namespace msitd::msit
