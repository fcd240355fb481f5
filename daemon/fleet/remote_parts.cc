// SPDX-License-Identifier: Apache-2.0
#include "daemon/fleet/remote_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::fleet {
namespace {

// Messages that wait, each of up to a whole part.
constexpr size_t kPartsWindow = 2;

// Parts of one request: no more than a peer takes.
constexpr size_t kAskedPartsMax = 1000;

// Whatever else a peer says would not be an error of a part.
absl::StatusCode CodeOf(const v1::ReadPartsResponse::Part& part) {
  for (const auto code :
       {absl::StatusCode::kNotFound, absl::StatusCode::kUnavailable,
        absl::StatusCode::kResourceExhausted}) {
    if (part.error_code() == static_cast<int>(code)) return code;
  }
  return absl::StatusCode::kDataLoss;
}

absl::Status NeverStop() { return absl::OkStatus(); }

}  // namespace

void ToAddress(const storage::PartInfo& part, v1::PartAddress& out) {
  out.set_file(part.place.file);
  out.set_offset(part.place.offset);
  out.set_size_bytes(part.bytes);
  out.set_hash_low(part.hash.low);
  out.set_hash_high(part.hash.high);
}

bool IsAtPeer(const storage::PartInfo& part) {
  return part.has_bytes && part.place.file < kPeerFileEnd;
}

absl::Status NotAtPeer(const Peer& peer, const storage::PartInfo& part) {
  if (part.place.file >= kPeerFileEnd) {
    return MakeStatus(absl::StatusCode::kInternal,
                      "peer {}: a part of another store", peer.endpoint());
  }
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound, "peer {}: the bytes are not kept",
                 peer.endpoint()),
      ErrorReason::kTensorExpired);
}

RemoteParts::RemoteParts(Peer& peer, const RemoteRun& run,
                         std::span<const storage::PartInfo> parts,
                         AlignedBuffer& buffer)
    : peer_(peer), run_(run), parts_(parts), buffer_(buffer), retries_(peer) {
  size_t end = 0;
  for (const storage::PartInfo& part : parts_) {
    // A part that no daemon keeps has no bytes to read.
    const size_t bytes = part.has_bytes && part.bytes <= kPartBytes
                             ? AlignUp(part.bytes, kRecordAlignment)
                             : 0;
    if (places_.size() == storage::kBatchPartsMax ||
        (!places_.empty() && end + bytes > storage::kBatchBytesMax)) {
      break;
    }
    places_.push_back(end);
    end += bytes;
  }
  if (buffer_.size() < end) buffer_ = AlignedBuffer(end);
  const MutexLock lock(mu_);
  Ask();
}

void RemoteParts::Ask() {
  stream_ = nullptr;
  v1::ReadPartsRequest request;
  request.set_run(run_.name);
  request.set_run_id(run_.id);
  size_t end = next_;
  while (end < places_.size() &&
         static_cast<size_t>(request.parts_size()) < kAskedPartsMax) {
    const storage::PartInfo& part = parts_[end++];
    if (IsAtPeer(part)) ToAddress(part, *request.add_parts());
  }
  asked_end_ = end;
  if (request.parts().empty() || !peer_.Check().ok()) return;
  stream_ = std::make_unique<Stream>(
      peer_, &v1::RunReaderService::StubInterface::async_interface::ReadParts,
      request, kPartsWindow);
}

absl::StatusOr<std::span<const std::byte>> RemoteParts::Read(size_t index) {
  MSITD_CHECK(index < size());
  const storage::PartInfo& part = parts_[index];
  if (!IsAtPeer(part)) return NotAtPeer(peer_, part);
  const MutexLock lock(mu_);
  while (next_ <= index) MSITD_RETURN_IF_ERROR(ReadMessage());
  MSITD_RETURN_IF_ERROR(errors_[index]);
  return std::span<const std::byte>(buffer_.span())
      .subspan(places_[index], part.bytes);
}

absl::Status RemoteParts::ReadMessage() {
  MSITD_RETURN_IF_ERROR(peer_.Check());
  if (next_ == asked_end_ || stream_ == nullptr) Ask();
  PassOverEmpty();
  if (stream_ == nullptr) return peer_.Check();
  v1::ReadPartsResponse message;
  const absl::StatusOr<bool> found = stream_->Next(message, NeverStop);
  if (!found.ok()) {
    MSITD_RETURN_IF_ERROR(retries_.Await(found.status(), NeverStop));
    Ask();
    return absl::OkStatus();
  }
  if (!*found) return peer_.FailByGarbage("parts are missing in an answer");
  if (message.parts().empty()) {
    return peer_.FailByGarbage("an answer has no parts");
  }
  retries_.NoteProgress();
  for (const v1::ReadPartsResponse::Part& from : message.parts()) {
    if (next_ == asked_end_) {
      return peer_.FailByGarbage("an answer has parts that nobody asked for");
    }
    MSITD_RETURN_IF_ERROR(Take(from));
    ++next_;
    PassOverEmpty();
  }
  return absl::OkStatus();
}

void RemoteParts::PassOverEmpty() {
  while (next_ < asked_end_ && !IsAtPeer(parts_[next_])) {
    errors_.push_back(NotAtPeer(peer_, parts_[next_]));
    ++next_;
  }
}

absl::Status RemoteParts::Take(const v1::ReadPartsResponse::Part& from) {
  const storage::PartInfo& part = parts_[next_];
  if (from.error_code() != 0) {
    // Of the run: a part that cannot be read is a row that says so.
    errors_.push_back(WithReason(
        MakeStatus(CodeOf(from), "peer {}: {}", peer_.endpoint(), from.error()),
        from.error_reason()));
    return absl::OkStatus();
  }
  const std::string& data = from.data();
  const auto bytes = std::as_bytes(std::span(data));
  if (data.size() != part.bytes || data.size() > kPartBytes ||
      (!data.empty() && chunk::HashBytes(bytes) != part.hash)) {
    return peer_.FailByGarbage("bytes that do not match their hash");
  }
  std::memcpy(buffer_.data() + places_[next_], data.data(), data.size());
  errors_.emplace_back();
  return absl::OkStatus();
}

}  // namespace msitd::fleet
