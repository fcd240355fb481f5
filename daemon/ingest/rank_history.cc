// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/rank_history.h"

#include <algorithm>

namespace msitd::ingest {

void RankHistory::Open(const std::string& run, int32_t rank,
                       uint64_t stream_id) {
  Rank& entry = FindOrAdd(FindOrAdd(run), rank);
  entry.stream_id = stream_id;
  entry.state = RankActivity::State::kOpen;
  entry.since = Clock::now();
}

void RankHistory::NoteChunk(std::string_view run, int32_t rank) {
  if (Rank* const known = Find(run, rank)) known->since = Clock::now();
}

void RankHistory::End(std::string_view run, int32_t rank, bool is_finished) {
  Rank* const known = Find(run, rank);
  if (known == nullptr) return;
  known->state = is_finished ? RankActivity::State::kFinished
                             : RankActivity::State::kBroken;
  known->since = Clock::now();
}

void RankHistory::Forget(std::string_view run) {
  const auto known = runs_.find(run);
  if (known == runs_.end()) return;
  rank_count_ -= known->second.ranks.size();
  runs_.erase(known);
}

std::optional<uint64_t> RankHistory::StreamOf(std::string_view run,
                                              int32_t rank) const {
  const auto known = runs_.find(run);
  if (known == runs_.end()) return std::nullopt;
  const auto entry = known->second.ranks.find(rank);
  if (entry == known->second.ranks.end()) return std::nullopt;
  return entry->second.stream_id;
}

RunActivity RankHistory::ActivityOf(std::string_view run) const {
  const auto now = Clock::now();
  RunActivity out;
  out.known_time = now - start_;
  const auto known = runs_.find(run);
  if (known == runs_.end()) return out;
  out.known_time = now - known->second.since;
  for (const auto& [rank, entry] : known->second.ranks) {
    out.ranks.push_back({rank, entry.state, now - entry.since});
  }
  return out;
}

RankHistory::Rank* RankHistory::Find(std::string_view run, int32_t rank) {
  const auto known = runs_.find(run);
  if (known == runs_.end()) return nullptr;
  const auto entry = known->second.ranks.find(rank);
  return entry == known->second.ranks.end() ? nullptr : &entry->second;
}

RankHistory::Run& RankHistory::FindOrAdd(const std::string& run) {
  if (rank_count_ >= kRanksMax) MakeRoom();
  const auto [known, is_new] = runs_.try_emplace(run);
  if (is_new) known->second.since = Clock::now();
  return known->second;
}

RankHistory::Rank& RankHistory::FindOrAdd(Run& run, int32_t rank) {
  const auto [entry, is_new] = run.ranks.try_emplace(rank);
  rank_count_ += is_new ? 1 : 0;
  return entry->second;
}

void RankHistory::MakeRoom() {
  for (auto run = runs_.begin(); run != runs_.end();) {
    const bool streams =
        std::any_of(run->second.ranks.begin(), run->second.ranks.end(),
                    [](const auto& rank) {
                      return rank.second.state == RankActivity::State::kOpen;
                    });
    if (!streams) rank_count_ -= run->second.ranks.size();
    run = streams ? std::next(run) : runs_.erase(run);
  }
}

}  // namespace msitd::ingest
