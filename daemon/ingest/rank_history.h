// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "protos/base/rank_activity.h"

namespace msitd::ingest {

// Remembers which stream was the last one of each rank of each run, until when
// it was open, and where jobs that append to a run continue. Thread-compatible:
// the pipeline guards it with its mutex.
class RankHistory {
 public:
  using Clock = std::chrono::steady_clock;

  // Ranks that are remembered. At this bound, runs that no rank streams to are
  // forgotten.
  static constexpr size_t kRanksMax = size_t{1} << 16;

  // Jobs for which it is remembered where they continue a run. At this bound,
  // the one that began first is forgotten.
  static constexpr size_t kContinuationsMax = 64;

  void Open(const std::string& run, int32_t rank, uint64_t stream_id);

  // Returns the token at which a stream of `job` continues a run whose highest
  // token is `token_end` - 1. The first rank of a job determines it, and later
  // ranks of the job get the same one, also if other jobs have continued the
  // run since. A rank that comes again with the same job begins another
  // continuation of it.
  int64_t Continue(const std::string& run, int32_t rank, uint64_t stream_id,
                   std::string_view job, int64_t token_end);
  // True if ranks of `job` have continued the run.
  bool HasContinued(std::string_view run, std::string_view job) const;
  void NoteChunk(std::string_view run, int32_t rank);
  void End(std::string_view run, int32_t rank, bool is_finished);
  void Forget(std::string_view run);

  // The id of the last stream; nothing if none is known.
  std::optional<uint64_t> StreamOf(std::string_view run, int32_t rank) const;

  RunActivity ActivityOf(std::string_view run) const;

 private:
  struct Rank {
    uint64_t stream_id = 0;
    RankActivity::State state = RankActivity::State::kOpen;
    Clock::time_point since;
    // The last continuation that it took part in, and the stream that did so.
    uint64_t continuation = 0;
    uint64_t continued_by = 0;
  };
  struct Continuation {
    uint64_t number = 0;  // 1 for the first one of the run.
    int64_t first_token = 0;
  };
  struct Run {
    Clock::time_point since;
    std::map<int32_t, Rank> ranks;
    std::map<std::string, Continuation, std::less<>> continuations;  // By job.
    uint64_t continuation_count = 0;  // Of all that were begun.
  };

  Rank* Find(std::string_view run, int32_t rank);
  Run& FindOrAdd(const std::string& run);
  Rank& FindOrAdd(Run& run, int32_t rank);
  void MakeRoom();

  const Clock::time_point start_ = Clock::now();
  std::map<std::string, Run, std::less<>> runs_;
  size_t rank_count_ = 0;
};

}  // namespace msitd::ingest
