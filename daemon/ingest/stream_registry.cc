// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/stream_registry.h"

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::ingest {

absl::StatusOr<StreamHandle> StreamRegistry::Predecessor(
    const StreamSpec& spec) const {
  const auto by_rank = by_rank_.find({spec.run, spec.rank});
  if (by_rank == by_rank_.end()) return nullptr;
  const IngestStream& other = *by_rank->second;
  if (other.end.has_value() || other.spec.stream_id == spec.stream_id) {
    return by_rank->second;
  }
  const bool is_of_same_process =
      ProcessOf(other.spec.stream_id) == ProcessOf(spec.stream_id);
  return WithReason(
      MakeStatus(absl::StatusCode::kAlreadyExists,
                 "rank {} of run '{}' is streaming already, from {} ({}): {}",
                 spec.rank, spec.run,
                 is_of_same_process ? "this process" : "another process",
                 other.spec.user_agent,
                 is_of_same_process
                     ? "close its client first, use that client, or set "
                       "if_exists to new"
                     : "use another name or rank, or set if_exists to new"),
      ErrorReason::kRankBusy);
}

void StreamRegistry::Add(StreamHandle stream) {
  const StreamSpec& spec = stream->spec;
  MSITD_CHECK(
      by_rank_.emplace(std::pair(spec.run, spec.rank), std::move(stream))
          .second);
}

void StreamRegistry::Release(IngestStream& stream) {
  MSITD_CHECK(Contains(stream));
  by_rank_.erase({stream.spec.run, stream.spec.rank});
  stream.released = true;
  ++released_count_;
}

void StreamRegistry::Remove(IngestStream& stream) {
  stream.share.Release();
  if (stream.released) {
    --released_count_;
    return;
  }
  by_rank_.erase({stream.spec.run, stream.spec.rank});
}

bool StreamRegistry::Contains(const IngestStream& stream) const {
  const auto found = by_rank_.find({stream.spec.run, stream.spec.rank});
  return found != by_rank_.end() && found->second.get() == &stream;
}

std::vector<StreamHandle> StreamRegistry::StreamsOf(
    std::string_view run) const {
  std::vector<StreamHandle> out;
  for (auto it = by_rank_.lower_bound({std::string(run), 0});
       it != by_rank_.end() && it->first.first == run; ++it) {
    out.push_back(it->second);
  }
  return out;
}

std::vector<StreamHandle> StreamRegistry::After(
    const std::optional<std::pair<std::string, int32_t>>& after,
    size_t limit) const {
  std::vector<StreamHandle> out;
  for (auto it = after.has_value() ? by_rank_.upper_bound(*after)
                                   : by_rank_.begin();
       it != by_rank_.end() && out.size() < limit; ++it) {
    out.push_back(it->second);
  }
  return out;
}

std::vector<StreamHandle> StreamRegistry::All() const {
  std::vector<StreamHandle> out;
  out.reserve(by_rank_.size());
  for (const auto& [key, stream] : by_rank_) out.push_back(stream);
  return out;
}

}  // namespace msitd::ingest
