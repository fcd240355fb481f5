// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/service/call/call_messages.h"
#include "daemon/service/call/call_watch.h"
#include "daemon/service/call/first_reads.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/call/status_mapping.h"
#include "daemon/service/call/task_pool.h"
#include "protos/status/status.h"

// Calls in which the client streams messages and receives one response at the
// end.
namespace msitd::service {

// Consumes the messages of one such call. Called and destroyed on the pool,
// never concurrently.
template <typename Request, typename Response>
class UploadSink {
 public:
  virtual ~UploadSink() = default;

  // Consumes the next message. Returns true if it was the last one and
  // `response` contains the response. An error ends the call.
  virtual absl::StatusOr<bool> Take(const Call& call, const Request& request,
                                    Response& response) = 0;
};

// Time limits of a client: for each message after the previous one, and from
// the first message to the last.
struct UploadTimes {
  std::chrono::milliseconds message;
  std::chrono::milliseconds all;
};

// A client-streaming call. The next message is read only after the previous one
// has been consumed, so a waiting call costs one message of memory and no
// thread. Keeps itself alive until gRPC no longer uses it.
//
// From the first read to the end, the call is owned either by gRPC, which
// reads, or by a task of the pool.
template <typename Request, typename Response>
class UploadCall final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      private FirstReads::Reader {
 public:
  using Sink = std::unique_ptr<UploadSink<Request, Response>>;

  // Objects that outlive the calls, and limits.
  struct Parts {
    TaskPool& pool;
    FirstReads& first_reads;
    CallWatch& watch;
    size_t message_bytes_max;
    UploadTimes times;
  };

  UploadCall(const Parts& parts, grpc::CallbackServerContext& context,
             Sink sink)
      : count_(parts.pool),
        parts_(parts),
        context_(context),
        call_(context),
        sink_(std::move(sink)) {
    const absl::Status status = parts_.first_reads.Enter(
        *this, context.c_call(), context.peer(), call_.caller());
    if (!status.ok()) Finish(ToGrpcStatus(status));
  }

 private:
  using Clock = CallWatch::Clock;

  void StartFirstRead() override { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    const bool is_first = !std::exchange(has_read_, true);
    if (is_first) {
      parts_.first_reads.Leave(*this);
      deadline_ = Clock::now() + parts_.times.all;
    } else {
      parts_.watch.Came(context_.c_call());
    }
    const auto step = [this, ok] { ok ? Step() : EndEarly(); };
    const absl::Status status = is_first
                                    ? parts_.pool.Submit(call_.caller(), step)
                                    : parts_.pool.SubmitNextStep(step);
    if (!status.ok()) Finish(ToGrpcStatus(status));
  }

  // Each branch passes on the ownership of the call as its last access.
  void Step() {
    absl::Status status = call_.Check();
    Request request;
    if (status.ok()) {
      status = ParseRequest(incoming_, parts_.message_bytes_max, request);
    }
    if (!status.ok()) return End(status);
    Response response;
    const absl::StatusOr<bool> is_done = sink_->Take(call_, request, response);
    if (!is_done.ok()) return End(is_done.status());
    if (*is_done) {
      sink_ = nullptr;
      EncodeAnswer(response, outgoing_);
      return StartWriteAndFinish(&outgoing_, grpc::WriteOptions(),
                                 grpc::Status::OK);
    }
    parts_.watch.Expect(
        context_.c_call(),
        std::min(deadline_, Clock::now() + parts_.times.message));
    StartRead(&incoming_);
  }

  // The client is gone, has announced the end of its messages, or was too late.
  void EndEarly() {
    absl::Status status = call_.Check();
    if (status.ok()) {
      status = WithReason(absl::InvalidArgumentError(
                              "the stream ended before its last message"),
                          ErrorReason::kFieldInvalid);
    }
    End(status);
  }

  void End(const absl::Status& status) {
    sink_ = nullptr;
    Finish(ToGrpcStatus(status));
  }

  void OnCancel() override {
    call_.Cancel();
    if (parts_.first_reads.Abandon(*this)) {
      Finish(ToGrpcStatus(absl::CancelledError("cancelled")));
    }
  }

  void OnDone() override { delete this; }

  const TaskPool::CallCount count_;
  const Parts parts_;
  grpc::CallbackServerContext& context_;
  Call call_;
  Sink sink_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  bool has_read_ = false;
  Clock::time_point deadline_;  // Of the last message.
};

}  // namespace msitd::service
