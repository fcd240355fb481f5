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

// Remembers which stream was the last one of each rank of each run, and until
// when it was open. Thread-compatible: the pipeline guards it with its mutex.
class RankHistory {
 public:
  using Clock = std::chrono::steady_clock;

  // Ranks that are remembered. At this bound, runs that no rank streams to are
  // forgotten.
  static constexpr size_t kRanksMax = size_t{1} << 16;

  void Open(const std::string& run, int32_t rank, uint64_t stream_id);

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
  };
  struct Run {
    Clock::time_point since;
    std::map<int32_t, Rank> ranks;
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
