// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/fair_shares.h"
#include "daemon/ingest/ingest_stream.h"

namespace msitd::ingest {

// Contains all streams that are not gone: at most one for each rank of a run,
// and streams whose rank was released but whose end was not reported yet.
// Thread-compatible; the pipeline guards it with its mutex.
class StreamRegistry {
 public:
  // Allows at most `streams_max` streams at a time, divided among callers.
  explicit StreamRegistry(size_t streams_max)
      : shares_({.what = "streams",
                 .capacity = streams_max,
                 .reason = ErrorReason::kStreamsExhausted}) {}

  // Returns the stream that must be gone before `spec` can be opened; null if
  // there is none. This is the stream of the same rank if it is ending, or if
  // it has the same stream id because its producer has reconnected.
  //
  // Errors: ALREADY_EXISTS (RANK_BUSY) if another producer streams as this
  // rank.
  absl::StatusOr<StreamHandle> Predecessor(const StreamSpec& spec) const;

  // Returns the share that a stream of `caller` needs before it can be added.
  //
  // Errors: RESOURCE_EXHAUSTED (STREAMS_EXHAUSTED).
  absl::StatusOr<access::FairShares::Grant> AcquireShare(
      const access::Caller& caller) {
    return shares_.Acquire(caller);
  }

  // Adds a stream that has a share and no predecessor.
  void Add(StreamHandle stream);

  // Releases the rank of a stream that is ending. The stream counts towards
  // size() until Remove.
  void Release(IngestStream& stream);
  void Remove(IngestStream& stream);
  // Returns whether the stream still has its rank.
  bool Contains(const IngestStream& stream) const;

  std::vector<StreamHandle> StreamsOf(std::string_view run) const;
  std::vector<StreamHandle> All() const;
  // Returns at most `limit` streams that have their rank and sort after
  // `after`.
  std::vector<StreamHandle> After(
      const std::optional<std::pair<std::string, int32_t>>& after,
      size_t limit) const;
  size_t size() const { return by_rank_.size() + released_count_; }

 private:
  access::FairShares shares_;
  std::map<std::pair<std::string, int32_t>, StreamHandle> by_rank_;
  size_t released_count_ = 0;
};

}  // namespace msitd::ingest
