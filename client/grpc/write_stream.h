// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "client/core/transport.h"

namespace msitd::client {

// One call of IngestService.WriteChunks. GrpcTransport makes and owns it; its
// reactions run on threads of gRPC. Chunks are not copied: gRPC reads them
// where they lie.
//
//   Start --> Send, ReportCoverage ... --> [Finish] --> Stop
class WriteStream final
    : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `listener` outlives the stream.
  explicit WriteStream(TransportListener* listener);

  void Start(const std::shared_ptr<grpc::Channel>& channel,
             const StreamIdentity& identity);
  void SendChunk(std::span<const std::byte> chunk);
  void SendMessage(const std::string& message);
  void Finish();

  // Cancels the call and waits until the listener hears no more. Returns false
  // if gRPC still holds chunks a second later. Call it once, before
  // destruction.
  bool Stop();

 private:
  // Chunks that gRPC holds; lives until the last of them is released.
  struct Lent {
    std::mutex mu;
    std::condition_variable is_zero;
    uint64_t count = 0;
  };

  void Enqueue(grpc::ByteBuffer message);
  void WriteNext(std::unique_lock<std::mutex> lock);
  // Lets OnDone happen: from then on nothing may be started from outside.
  void ReleaseHold();

  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  TransportListener* const listener_;
  const std::shared_ptr<Lent> lent_;
  // The call keeps what it could not send until its context goes.
  std::unique_ptr<grpc::ClientContext> context_;
  // The reading reaction's.
  grpc::ByteBuffer incoming_;
  bool is_answer_bad_ = false;

  std::mutex mu_;
  std::condition_variable done_;
  // All below: guarded by mu_. The front of the queue is being written if
  // is_writing_.
  std::deque<grpc::ByteBuffer> outgoing_;
  bool is_writing_ = false;
  bool is_held_ = true;
  bool must_finish_ = false;
  bool has_finished_ = false;
  bool is_done_ = false;
};

}  // namespace msitd::client
