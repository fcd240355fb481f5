// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <utility>

#include "daemon/service/call/admission.h"
#include "daemon/service/call/call_messages.h"
#include "daemon/service/call/first_reads.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/call/status_mapping.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

// Calls with a single request. They are inserted between gRPC and the reactors
// of the services, and read each request when its turn has come.
namespace msitd::service {

// Reads the request, then passes the call to a reactor, which is used as if
// gRPC had created it. Keeps itself alive until gRPC no longer uses it.
class RequestCall
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      private FirstReads::Reader {
 public:
  // Starts to wait for the turn of the call. Must be called last in the
  // constructor of the final class.
  void Enter() {
    const absl::Status status = reads_.Enter(
        *this, context_.c_call(), context_.peer(), CallerOf(context_));
    if (!status.ok()) Finish(ToGrpcStatus(status));
  }

 protected:
  RequestCall(FirstReads& reads, grpc::CallbackServerContext& context)
      : reads_(reads), context_(context) {}

  // Called when request_bytes() contains the request. Must call SetReactor() or
  // Finish().
  virtual void HandleRequest() = 0;
  virtual grpc::ByteBuffer& request_bytes() = 0;

  // Forwards the events of the call to `reactor` from now on.
  void SetReactor(grpc::internal::ServerReactor& reactor) {
    bool is_cancelled = false;
    {
      MutexLock lock(mu_);
      reactor_ = &reactor;
      is_cancelled = is_cancelled_;
    }
    if (is_cancelled) reactor.OnCancel();
  }

  grpc::CallbackServerContext& context() { return context_; }

 private:
  void StartFirstRead() override { StartRead(&request_bytes()); }

  void OnReadDone(bool ok) override {
    reads_.Leave(*this);
    if (ok) return HandleRequest();
    Finish(ToGrpcStatus(
        WithReason(absl::InvalidArgumentError("no request has come"),
                   ErrorReason::kFieldInvalid)));
  }

  void OnCancel() override {
    if (reads_.Abandon(*this)) {
      return Finish(ToGrpcStatus(absl::CancelledError("cancelled")));
    }
    grpc::internal::ServerReactor* reactor = nullptr;
    {
      MutexLock lock(mu_);
      is_cancelled_ = true;
      reactor = reactor_;
    }
    // The reactor is still alive, because gRPC calls OnDone after this.
    if (reactor != nullptr) reactor->OnCancel();
  }

  void OnDone() override {
    grpc::internal::ServerReactor* reactor = nullptr;
    {
      MutexLock lock(mu_);
      reactor = reactor_;
    }
    if (reactor != nullptr) reactor->OnDone();
    delete this;
  }

  FirstReads& reads_;
  grpc::CallbackServerContext& context_;
  Mutex mu_;
  grpc::internal::ServerReactor* reactor_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

// A unary call. `Make` receives the context, the request and the response, and
// returns a UnaryCall.
template <typename Request, typename Response, typename Make>
class UnaryRequestCall final : public RequestCall {
 public:
  UnaryRequestCall(FirstReads& reads, grpc::CallbackServerContext& context,
                   CallPass pass, size_t bytes_max, Make make)
      : RequestCall(reads, context),
        messages_(std::move(pass), bytes_max),
        make_(std::move(make)),
        sink_(*this) {
    Enter();
  }

 private:
  class Sink final : public grpc::ServerCallbackUnary {
   public:
    explicit Sink(UnaryRequestCall& call) : call_(call) {}
    void Bind(UnaryCall& reactor) {
      BindReactor(static_cast<grpc::ServerUnaryReactor*>(&reactor));
    }
    void Finish(grpc::Status status) override {
      if (!status.ok()) return call_.Finish(std::move(status));
      call_.StartWriteAndFinish(&call_.messages_.response_bytes(),
                                grpc::WriteOptions(), grpc::Status::OK);
    }
    void SendInitialMetadata() override {}

   private:
    grpc::internal::ServerReactor* reactor() override { return nullptr; }
    void CallOnDone() override {}

    UnaryRequestCall& call_;
  };

  grpc::ByteBuffer& request_bytes() override {
    return messages_.request_bytes();
  }

  void HandleRequest() override {
    const auto [request, response] =
        messages_.template Make<Request, Response>();
    auto& call = static_cast<UnaryCall&>(*make_(&context(), request, response));
    sink_.Bind(call);
    SetReactor(call);
    call.Begin(messages_);
  }

  CallMessages messages_;
  Make make_;
  Sink sink_;
};

// A read-only call whose response is a stream. `Make` receives the context and
// the request, which it must not retain, and returns a ServerWriteReactor.
template <typename Request, typename Response, typename Make>
class StreamRequestCall final : public RequestCall {
 public:
  StreamRequestCall(FirstReads& reads, grpc::CallbackServerContext& context,
                    CallPass pass, Make make)
      : RequestCall(reads, context),
        pass_(std::move(pass)),
        make_(std::move(make)),
        sink_(*this) {
    Enter();
  }

 private:
  class Sink final : public grpc::ServerCallbackWriter<Response> {
   public:
    explicit Sink(StreamRequestCall& call) : call_(call) {}
    void Bind(grpc::ServerWriteReactor<Response>& reactor) {
      this->BindReactor(&reactor);
    }
    void Finish(grpc::Status status) override {
      call_.NoteEnd(status);
      call_.Finish(std::move(status));
    }
    void SendInitialMetadata() override {}
    void Write(const Response* message, grpc::WriteOptions options) override {
      EncodeAnswer(*message, call_.message_bytes_);
      call_.StartWrite(&call_.message_bytes_, options);
    }
    void WriteAndFinish(const Response* message, grpc::WriteOptions options,
                        grpc::Status status) override {
      call_.NoteEnd(status);
      EncodeAnswer(*message, call_.message_bytes_);
      call_.StartWriteAndFinish(&call_.message_bytes_, options,
                                std::move(status));
    }

   private:
    grpc::internal::ServerReactor* reactor() override { return nullptr; }
    void CallOnDone() override {}

    StreamRequestCall& call_;
  };

  grpc::ByteBuffer& request_bytes() override { return message_bytes_; }

  void HandleRequest() override {
    Request request;
    const absl::Status status =
        ParseRequest(message_bytes_, kStreamRequestBytesMax, request);
    if (!status.ok()) return Finish(ToGrpcStatus(status));
    if (const absl::Status refused = pass_.CheckRequest(request);
        !refused.ok()) {
      pass_.Note(refused);
      return Finish(ToGrpcStatus(refused));
    }
    writer_ = make_(&context(), &request);
    // Must be set before the first write can end.
    SetReactor(*writer_);
    sink_.Bind(*writer_);
  }

  void NoteEnd(const grpc::Status& status) {
    pass_.Note(absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message()));
  }

  void OnWriteDone(bool ok) override {
    message_bytes_.Clear();
    writer_->OnWriteDone(ok);
  }

  // First the request, then each message of the response.
  grpc::ByteBuffer message_bytes_;
  CallPass pass_;
  Make make_;
  Sink sink_;
  grpc::ServerWriteReactor<Response>* writer_ = nullptr;
};

}  // namespace msitd::service
