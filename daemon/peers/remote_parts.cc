// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/remote_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/base/sample.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::peers {
namespace {

// Number of queued messages, each as large as a whole part at most.
constexpr size_t kPartsWindow = 2;

// Maximum number of parts per request: no more than a peer accepts, and small
// enough that the request fits into 64 KiB if the parts belong to samples.
constexpr size_t kAskedPartsMax = 500;

// Other codes from a peer cannot be the error of a part.
absl::StatusCode CodeOf(const v1::ReadPartsResponse::Part& part) {
  for (const auto code :
       {absl::StatusCode::kNotFound, absl::StatusCode::kUnavailable,
        absl::StatusCode::kResourceExhausted}) {
    if (part.error_code() == static_cast<int>(code)) return code;
  }
  return absl::StatusCode::kDataLoss;
}

void ToAddress(const storage::PartInfo& part, v1::PartAddress& out) {
  out.set_file(part.place.file);
  out.set_offset(part.place.offset);
  out.set_size_bytes(part.bytes);
  out.set_hash_low(part.hash.low);
  out.set_hash_high(part.hash.high);
}

void ToAddress(const RemotePiece& piece, v1::SampleAddress& out) {
  ToAddress(piece.of.part, *out.mutable_part());
  out.set_part_number(static_cast<int64_t>(piece.of.number));
  out.set_dtype(static_cast<int32_t>(piece.of.dtype));
  out.set_tensor_size_bytes(static_cast<int64_t>(piece.of.tensor_bytes));
  out.set_has_bytes(piece.of.part.has_bytes);
  out.set_has_sample(piece.of.part.has_sample);
  out.set_sample_hash(piece.of.part.sample_hash);
}

bool IsAtPeer(const RemotePiece& piece) {
  const bool is_kept =
      piece.of.part.has_bytes || (piece.is_sample && piece.of.part.has_sample);
  return is_kept && piece.of.part.place.file < kPeerFileEnd;
}

// A part may contain no element of a sample.
bool IsAskedFor(const RemotePiece& piece) {
  return IsAtPeer(piece) &&
         (!piece.is_sample || piece.bytes > 0 || piece.of.part.has_sample);
}

bool IsAsExpected(const RemotePiece& piece, std::span<const std::byte> bytes) {
  if (bytes.size() != piece.bytes || bytes.size() > kPartBytes) return false;
  if (piece.is_sample) {
    return !piece.of.part.has_sample ||
           chunk::HashSample(bytes) == piece.of.part.sample_hash;
  }
  return bytes.empty() || chunk::HashBytes(bytes) == piece.of.part.hash;
}

// Returns the bytes that a piece needs in the buffer. A piece that no daemon
// stores has no bytes to read.
uint64_t RoomFor(const RemotePiece& piece) {
  const bool is_kept = IsAtPeer(piece) && piece.bytes <= kPartBytes;
  return is_kept ? AlignUp(piece.bytes, kRecordAlignment) : 0;
}

template <typename T, typename ToPiece>
std::vector<RemotePiece> FirstPieces(std::span<const T> all, ToPiece to_piece) {
  std::vector<RemotePiece> out;
  uint64_t bytes = 0;
  for (const T& one : all) {
    const RemotePiece piece = to_piece(one);
    bytes += RoomFor(piece);
    if (out.size() == storage::kBatchPartsMax ||
        (!out.empty() && bytes > storage::kBatchBytesMax)) {
      break;
    }
    out.push_back(piece);
  }
  return out;
}

}  // namespace

std::vector<RemotePiece> PiecesOf(std::span<const storage::PartInfo> parts) {
  return FirstPieces(parts, [](const storage::PartInfo& part) {
    return RemotePiece{{.part = part}, /*is_sample=*/false, part.bytes};
  });
}

