// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote/ingest_service.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "daemon/remote/write_chunks_message.h"
#include "daemon/service/call/status_mapping.h"
#include "daemon/service/proto_convert.h"
#include "protos/chunk/chunk_format.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

using ingest::BufferPool;
using Offered = ingest::ChunkSink::Offered;

constexpr size_t kUserAgentBytesMax = 256;

class BufferLease final : public ingest::Lease {
 public:
  explicit BufferLease(BufferPool::Buffer buffer)
      : buffer_(std::move(buffer)) {}

 private:
  BufferPool::Buffer buffer_;
};

absl::StatusOr<ingest::StreamSpec> ToSpec(const v1::OpenStream& open) {
  MSITD_RETURN_IF_ERROR(CheckRunName(open.run()));
  if (open.user_agent().size() > kUserAgentBytesMax) {
    return FieldInvalid(
        "open.user_agent",
        fmt::format("{} bytes, at most {} are taken", open.user_agent().size(),
                    kUserAgentBytesMax));
  }
  if (!v1::IfExists_IsValid(open.if_exists())) {
    return FieldInvalid("open.if_exists",
                        fmt::format("{} is unknown", int{open.if_exists()}));
  }
  ingest::StreamSpec spec{open.run(), open.rank(), open.world_size(),
                          static_cast<uint64_t>(open.stream_id()),
                          open.user_agent()};
  if (open.if_exists() != v1::IF_EXISTS_UNSPECIFIED) {
    spec.if_exists = static_cast<IfExists>(open.if_exists());
  }
  spec.job = open.job();
  return spec;
}

StreamCoverage ToCoverage(const v1::CoverageReport& report) {
  // A negative count becomes an implausibly large one, which is rejected later.
  return {static_cast<uint64_t>(report.seen_count()),
          static_cast<uint64_t>(report.filtered_count()),
          static_cast<uint64_t>(report.dropped_count()),
          static_cast<uint64_t>(report.truncated_count()),
          static_cast<uint64_t>(report.degraded_count()),
          static_cast<uint64_t>(report.recording_ns()),
          static_cast<uint64_t>(report.open_ns())};
}

