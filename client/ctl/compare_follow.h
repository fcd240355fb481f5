// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "client/ctl/outcome.h"
#include "client/ctl/session.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

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
Outcome AwaitRun(Session& session, const std::string& run);

// Prints rows of `comparison` as they come until it is over: a line each, or
// with JSON an object each. `verdicts` selects; none stands for all, null for
// no rows. Rows for which a watch holds are told on stderr whatever their
// verdict. Keeps `comparison` up to date. Picks up again where a restarted
// daemon lets it.
Outcome FollowComparison(Session& session,
                         const std::vector<v1::Verdict>* verdicts,
                         v1::Comparison& comparison);

}  // namespace msitd::ctl