std::vector<RemotePiece> PiecesOf(
    std::span<const storage::SamplePart> samples) {
  return FirstPieces(samples, [](const storage::SamplePart& sample) {
    const SampleSlice slice =
        SampleOf(TensorPart{.dtype = sample.dtype,
                            .tensor_bytes = sample.tensor_bytes,
                            .offset = sample.number * kPartBytes});
    return RemotePiece{sample, /*is_sample=*/true, slice.bytes()};
  });
}

RemoteParts::RemoteParts(Peer& peer, const RemoteRun& run,
                         std::vector<RemotePiece> pieces, AlignedBuffer& buffer)
    : peer_(peer),
      run_(run),
      pieces_(std::move(pieces)),
      buffer_(buffer),
      retries_(peer) {
  uint64_t end = 0;
  for (const RemotePiece& piece : pieces_) {
    places_.push_back(end);
    end += RoomFor(piece);
  }
  if (buffer_.size() < end) buffer_ = AlignedBuffer(end);
  const MutexLock lock(mu_);
  Ask();
}

absl::Status RemoteParts::StatusOf(const RemotePiece& piece) const {
  if (piece.of.part.place.file >= kPeerFileEnd) {
    return MakeStatus(absl::StatusCode::kInternal,
                      "peer {}: a part of another store", peer_.endpoint());
  }
  if (IsAtPeer(piece)) return absl::OkStatus();
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound, "peer {}: the bytes are not kept",
                 peer_.endpoint()),
      ErrorReason::kTensorExpired);
}

void RemoteParts::Ask() {
  stream_ = nullptr;
  v1::ReadPartsRequest request;
  request.set_run(run_.name);
  request.set_run_id(run_.id);
  size_t end = next_;
  const size_t end_max = std::min(next_ + kAskedPartsMax, pieces_.size());
  for (; end < end_max; ++end) {
    const RemotePiece& piece = pieces_[end];
    if (!IsAskedFor(piece)) continue;
    if (piece.is_sample) {
      ToAddress(piece, *request.add_samples());
    } else {
      ToAddress(piece.of.part, *request.add_parts());
    }
  }
  asked_end_ = end;
  const bool is_empty = request.parts().empty() && request.samples().empty();
  if (is_empty || !peer_.Check().ok()) return;
  stream_ = std::make_unique<Stream>(
      peer_, &v1::RunReaderService::StubInterface::async_interface::ReadParts,
      request, kPartsWindow);
}

absl::StatusOr<std::span<const std::byte>> RemoteParts::Read(size_t index) {
  MSITD_CHECK(index < size());
  const RemotePiece& piece = pieces_[index];
  if (!IsAskedFor(piece)) {
    MSITD_RETURN_IF_ERROR(StatusOf(piece));
    return std::span<const std::byte>();
  }
  const MutexLock lock(mu_);
  while (next_ <= index) MSITD_RETURN_IF_ERROR(ReadMessage());
  MSITD_RETURN_IF_ERROR(errors_[index]);
  return std::span<const std::byte>(buffer_.span())
      .subspan(places_[index], piece.bytes);
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
  while (next_ < asked_end_ && !IsAskedFor(pieces_[next_])) {
    errors_.push_back(StatusOf(pieces_[next_]));
    ++next_;
  }
}

absl::Status RemoteParts::Take(const v1::ReadPartsResponse::Part& from) {
  if (from.error_code() != 0) {
    // This is an error of the run: a part that cannot be read becomes a row
    // that reports it.
    errors_.push_back(WithReason(
        MakeStatus(CodeOf(from), "peer {}: {}", peer_.endpoint(), from.error()),
        from.error_reason()));
    return absl::OkStatus();
  }
  const std::string& data = from.data();
  if (!IsAsExpected(pieces_[next_], std::as_bytes(std::span(data)))) {
    return peer_.FailByGarbage("bytes that do not match their hash");
  }
  // An empty buffer has no memory.
  if (!data.empty()) {
    std::memcpy(buffer_.data() + places_[next_], data.data(), data.size());
  }
  errors_.emplace_back();
  return absl::OkStatus();
}

}  // namespace msitd::peers
