// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/fleet/peer.h"
#include "daemon/fleet/peer_stream.h"
#include "daemon/fleet/remote_scan.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "storage/face/run_reader.h"

namespace msitd::fleet {

// PartBatch over a run of a peer. The bytes come while nobody asks for them, a
// few messages ahead, and are checked against their hashes here. Goes on when
// the peer comes back.
class RemoteParts final : public storage::PartBatch {
 public:
  // All outlive it.
  RemoteParts(Peer& peer, const RemoteRun& run,
              std::span<const storage::PartInfo> parts, AlignedBuffer& buffer);

  size_t size() const override { return places_.size(); }
  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override;

 private:
  using Stream = PeerStream<v1::ReadPartsRequest, v1::ReadPartsResponse>;

  // Asks for the next parts that have bytes.
  void Ask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReadMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Passes over parts that were not asked for, since they have no bytes.
  void PassOverEmpty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Take(const v1::ReadPartsResponse::Part& from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Peer& peer_;
  const RemoteRun& run_;
  const std::span<const storage::PartInfo> parts_;
  std::vector<size_t> places_;  // In the buffer.
  AlignedBuffer& buffer_;

  Mutex mu_;
  Retries retries_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);
  // Of the parts before `next_`: why they cannot be read, if so.
  std::vector<absl::Status> errors_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  size_t asked_end_ ABSL_GUARDED_BY(mu_) = 0;  // Of the stream at hand.
};

// Writes where the part is into `out`.
void ToAddress(const storage::PartInfo& part, v1::PartAddress& out);

// True if the peer has the bytes of a part. What it is not asked for has the
// error below.
bool IsAtPeer(const storage::PartInfo& part);
absl::Status NotAtPeer(const Peer& peer, const storage::PartInfo& part);

}  // namespace msitd::fleet
