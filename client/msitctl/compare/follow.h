// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/ask/print/printer.h"
#include "client/ask/query/outcome.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/verb/pages.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// `c-000003: waiting behind 2 comparisons`; empty for one that does not.
std::string WaitingText(const v1::Comparison& comparison);

// Says on stderr what a comparison waits for, once it has done so for a moment,
// and again whenever that changes. Thread-compatible.
class WaitingNotice {
 public:
  void Show(const v1::Comparison& comparison);

 private:
  static constexpr std::chrono::milliseconds kDelay{500};

  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  std::string shown_;
};

// Waits until there is a run of that name.
ask::Outcome AwaitRun(Invocation& invocation, const std::string& run);

// Prints rows as they come: a line each in words, or in columns if some are
// asked for; CSV; with JSON an object each, on a line of its own; with names,
// nothing. Thread-compatible.
class RowLines {
 public:
  // `verdicts` selects; none stands for all, null for no rows. At most
  // `flags.limit` are printed if that is not 0. Asks the daemon which metrics
  // it has. Borrows `invocation`.
  static ask::Outcome Create(Invocation& invocation,
                             const std::vector<v1::Verdict>* verdicts,
                             const ListFlags& flags,
                             std::unique_ptr<RowLines>& out);

  void Add(const v1::ComparisonRow& row);

  // Writes out what was added.
  void Flush();

  int64_t printed_count() const { return printed_count_; }

 private:
  RowLines(Invocation& invocation, const std::vector<v1::Verdict>* verdicts,
           int64_t limit);

  Invocation& invocation_;
  const std::optional<std::vector<v1::Verdict>> verdicts_;
  const int64_t limit_;
  int64_t printed_count_ = 0;
  std::unique_ptr<ask::ListPrinter> printer_;  // Of columns.
};

// Gives rows of `comparison` to `lines` until it is over. Rows for which a
// watch holds are told on stderr whatever their verdict. Keeps `comparison` up
// to date. Picks up again where a restarted daemon lets it.
ask::Outcome FollowComparison(Invocation& invocation, RowLines& lines,
                              v1::Comparison& comparison);

}  // namespace msitd::msitctl
