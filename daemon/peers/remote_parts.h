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
#include "daemon/peers/peer.h"
#include "daemon/peers/peer_stream.h"
#include "daemon/peers/remote_scan.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "storage/face/run_reader.h"

namespace msitd::peers {

// A request to a peer: the bytes of a part, or those elements of a sample that
// lie in the part.
struct RemotePiece {
  storage::SamplePart of;  // For bytes, only its part.
  bool is_sample = false;
  uint64_t bytes = 0;  // Expected bytes.
};

// Returns the pieces of the first parts that fit into a batch.
std::vector<RemotePiece> PiecesOf(std::span<const storage::PartInfo> parts);
std::vector<RemotePiece> PiecesOf(std::span<const storage::SamplePart> samples);

// Implements PartBatch for a run of a peer. Bytes are received in the
// background, a few messages ahead, and are checked against their hashes here.
// Resumes after the peer has been unavailable.
class RemoteParts final : public storage::PartBatch {
 public:
  // All arguments except `pieces` must outlive the object.
  RemoteParts(Peer& peer, const RemoteRun& run, std::vector<RemotePiece> pieces,
              AlignedBuffer& buffer);

  size_t size() const override { return places_.size(); }
  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override;

 private:
  using Stream = PeerStream<v1::ReadPartsRequest, v1::ReadPartsResponse>;

  // Requests the next parts that have bytes.
  void Ask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReadMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the status of a piece as far as it is known without a request.
  absl::Status StatusOf(const RemotePiece& piece) const;
  // Skips pieces that were not requested.
  void PassOverEmpty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Take(const v1::ReadPartsResponse::Part& from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Peer& peer_;
  const RemoteRun& run_;
  const std::vector<RemotePiece> pieces_;
  std::vector<size_t> places_;  // In the buffer.
  AlignedBuffer& buffer_;

  Mutex mu_;
  Retries retries_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);
  // For each part before `next_`, why it cannot be read, or OK.
  std::vector<absl::Status> errors_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  size_t asked_end_ ABSL_GUARDED_BY(mu_) = 0;  // Of the current stream.
};

}  // namespace msitd::peers