// One WriteChunks call, which is also the peer of its stream in the pipeline.
// At most one read and one write are in progress. The call is finished when the
// pipeline has ended the stream, the last acknowledgement has been written and
// no task is left.
//
// Reactions run on threads of gRPC, calls as a StreamPeer on a thread of the
// pipeline, and tasks on threads of the pool. The object keeps itself alive
// until gRPC no longer uses it.
class WriteChunksCall final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public ingest::StreamPeer,
      private FirstReads::Reader {
 public:
  WriteChunksCall(IngestServiceImpl::Parts& parts,
                  grpc::CallbackServerContext& context, access::Caller caller)
      : parts_(parts), context_(context), caller_(std::move(caller)) {
    const absl::Status status = parts_.admission.reads.Enter(
        *this, context.c_call(), context.peer(), caller_);
    if (!status.ok()) Fail(status);
  }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  void Commit(uint64_t count, uint64_t conflict_count) override;
  void SetCapturePolicy(const std::string& policy) override;
  void Resume() override;
  void End(const absl::Status& status) override;

 private:
  void StartFirstRead() override { StartRead(&incoming_); }
  void HandleOpen();
  void OpenStream(const ingest::StreamSpec& spec);
  void HandleMessage(const ingest::StreamHandle& stream);
  void HandleChunk(const ingest::StreamHandle& stream, size_t bytes);
  void TakeChunk(const ingest::StreamHandle& stream, BufferPool::Buffer buffer);
  ingest::StreamHandle Stream();
  void ReadNext();
  void Leave(const absl::Status& status);
  // Ends a call that has no stream.
  void Fail(const absl::Status& status);

  // Hold begins a task that uses `this`, and Release ends it. Release must be
  // the last statement because it may destroy `this`.
  void Hold();
  void Release();
  void Pump();

  // Counts a call whose stream is open, so that the server does not end before
  // the client has received the reason for the end of its stream.
  std::optional<TaskPool::CallCount> count_;
  IngestServiceImpl::Parts& parts_;
  const grpc::CallbackServerContext& context_;
  const access::Caller caller_;
  grpc::ByteBuffer incoming_;
  WriteChunksMessage message_;  // The last message.
  bool has_read_ = false;       // Used only by reactions to reads.
  grpc::ByteBuffer outgoing_;

  Mutex mu_;
  ingest::StreamHandle stream_ ABSL_GUARDED_BY(mu_);  // Once open.
  bool left_ ABSL_GUARDED_BY(mu_) = false;            // The client is gone.
  int holds_ ABSL_GUARDED_BY(mu_) = 0;                // Tasks that use `this`.
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  // A response must be written. It contains the six values below.
  bool owes_ack_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<uint64_t> committed_ ABSL_GUARDED_BY(mu_);
  uint64_t conflict_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::string new_run_ ABSL_GUARDED_BY(mu_);
  // 0 after it was sent to the client.
  int32_t untold_chunk_version_ ABSL_GUARDED_BY(mu_) = chunk::kVersion;
  // 0 after it was sent to the client.
  int64_t untold_first_token_ ABSL_GUARDED_BY(mu_) = 0;
  std::string policy_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

void WriteChunksCall::Hold() {
  MutexLock lock(mu_);
  ++holds_;
}

void WriteChunksCall::Release() {
  {
    MutexLock lock(mu_);
    --holds_;
  }
  Pump();
}

void WriteChunksCall::Pump() {
  absl::Status status;
  {
    MutexLock lock(mu_);
    if (writing_ || finished_) return;
    if (owes_ack_) {
      v1::WriteChunksResponse response;
      response.set_committed_chunk_count(static_cast<int64_t>(*committed_));
      response.set_capture_policy(std::exchange(policy_, {}));
      response.set_run(std::exchange(new_run_, {}));
      response.set_chunk_version(std::exchange(untold_chunk_version_, 0));
      response.set_first_token(std::exchange(untold_first_token_, 0));
      response.set_conflict_count(static_cast<int64_t>(conflict_count_));
      const grpc::Slice slice(response.SerializeAsString());
      outgoing_ = grpc::ByteBuffer(&slice, 1);
      owes_ack_ = false;
      writing_ = true;
      StartWrite(&outgoing_);
      return;
    }
    if (!end_.has_value() || holds_ > 0) return;
    finished_ = true;
    status = *end_;
  }
  Finish(ToGrpcStatus(status));
}

void WriteChunksCall::Fail(const absl::Status& status) {
  {
    MutexLock lock(mu_);
    end_ = status;
  }
  Pump();
}

void WriteChunksCall::Leave(const absl::Status& status) {
  ingest::StreamHandle stream;
  {
    MutexLock lock(mu_);
    left_ = true;
    stream = stream_;
  }
  if (stream != nullptr) parts_.sink.Finish(stream, status);
}

void WriteChunksCall::ReadNext() {
  MutexLock lock(mu_);
  if (!end_.has_value()) StartRead(&incoming_);
}

ingest::StreamHandle WriteChunksCall::Stream() {
  MutexLock lock(mu_);
  return stream_;
}

void WriteChunksCall::OnCancel() {
  const absl::Status status = absl::CancelledError("cancelled");
  parts_.admission.reads.Abandon(*this) ? Fail(status) : Leave(status);
}

void WriteChunksCall::OnReadDone(bool ok) {
  Hold();
  if (!std::exchange(has_read_, true)) parts_.admission.reads.Leave(*this);
  const ingest::StreamHandle stream = Stream();
  if (!ok && stream != nullptr) {
    Leave(context_.IsCancelled() ? absl::CancelledError("the client is gone")
                                 : absl::OkStatus());
  } else if (!ok) {
    Fail(FieldInvalid("open", "the stream ended before its opening"));
  } else if (!message_.Read(incoming_)) {
    const absl::Status status =
        FieldInvalid("message", "the bytes are no WriteChunksRequest");
    stream != nullptr ? Leave(status) : Fail(status);
  } else if (stream != nullptr) {
    // The policy may have changed since the stream was opened.
    const absl::Status status = access::CheckRole(
        CallerOf(context_), access::Role::kWriter, "to write chunks");
    status.ok() ? HandleMessage(stream) : Leave(status);
  } else {
    HandleOpen();
  }
  Release();
}

void WriteChunksCall::HandleOpen() {
  if (message_.chunk_bytes().has_value() || !message_.request().has_open()) {
    return Fail(FieldInvalid("open", "the first message does not open"));
  }
  absl::StatusOr<ingest::StreamSpec> spec = ToSpec(message_.request().open());
  if (!spec.ok()) return Fail(spec.status());
  spec->caller = caller_;
  Hold();
  const absl::Status status =
      parts_.tasks.Submit([this, spec = *std::move(spec)] {
        OpenStream(spec);
        Release();
      });
  if (!status.ok()) {
    Fail(status);
    Release();
  }
}

void WriteChunksCall::OpenStream(const ingest::StreamSpec& spec) {
  absl::StatusOr<ingest::ChunkSink::Opened> opened =
      parts_.sink.Open(spec, *this);
  if (const auto suppressed = parts_.log_limiter.Admit()) {
    log::Get("ingest")->info(
        "open stream run='{}' rank={} stream={:#x} agent='{}' result='{}' "
        "suppressed={}",
        spec.run, spec.rank, spec.stream_id, spec.user_agent,
        opened.ok() ? "OK" : Message(opened.status()), *suppressed);
  }
  if (!opened.ok()) return Fail(opened.status());
  count_.emplace(parts_.tasks);
  bool left = false;
  {
    MutexLock lock(mu_);
    stream_ = opened->stream;
    left = left_;
    // Values that the pipeline has reported in the meantime are newer.
    if (!committed_.has_value()) committed_ = opened->committed_chunk_count;
    if (policy_.empty()) policy_ = std::move(opened->capture_policy);
    if (opened->run != spec.run) new_run_ = std::move(opened->run);
    untold_first_token_ = opened->first_token;
    owes_ack_ = true;
  }
  if (left) return parts_.sink.Finish(opened->stream, absl::OkStatus());
  Pump();
  ReadNext();
}

void WriteChunksCall::HandleMessage(const ingest::StreamHandle& stream) {
  if (const std::optional<size_t> bytes = message_.chunk_bytes()) {
    return HandleChunk(stream, *bytes);
  }
  switch (message_.request().message_case()) {
    case v1::WriteChunksRequest::kCoverage: {
      const StreamCoverage coverage = ToCoverage(message_.request().coverage());
      if (!IsSound(coverage)) {
        return Leave(FieldInvalid("coverage", "a count or a time is negative"));
      }
      const int64_t token_end = message_.request().coverage().token_end();
      if (!ingest::IsTokenEnd(token_end)) {
        return Leave(FieldInvalid(
            "coverage.token_end",
            fmt::format("{} is not in 0..{}", token_end, kTokenMax + 1)));
      }
      parts_.sink.ReportCoverage(stream, coverage, token_end);
      return ReadNext();
    }
    case v1::WriteChunksRequest::kOpen:
      return Leave(FieldInvalid("open", "the stream is open already"));
    case v1::WriteChunksRequest::kChunk:
    case v1::WriteChunksRequest::MESSAGE_NOT_SET:
      break;
  }
  Leave(FieldInvalid("message", "neither a chunk nor a coverage report"));
}

void WriteChunksCall::HandleChunk(const ingest::StreamHandle& stream,
                                  size_t bytes) {
  if (bytes > BufferPool::kBufferBytesMax) {
    return Leave(
        WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                              "the chunk has {} bytes, at most {} are taken",
                              bytes, BufferPool::kBufferBytesMax),
                   ErrorReason::kChunkMalformed));
  }
  Hold();
  const std::thread::id reader = std::this_thread::get_id();
  parts_.buffers.Acquire(
      bytes, [this, stream, reader](BufferPool::Buffer buffer) {
        if (std::this_thread::get_id() == reader) {
          return TakeChunk(stream, std::move(buffer));
        }
        // This thread has just returned a buffer to the pool and must not be
        // delayed by a copy. The buffer is shared because a refused task is
        // destroyed.
        auto kept = std::make_shared<BufferPool::Buffer>(std::move(buffer));
        const absl::Status status = parts_.tasks.SubmitNextStep(
            [this, stream, kept] { TakeChunk(stream, std::move(*kept)); });
        if (!status.ok()) TakeChunk(stream, std::move(*kept));
      });
}

