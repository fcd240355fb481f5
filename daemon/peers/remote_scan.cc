// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/remote_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/peers/run_messages.h"
#include "protos/status/status.h"

namespace msitd::peers {
namespace {

// Positions of peers are short; longer ones are invalid.
constexpr size_t kPositionBytesMax = 4096;

}  // namespace

bool IsOfPeer(const storage::TensorInfo& tensor) {
  return std::all_of(tensor.parts.begin(), tensor.parts.end(),
                     [](const storage::PartInfo& part) {
                       return part.place.file < kPeerFileEnd;
                     });
}

RemoteScan::RemoteScan(Peer& peer, const RemoteRun& run, Selector selector)
    : peer_(peer),
      run_(run),
      selector_(std::move(selector)),
      filters_(ToFilters(selector_)),
      retries_(peer) {}

// A position is the number of the selector's entries after a position of the
// peer.
absl::StatusOr<std::unique_ptr<storage::TensorScan>> RemoteScan::Begin(
    Peer& peer, const RemoteRun& run, Selector selector,
    std::string_view position) {
  MSITD_RETURN_IF_ERROR(peer.Check());
  std::unique_ptr<RemoteScan> out(
      new RemoteScan(peer, run, std::move(selector)));
  if (position.empty())
    return std::unique_ptr<storage::TensorScan>(std::move(out));
  if (position.size() < sizeof(uint64_t) ||
      position.size() > kPositionBytesMax) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "the position is of no scan of run {}", run.name),
        ErrorReason::kPageTokenInvalid);
  }
  std::memcpy(&out->passed_over_count_, position.data(), sizeof(uint64_t));
  out->batch_begin_ = out->batch_end_ = position.substr(sizeof(uint64_t));
  return std::unique_ptr<storage::TensorScan>(std::move(out));
}

std::string RemoteScan::position() const {
  const uint64_t count = taken_count_ + passed_over_count_;
  if (count == 0 && batch_begin_.empty()) return "";
  std::string out(reinterpret_cast<const char*>(&count), sizeof(count));
  return out + batch_begin_;
}

absl::StatusOr<bool> RemoteScan::Next(storage::TensorInfo& out,
                                      storage::StopCheck stop) {
  MSITD_RETURN_IF_ERROR(peer_.Check());
  while (true) {
    while (batch_.has_value()) {
      const absl::StatusOr<bool> found = batch_->Next(out);
      if (!found.ok()) {
        return peer_.FailByGarbage(Message(found.status()));
      }
      if (!*found) {
        batch_.reset();
        break;
      }
      const std::string problem = ProblemOf(out);
      if (!problem.empty()) return peer_.FailByGarbage(problem);
      ++taken_count_;
      if (passed_over_count_ > 0) {
        --passed_over_count_;
        continue;
      }
      // Needed if the list of devices was too long for the peer.
      if (!selector_.HasDevice(out.key.device)) continue;
      return true;
    }
    MSITD_RETURN_IF_ERROR(stop());
    MSITD_ASSIGN_OR_RETURN(const bool more, ReadMessage(stop));
    if (!more) return false;
  }
}

absl::StatusOr<bool> RemoteScan::ReadMessage(storage::StopCheck stop) {
  while (filter_ < filters_.size()) {
    if (stream_ == nullptr) {
      v1::ScanTensorsRequest request;
      request.set_run(run_.name);
      request.set_run_id(run_.id);
      *request.mutable_filter() = filters_[filter_];
      request.set_position(batch_end_);
      stream_ = std::make_unique<Stream>(
          peer_,
          &v1::RunReaderService::StubInterface::async_interface::ScanTensors,
          request);
      incomplete_before_ += std::exchange(incomplete_count_, 0);
    }
    bool is_stopped = false;
    const auto ask = [&stop, &is_stopped] {
      absl::Status status = stop();
      is_stopped = !status.ok();
      return status;
    };
    const absl::StatusOr<bool> found = stream_->Next(message_, ask);
    if (found.ok() && *found) {
      retries_.NoteProgress();
      MSITD_RETURN_IF_ERROR(Take(message_));
      return true;
    }
    if (found.ok()) {
      return peer_.FailByGarbage("a stream of entries ended before its end");
    }
    if (is_stopped) return found.status();
    stream_ = nullptr;
    MSITD_RETURN_IF_ERROR(retries_.Await(found.status(), stop));
  }
  return false;
}

absl::Status RemoteScan::Take(v1::ScanTensorsResponse& message) {
  if (message.position().size() > kPositionBytesMax - sizeof(uint64_t) ||
      message.entry_count() < 0 || message.incomplete_count() < 0) {
    return peer_.FailByGarbage("a message of entries contradicts itself");
  }
  // The entries to skip may extend over several messages.
  batch_begin_ = std::exchange(batch_end_, message.position());
  taken_count_ = 0;
  incomplete_count_ = static_cast<uint64_t>(message.incomplete_count());
  if (message.is_last()) {
    stream_ = nullptr;
    ++filter_;
  }
  if (message.entry_count() == 0 && message.entries().empty()) {
    return absl::OkStatus();
  }
  auto batch = storage::EntryBatchReader::Open(
      std::move(*message.mutable_entries()), run_.name);
  if (!batch.ok()) return peer_.FailByGarbage(Message(batch.status()));
  if (batch->entry_count() != static_cast<uint64_t>(message.entry_count())) {
    return peer_.FailByGarbage("a message has other entries than it counts");
  }
  batch_.emplace(*std::move(batch));
  return absl::OkStatus();
}

std::string RemoteScan::ProblemOf(const storage::TensorInfo& entry) {
  const TensorKey& key = entry.key;
  const bool is_of_last = last_.has_value() && last_->rank == key.rank &&
                          last_->token == key.token &&
                          last_->device == key.device;
  if (!is_of_last) {
    const bool goes_on =
        !last_.has_value() || last_->rank < key.rank ||
        (last_->rank == key.rank &&
         (last_->device != key.device || last_->token < key.token));
    // The devices of a rank are consecutive.
    if (!last_.has_value() || last_->rank != key.rank) devices_.clear();
    const bool is_of_device = last_.has_value() && last_->rank == key.rank &&
                              last_->device == key.device;
    if (!goes_on || (!is_of_device && !devices_.insert(key.device).second)) {
      return fmt::format("entries of rank {}, token {} come out of order",
                         key.rank, key.token);
    }
    if (!selector_.HasRank(key.rank) || !selector_.HasToken(key.token) ||
        (selector_.devices.size() <= Selector::kDevicesMax &&
         !selector_.HasDevice(key.device))) {
      return fmt::format("nobody asked for rank {}, device {}, token {}",
                         key.rank, key.device, key.token);
    }
    last_ = {key.rank, key.device, key.token};
    last_op_.clear();
  }
  if (!selector_.op_patterns.empty() && key.op != last_op_) {
    if (!selector_.HasOp(key.op)) {
      return fmt::format("nobody asked for op {}", key.op);
    }
    last_op_ = key.op;
  }
  if (!selector_.HasKind(entry.kind) || !selector_.HasIo(key.io)) {
    return fmt::format("nobody asked for a {} of op {}",
                       RecordKindName(entry.kind), key.op);
  }
  if (!IsOfPeer(entry)) return "a part that lies in no file of a daemon";
  return "";
}

}  // namespace msitd::peers
