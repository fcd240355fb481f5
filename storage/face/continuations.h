// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msitd::storage {

// Where one recording of a launch continues a run: the ranks of the launch
// begin at the same token, however late they are.
struct Continuation {
  std::string job;
  uint64_t number = 0;  // 1 for the first one of the run.
  int64_t first_token = 0;

  friend bool operator==(const Continuation&, const Continuation&) = default;
};

// The last continuation that a rank took part in, and the stream that did so.
struct RankContinuation {
  uint64_t number = 0;
  uint64_t stream_id = 0;

  friend bool operator==(const RankContinuation&,
                         const RankContinuation&) = default;
};

// What is stored of the continuations of a run for one rank.
struct RunContinuations {
  // The last ones, one for each job, by number.
  std::vector<Continuation> jobs;
  std::optional<RankContinuation> rank;
};

inline constexpr size_t kContinuationsMax = 64;

}  // namespace msitd::storage
