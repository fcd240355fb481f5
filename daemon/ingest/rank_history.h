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

// Stores the last stream of each rank of each run and how long the stream was
// open. Thread-compatible; the pipeline guards it with its mutex.
class RankHistory {
 public:
  using Clock = std::chrono::steady_clock;

  // Maximum number of ranks. When it is reached, runs without open streams are
  // forgotten.
  static constexpr size_t kRanksMax = size_t{1} << 16;

  void Open(const std::string& run, int32_t rank, uint64_t stream_id);

  void NoteChunk(std::string_view run, int32_t rank);
  void End(std::string_view run, int32_t rank, bool is_finished);
  void Forget(std::string_view run);

  // Returns the id of the last stream; nullopt if none is known.
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
