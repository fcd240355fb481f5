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

// Returns `c-000003: waiting for 2 other comparisons`; empty if the comparison
// is not waiting.
std::string WaitingText(const v1::Comparison& comparison);

// Prints on stderr what a comparison waits for, once it has waited for a
// moment, and again when that changes. Thread-compatible.
class WaitingNotice {
 public:
  void Show(const v1::Comparison& comparison);

 private:
  static constexpr std::chrono::milliseconds kDelay{500};

  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  std::string shown_;
};

// Prints rows as they arrive: one line of text each, or columns if the user
// selected some; CSV. In JSON, each row is an object on its own line. With
// names, prints nothing. Thread-compatible.
class RowLines {
 public:
  // `verdicts` selects rows: an empty list stands for all, null for none.
  // Prints at most `flags.limit` rows if that is not 0. Requests the metrics of
  // the daemon. Borrows `invocation`.
  static ask::Outcome Create(Invocation& invocation,
                             const std::vector<v1::Verdict>* verdicts,
                             const ListFlags& flags,
                             std::unique_ptr<RowLines>& out);

  void Add(const v1::ComparisonRow& row);

  // Writes all rows that were added.
  void Flush();

  int64_t printed_count() const { return printed_count_; }

 private:
  RowLines(Invocation& invocation, const std::vector<v1::Verdict>* verdicts,
           int64_t limit);

  Invocation& invocation_;
  const std::optional<std::vector<v1::Verdict>> verdicts_;
  const int64_t limit_;
  int64_t printed_count_ = 0;
  std::unique_ptr<ask::ListPrinter> printer_;  // For columns.
};

// Passes rows of `comparison` to `lines` until it is finished. Rows for which a
// watch holds are printed on stderr with any verdict. Keeps `comparison` up to
// date. Resumes after a restart of the daemon if possible.
ask::Outcome FollowComparison(Invocation& invocation, RowLines& lines,
                              v1::Comparison& comparison);

}  // namespace msitd::msitctl
