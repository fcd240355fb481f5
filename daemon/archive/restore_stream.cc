// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/restore_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::archive {
namespace {

// A copy of a chunk, which is freed when the pipeline no longer reads it.
class OwnMemory final : public ingest::Lease {
 public:
  explicit OwnMemory(std::span<const std::byte> bytes) : memory_(bytes.size()) {
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
  }
  std::span<const std::byte> bytes() const { return memory_.span(); }

 private:
  AlignedBuffer memory_;
};

// Returns whether a digest replaces the bytes of the record.
bool IsClaimed(const storage::TensorInfo& entry) {
  return !entry.has_bytes && !entry.alias_of.has_value() &&
         !IsTextOnly(entry.kind) && entry.tensor_bytes > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RestoreStream>> RestoreStream::Open(
    ingest::ChunkSink& sink, const ingest::StreamSpec& spec) {
  auto out = std::unique_ptr<RestoreStream>(new RestoreStream(sink, spec));
  absl::StatusOr<ingest::ChunkSink::Opened> opened = sink.Open(spec, *out);
  if (!opened.ok()) {
    const MutexLock lock(out->mu_);
    out->has_ended_ = true;
    return opened.status();
  }
  out->stream_ = std::move(opened->stream);
  out->next_chunk_ = opened->committed_chunk_count;
  const MutexLock lock(out->mu_);
  out->committed_count_ =
      std::max(out->committed_count_, opened->committed_chunk_count);
  return out;
}

RestoreStream::RestoreStream(ingest::ChunkSink& sink,
                             const ingest::StreamSpec& spec)
    : sink_(sink), spec_(spec) {}

RestoreStream::~RestoreStream() {
  if (stream_ != nullptr) {
    sink_.Finish(stream_, absl::CancelledError("the restore was broken off"));
  }
  (void)AwaitEnd();
}

bool RestoreStream::CanAdd(const storage::TensorInfo& entry) {
  return !IsClaimed(entry) || entry.parts.size() == 1;
}

void RestoreStream::Start(bool is_claimed) {
  is_claimed_ = is_claimed;
  if (!builder_.has_value()) {
    buffer_ = AlignedBuffer(chunk::ChunkBuilder::kBufferBytes);
    builder_.emplace(buffer_.span());
  }
  builder_->Start(spec_.run, spec_.rank, spec_.stream_id, next_chunk_);
  if (is_claimed) builder_->KeepSummariesOnly();
}

absl::Status RestoreStream::Add(const PartRecord& record) {
  const storage::TensorInfo& entry = *record.entry;
  const bool is_claimed = IsClaimed(entry);
  if (!builder_.has_value() || is_claimed != is_claimed_) {
    MSITD_RETURN_IF_ERROR(Flush());
    Start(is_claimed);
  }
  // Sequence numbers restart at 0 for each producer, and a rank may have had
  // several producers.
  if (entry.sequence < last_sequence_) MSITD_RETURN_IF_ERROR(Flush());
  last_sequence_ = entry.sequence;
  chunk::RecordSpec spec;
  spec.sequence = entry.sequence;
  spec.device = entry.key.device;
  spec.token = entry.key.token;
  spec.op = entry.key.op;
  spec.call = entry.key.call;
  spec.io = entry.key.io;
  spec.index = entry.key.index;
  spec.dtype = entry.dtype;
  spec.dims = entry.shape;
  spec.tensor_bytes = entry.tensor_bytes;
  spec.part_offset = record.part * kPartBytes;
  spec.part_bytes = record.bytes.size();
  spec.placement = entry.placement;
  spec.kind = entry.kind;
  spec.requires_grad = entry.requires_grad;
  if (HasValueText(entry.kind)) spec.value = entry.value;
  spec.stack = entry.stack;
  if (entry.alias_of.has_value()) {
    const storage::AliasOf& original = *entry.alias_of;
    spec.alias = {original.op, original.call, original.io, original.index};
    spec.part_bytes = 0;
  }
  Digest digest;
  if (is_claimed) {
    digest = {entry.summary, entry.parts[0].hash};
    spec.has_digest = true;
    spec.part_bytes = sizeof(Digest);
  }
  std::span<std::byte> out = builder_->Add(spec);
  if (out.data() == nullptr) {
    MSITD_RETURN_IF_ERROR(Flush());
    out = builder_->Add(spec);
  }
  if (out.data() == nullptr) {
    return MakeStatus(absl::StatusCode::kInternal, "no chunk takes {}",
                      entry.key.op);
  }
  if (is_claimed) {
    std::memcpy(out.data(), &digest, sizeof(digest));
  } else if (!out.empty()) {
    std::memcpy(out.data(), record.bytes.data(), out.size());
  }
  return absl::OkStatus();
}

absl::Status RestoreStream::Flush() {
  if (!builder_.has_value() || builder_->record_count() == 0) {
    return absl::OkStatus();
  }
  MSITD_RETURN_IF_ERROR(AwaitRoom());
  auto memory = std::make_unique<OwnMemory>(builder_->Finish(0));
  const std::span<const std::byte> bytes = memory->bytes();
  {
    const MutexLock lock(mu_);
    must_wait_ = true;
  }
  const auto offered = sink_.Offer(stream_, bytes, std::move(memory));
  if (offered == ingest::ChunkSink::Offered::kMore) Resume();
  if (offered == ingest::ChunkSink::Offered::kEnded) {
    const absl::Status status = AwaitEnd();
    return status.ok() ? absl::AbortedError("the stream has ended") : status;
  }
  ++next_chunk_;
  Start(is_claimed_);
  return absl::OkStatus();
}

absl::Status RestoreStream::Finish(const StreamCoverage& coverage,
                                   int64_t token_end) {
  MSITD_RETURN_IF_ERROR(Flush());
  sink_.ReportCoverage(stream_, coverage, token_end);
  sink_.Finish(stream_, absl::OkStatus());
  stream_ = nullptr;
  return AwaitEnd();
}

absl::Status RestoreStream::Close() {
  MSITD_RETURN_IF_ERROR(Settle());
  sink_.Finish(stream_, absl::OkStatus());
  stream_ = nullptr;
  return AwaitEnd();
}

absl::Status RestoreStream::Settle() {
  MSITD_RETURN_IF_ERROR(Flush());
  builder_.reset();
  buffer_ = {};
  const MutexLock lock(mu_);
  while (committed_count_ < next_chunk_ && !has_ended_) changed_.Wait(mu_);
  return has_ended_ ? end_status_ : absl::OkStatus();
}

void RestoreStream::Commit(uint64_t count, uint64_t /*conflict_count*/) {
  {
    const MutexLock lock(mu_);
    committed_count_ = count;
  }
  changed_.NotifyAll();
}

void RestoreStream::Resume() {
  {
    const MutexLock lock(mu_);
    must_wait_ = false;
  }
  changed_.NotifyAll();
}

void RestoreStream::End(const absl::Status& status) {
  // The waiting thread may destroy this object as soon as the lock is released.
  const MutexLock lock(mu_);
  end_status_ = status;
  has_ended_ = true;
  changed_.NotifyAll();
}

absl::Status RestoreStream::AwaitRoom() {
  const MutexLock lock(mu_);
  while (must_wait_ && !has_ended_) changed_.Wait(mu_);
  return has_ended_ ? end_status_ : absl::OkStatus();
}

absl::Status RestoreStream::AwaitEnd() {
  const MutexLock lock(mu_);
  while (!has_ended_) changed_.Wait(mu_);
  return end_status_;
}

}  // namespace msitd::archive