void WriteChunksCall::TakeChunk(const ingest::StreamHandle& stream,
                                BufferPool::Buffer buffer) {
  const std::span<std::byte> bytes = buffer.span();
  message_.TakeChunk(bytes);
  const Offered offered = parts_.sink.Offer(
      stream, bytes, std::make_unique<BufferLease>(std::move(buffer)));
  if (offered == Offered::kMore) ReadNext();
  Release();
}

void WriteChunksCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(mu_);
    ++holds_;
    writing_ = false;
    if (!ok) owes_ack_ = false;
  }
  if (!ok) Leave(absl::CancelledError("the connection is gone"));
  Release();
}

void WriteChunksCall::Commit(uint64_t count, uint64_t conflict_count) {
  {
    MutexLock lock(mu_);
    committed_ = count;
    conflict_count_ = conflict_count;
    owes_ack_ = true;
  }
  Pump();
}

void WriteChunksCall::SetCapturePolicy(const std::string& policy) {
  {
    MutexLock lock(mu_);
    policy_ = policy;
    // If the opening has not been answered yet, the answer will contain the
    // policy.
    owes_ack_ = committed_.has_value();
  }
  Pump();
}

void WriteChunksCall::Resume() { ReadNext(); }

void WriteChunksCall::End(const absl::Status& status) {
  if (!status.ok()) {
    if (const auto suppressed = parts_.log_limiter.Admit()) {
      log::Get("ingest")->warn(
          "stream ended reason={} message='{}' suppressed={}", Reason(status),
          Message(status), *suppressed);
    }
  }
  Fail(status);
}

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
IngestServiceImpl::WriteChunks(grpc::CallbackServerContext* context) {
  CallPass pass(parts_.admission.gatekeeper,
                access::RuleOf("IngestService", "WriteChunks"), *context);
  if (const absl::Status status = pass.Enter(); !status.ok()) {
    return new RefusedCall(status);
  }
  return new WriteChunksCall(parts_, *context, pass.caller());
}

}  // namespace msitd::service
