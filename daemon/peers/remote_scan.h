// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/peers/peer.h"
#include "daemon/peers/peer_stream.h"
#include "msitd/v1/run_reader_service.pb.h"
#include "protos/base/selector.h"
#include "storage/batch/entry_batch.h"
#include "storage/face/run_reader.h"

namespace msitd::peers {

// Files that contain parts of a peer have numbers below this one.
inline constexpr uint64_t kPeerFileEnd = uint64_t{1} << 63;

// Returns whether this holds for all parts of a tensor.
bool IsOfPeer(const storage::TensorInfo& tensor);

// A run of a peer: its name there, and its permanent id.
struct RemoteRun {
  std::string name;
  std::string id;
};

// Implements TensorScan for a run of a peer. Resumes at its position after the
// peer has been unavailable. Every entry is validated: it is well-formed,
// matches the selector, and follows all previous entries in primary order.
class RemoteScan final : public storage::TensorScan {
 public:
  // `peer` and `run` must outlive the scan.
  //
  // Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID.
  static absl::StatusOr<std::unique_ptr<storage::TensorScan>> Begin(
      Peer& peer, const RemoteRun& run, Selector selector,
      std::string_view position);

  absl::StatusOr<bool> Next(storage::TensorInfo& out,
                            storage::StopCheck stop) override;
  std::string position() const override;
  uint64_t incomplete_count() const override {
    return incomplete_before_ + incomplete_count_;
  }

 private:
  using Stream = PeerStream<v1::ScanTensorsRequest, v1::ScanTensorsResponse>;

  RemoteScan(Peer& peer, const RemoteRun& run, Selector selector);

  // Reads the next message of the peer, which may have no entries. Returns
  // false at the end.
  absl::StatusOr<bool> ReadMessage(storage::StopCheck stop);
  absl::Status Take(v1::ScanTensorsResponse& message);
  // Returns what is wrong with a received entry; empty if it is valid.
  std::string ProblemOf(const storage::TensorInfo& entry);

  Peer& peer_;
  const RemoteRun& run_;
  const Selector selector_;
  std::vector<v1::TensorFilter> filters_;
  size_t filter_ = 0;  // The current one.
  Retries retries_;
  std::unique_ptr<Stream> stream_;
  v1::ScanTensorsResponse message_;
  std::optional<storage::EntryBatchReader> batch_;
  // Entries of the batch that were returned or skipped.
  uint64_t taken_count_ = 0;
  // Entries of the batch to skip, because an earlier scan returned them.
  uint64_t passed_over_count_ = 0;
  std::string batch_begin_;  // Position of the peer.
  std::string batch_end_;
  uint64_t incomplete_before_ = 0;  // Before the current stream.
  uint64_t incomplete_count_ = 0;
  std::optional<storage::Coordinate> last_;
  std::set<std::string> devices_;  // Of that rank, so far.
  std::string last_op_;
};

}  // namespace msitd::peers
