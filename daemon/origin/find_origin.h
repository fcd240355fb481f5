// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/match/stream_watch.h"
#include "daemon/origin/rank_origin.h"
#include "daemon/origin/symptom.h"
#include "daemon/query/token_requests.h"
#include "storage/face/run_reader.h"
#include "storage/run_ranks.h"

namespace msitd::origin {

// Maximum number of origins, of unknown ones, and of other ranks in an answer.
inline constexpr size_t kOriginsMax = 16;
inline constexpr size_t kReachedRanksMax = 64;

// An op, or a gap, at which the symptom began.
struct FoundOrigin {
  RankOrigin origin;
  // All ranks with their first symptom at this tensor, ascending.
  std::vector<int32_t> ranks;
  // The way to the last result of the rank; tensors, the origin first. Empty
  // for an unknown origin.
  std::vector<TensorKey> chain;
  // Steps of the chain that are left out, and the number of steps before them.
  int64_t omitted_count = 0;
  size_t omitted_after = 0;
  // The requests of the token.
  std::vector<query::TokenRequest> requests;
};

// A rank that has the symptom, but not first.
struct ReachedRank {
  int32_t rank = 0;
  int64_t token = 0;
  std::string tensor;  // `root.1 output/0`; empty for a later token.
};

struct IgnoredTensors {
  uint64_t count = 0;
  TensorKey first;
};

struct OriginAnswer {
  enum class Result : uint8_t {
    kNone,      // No tensor has the symptom.
    kFound,     // The first of `origins` made the first symptom.
    kNotKnown,  // Some tensor has the symptom, but a gap hides its maker.
  };

  Result result = Result::kNone;
  // Known origins. Those after the first one are independent of it.
  std::vector<FoundOrigin> origins;
  // First symptoms whose maker is not known.
  std::vector<FoundOrigin> unknown;
  // Number of places that both lists lack because they have kOriginsMax.
  uint64_t omitted_count = 0;
  std::vector<ReachedRank> reached;  // The first kReachedRanksMax by rank.
  uint64_t reached_count = 0;
  std::array<IgnoredTensors, kIgnoreRuleCount> ignored;
  uint64_t tensor_count = 0;
  uint64_t symptom_count = 0;
  // Tensors that could not be judged: they have no summary, have -Inf from an
  // op of unknown kind, or have as many bad elements as unused rows of a batch
  // although their call did not receive such rows. Others have missing parts,
  // or were dropped, truncated or lost. A place in the log that cannot be read
  // counts as one.
  uint64_t unknown_count = 0;
  uint64_t incomplete_count = 0;
  uint64_t lost_count = 0;
  storage::RunRanks ranks;
};

// Finds where the symptom began in a run. Scans all tensors once. Only the
// first token with a symptom is searched, on all ranks that have it there. No
// tensor of an earlier token has the symptom, but some may be ignored, unknown
// or lost. The origin is then not known if it may be state of an earlier token.
//
// `activity` is that of compare::FindLosses. Blocks on the reader. Errors:
// those of the reader; that of `stop`, which must be thread-safe.
absl::StatusOr<OriginAnswer> FindOrigin(storage::RunReader& run,
                                        const Condition& condition,
                                        const compare::ActivitySource* activity,
                                        storage::StopCheck stop);

}  // namespace msitd::origin
