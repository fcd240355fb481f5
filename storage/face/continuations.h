// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msitd::storage {

// The point where one recording of a launch continues a run. All ranks of the
// launch start at the same token, regardless of when they join.
struct Continuation {
  std::string job;
  uint64_t number = 0;  // Number of the continuation in the run, from 1.
  int64_t first_token = 0;

  friend bool operator==(const Continuation&, const Continuation&) = default;
};

// The last continuation that a rank took part in, and its stream.
struct RankContinuation {
  uint64_t number = 0;
  uint64_t stream_id = 0;

  friend bool operator==(const RankContinuation&,
                         const RankContinuation&) = default;
};

// Stored continuations of a run, as needed for one rank.
struct RunContinuations {
  // The last continuation of each job, ordered by number.
  std::vector<Continuation> jobs;
  std::optional<RankContinuation> rank;
};

inline constexpr size_t kContinuationsMax = 64;

}  // namespace msitd::storage
