// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "protos/base/stream_id.h"

// The seam between the transports and the pipeline. A transport lends memory
// and hears about progress; nothing else crosses.
namespace msitd::ingest {

// Who streams. The transport has checked the names and ranges.
struct StreamSpec {
  std::string run;
  int32_t rank = 0;
  int32_t world_size = 0;  // At least 1, above `rank`.
  uint64_t stream_id = 0;  // Not 0.
  std::string user_agent;  // For logs.
  // The producer can rewrite what it offered until that is committed.
  bool shares_memory = false;
  IfExists if_exists = IfExists::kFail;
  // The launch that the producer belongs to; empty for that of its process.
  std::string job = {};
};

// Memory that a transport lends with a chunk. Destroying it says that the
// bytes are no longer read: the slot or buffer is free. Happens once, on any
// thread, with no lock held.
class Lease {
 public:
  virtual ~Lease() = default;
};

// A transport's end of one stream. All calls come from one thread of the
// pipeline, one after another, with no lock held; they must not block, and may
// call the pipeline.
class StreamPeer {
 public:
  // The first `count` chunks of the stream are durable; since it was opened,
  // `conflict_count` records of them came again with other bytes than the run
  // has. Neither decreases.
  virtual void Commit(uint64_t count, uint64_t conflict_count) = 0;

  // The producer is to record what `policy` says: encoded capture::Policies.
  virtual void SetCapturePolicy(const std::string& policy) = 0;

  // There is room again after an Offer that returned kWait.
  virtual void Resume() = 0;

  // The stream is over: every chunk that was taken has been committed or, if
  // the storage failed, dropped. OK if the transport finished it. The last
  // call, made exactly once; the peer may die in it.
  virtual void End(const absl::Status& status) = 0;

 protected:
  ~StreamPeer() = default;
};

}  // namespace msitd::ingest
