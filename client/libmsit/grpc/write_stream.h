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

#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/grpc/lent_chunks.h"

namespace msitd::libmsit {

// One call of IngestService.WriteChunks. Created and owned by GrpcTransport;
// its reactions run on threads of gRPC. Chunks are not copied: gRPC reads them
// in place.
//
//   Start --> Send, ReportCoverage ... --> [Finish] --> Stop --> WaitUntilDone
class WriteStream final
    : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `listener` must stay valid at least until Stop. `lent` counts the chunks
  // that gRPC holds.
  WriteStream(TransportListener* listener, std::shared_ptr<LentChunks> lent);

  void Start(const std::shared_ptr<grpc::Channel>& channel,
             const StreamIdentity& identity);
  void SendChunk(std::span<const std::byte> chunk);
  void SendMessage(const std::string& message);
  void Finish();

  // Cancels the call. The listener is not called after Stop returns.
  void Stop();

  // Returns whether gRPC no longer uses the call, which is required before
  // destruction. After Stop this takes as long as the current write into the
  // socket.
  bool IsDone();
  void WaitUntilDone();

 private:
  void Enqueue(grpc::ByteBuffer message);
  void WriteNext(std::unique_lock<std::mutex> lock);
  // Starts the next write, or ends the writes. Requires that one of them is
  // due.
  void StartNext(std::unique_lock<std::mutex> lock);
  // Allows OnDone to be called. Nothing may be started outside of a reaction
  // after that.
  void ReleaseHold();

  void ReportEnd(const grpc::Status& status);

  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const std::shared_ptr<LentChunks> lent_;
  grpc::ClientContext context_;
  // Used only by the reading reaction.
  grpc::ByteBuffer incoming_;
  bool is_answer_bad_ = false;

  // Held while the listener is called.
  std::mutex listener_mu_;
  // Null after Stop. Guarded by listener_mu_.
  TransportListener* listener_;

  std::mutex mu_;
  std::condition_variable done_;
  // The members below are guarded by mu_. If is_writing_, the front of the
  // queue is being written.
  std::deque<grpc::ByteBuffer> outgoing_;
  bool is_writing_ = false;
  bool is_held_ = true;
  bool must_finish_ = false;
  bool has_finished_ = false;
  bool is_done_ = false;
};

}  // namespace msitd::libmsit
