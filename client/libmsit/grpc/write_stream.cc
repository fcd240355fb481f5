// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/grpc/write_stream.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "client/libmsit/core/delivery/stream_end.h"
#include "client/libmsit/grpc/wire.h"

namespace msitd::libmsit {
namespace {

constexpr char kMethod[] = "/msitd.v1.IngestService/WriteChunks";

}  // namespace

WriteStream::WriteStream(TransportListener* listener,
                         std::shared_ptr<LentChunks> lent)
    : lent_(std::move(lent)), listener_(listener) {}

void WriteStream::Start(const std::shared_ptr<grpc::Channel>& channel,
                        const StreamIdentity& identity) {
  grpc::GenericStub stub(channel);
  stub.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
  // The sender thread also starts writes, outside of reactions.
  AddHold();
  StartRead(&incoming_);
  StartCall();
  SendMessage(EncodeOpen(identity));
}

void WriteStream::SendMessage(const std::string& message) {
  const grpc::Slice slice(message);
  Enqueue(grpc::ByteBuffer(&slice, 1));
}

void WriteStream::SendChunk(std::span<const std::byte> chunk) {
  const auto give_back = [](void* user_data) {
    const std::unique_ptr<std::shared_ptr<LentChunks>> lent(
        static_cast<std::shared_ptr<LentChunks>*>(user_data));
    (*lent)->Return();
  };
  auto lent = std::make_unique<std::shared_ptr<LentChunks>>(lent_);
  lent_->Lend();
  // The API requires a pointer to mutable bytes, but does not write them.
  const std::vector<grpc::Slice> slices = {
      grpc::Slice(EncodeChunkPrefix(chunk.size())),
      grpc::Slice(const_cast<std::byte*>(chunk.data()), chunk.size(),
                  +give_back, lent.release())};
  Enqueue(grpc::ByteBuffer(slices.data(), slices.size()));
}

void WriteStream::Enqueue(grpc::ByteBuffer message) {
  std::unique_lock lock(mu_);
  if (!is_held_) return;
  outgoing_.push_back(std::move(message));
  WriteNext(std::move(lock));
}

void WriteStream::Finish() {
  std::unique_lock lock(mu_);
  must_finish_ = true;
  if (is_held_) WriteNext(std::move(lock));
}

void WriteStream::WriteNext(std::unique_lock<std::mutex> lock) {
  if (is_writing_ || has_finished_) return;
  if (outgoing_.empty() && !must_finish_) return;
  // The other holds may be removed before the write below is started; this one
  // keeps the call from ending.
  AddHold();
  StartNext(std::move(lock));
  RemoveHold();
}

void WriteStream::StartNext(std::unique_lock<std::mutex> lock) {
  // Called without the lock, because gRPC may run reactions of other calls
  // inside.
  if (!outgoing_.empty()) {
    is_writing_ = true;
    const grpc::ByteBuffer* message = &outgoing_.front();
    lock.unlock();
    StartWrite(message);
  } else {
    has_finished_ = true;
    lock.unlock();
    StartWritesDone();
  }
}

void WriteStream::OnWriteDone(bool ok) {
  std::unique_lock lock(mu_);
  grpc::ByteBuffer written = std::move(outgoing_.front());
  outgoing_.pop_front();
  is_writing_ = false;
  if (ok) WriteNext(std::move(lock));
}

void WriteStream::OnReadDone(bool ok) {
  if (!ok) {
    ReleaseHold();
    return;
  }
  grpc::Slice message;
  std::optional<Answer> answer;
  if (incoming_.DumpToSingleSlice(&message).ok()) {
    answer = DecodeAnswer(
        {reinterpret_cast<const char*>(message.begin()), message.size()});
  }
  if (answer) {
    const std::lock_guard lock(listener_mu_);
    if (listener_ != nullptr && !answer->capture_policy.empty()) {
      listener_->OnCapturePolicy(answer->capture_policy);
    }
    if (listener_ != nullptr && !answer->run.empty()) {
      listener_->OnRun(answer->run);
    }
    if (listener_ != nullptr && answer->chunk_version != 0) {
      listener_->OnChunkVersion(static_cast<uint32_t>(answer->chunk_version));
    }
    if (listener_ != nullptr && answer->first_token != 0) {
      listener_->OnFirstToken(answer->first_token);
    }
    if (listener_ != nullptr && answer->conflict_count != 0) {
      listener_->OnConflicts(answer->conflict_count);
    }
    if (listener_ != nullptr) listener_->OnCommitted(answer->committed_count);
  } else {
    is_answer_bad_ = true;
    context_.TryCancel();
  }
  StartRead(&incoming_);
}

void WriteStream::ReleaseHold() {
  {
    const std::lock_guard lock(mu_);
    if (!std::exchange(is_held_, false)) return;
  }
  RemoveHold();
}

void WriteStream::OnDone(const grpc::Status& status) {
  ReportEnd(status);
  const std::lock_guard lock(mu_);
  is_done_ = true;
  done_.notify_all();
}

void WriteStream::ReportEnd(const grpc::Status& status) {
  const std::lock_guard lock(listener_mu_);
  if (listener_ == nullptr) return;
  if (is_answer_bad_) {
    listener_->OnEnd(StreamEnd::kRefused,
                     "the answer of the daemon is not a WriteChunksResponse");
    return;
  }
  const std::string reason = DecodeReason(status.error_details());
  listener_->OnEnd(
      EndOf(status.error_code(), reason),
      EndMessage(status.error_code(), status.error_message(), reason));
}

void WriteStream::Stop() {
  {
    const std::lock_guard lock(listener_mu_);
    listener_ = nullptr;
  }
  context_.TryCancel();
  // After TryCancel, so that the call can end without this object.
  ReleaseHold();
  const std::lock_guard lock(mu_);
  // Keeps only the message that is being written.
  outgoing_.resize(std::min<size_t>(outgoing_.size(), is_writing_ ? 1 : 0));
}

bool WriteStream::IsDone() {
  const std::lock_guard lock(mu_);
  return is_done_;
}

void WriteStream::WaitUntilDone() {
  std::unique_lock lock(mu_);
  while (!is_done_) done_.wait(lock);
}

}  // namespace msitd::libmsit
