// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/service/call/admission.h"
#include "daemon/service/call/call_messages.h"
#include "daemon/service/call/peer.h"
#include "daemon/service/call/status_mapping.h"
#include "daemon/service/call/stream_places.h"
#include "daemon/service/call/task_pool.h"
#include "grpcpp/alarm.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "protos/base/check.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

// Handlers on gRPC's callback API. The work runs on a TaskPool, threads of gRPC
// never block, and each call is finished exactly once, with a status from
// ToGrpcStatus.
//
//   grpc::ServerUnaryReactor* GetRun(ctx, request, response) override {
//     return UnaryCall::Start(pool_, *ctx, [=, this](const Call& call) {
//       return DoGetRun(*request, *response);
//     });
//   }
//
// The request and the response stay valid until the work has returned. The pool
// must outlive the server's Shutdown.
namespace msitd::service {

// What the work of a call can query about its call and caller. Thread-safe.
class Call {
 public:
  explicit Call(const grpc::CallbackServerContext& context)
      : context_(context),
        deadline_(context.deadline()),
        caller_(CallerOf(context)) {}

  // Returns the caller, with its role from the beginning of the call.
  const access::Caller& caller() const { return caller_; }

  std::chrono::system_clock::time_point deadline() const { return deadline_; }

  // Returns CANCELLED if no client waits for the response any more,
  // DEADLINE_EXCEEDED if the response would be too late, otherwise OK. Long
  // work should call this between steps.
  absl::Status Check() const {
    // Relaxed, because the flag publishes no other memory.
    if (cancelled_.load(std::memory_order_relaxed)) {
      return absl::CancelledError("the caller is gone");
    }
    if (std::chrono::system_clock::now() > deadline_) {
      return absl::DeadlineExceededError("the deadline has passed");
    }
    return absl::OkStatus();
  }

  // Returns PERMISSION_DENIED if the caller has had a role when the call began
  // and has none any more. Streams call this before each message. Must not be
  // called after the call was finished.
  absl::Status CheckStillHasRole() const {
    if (caller_.role == access::Role::kNone) return absl::OkStatus();
    return access::CheckRole(CallerOf(context_), access::Role::kReader,
                             "to continue this stream");
  }

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  const grpc::CallbackServerContext& context_;
  const std::chrono::system_clock::time_point deadline_;
  const access::Caller caller_;
  std::atomic<bool> cancelled_{false};
};

// A unary call. Keeps itself alive until gRPC no longer uses it.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Work = absl::AnyInvocable<absl::Status(const Call&)>;

  // Creates a call that runs `work` on the pool and finishes with its status.
  // BoundedService, which owns the dispatch of the call, calls Begin.
  static grpc::ServerUnaryReactor* Start(TaskPool& pool,
                                         grpc::CallbackServerContext& context,
                                         Work work) {
    return new UnaryCall(pool, context, std::move(work));
  }

  // Makes the pool parse the request and run the work. `messages` must outlive
  // the call.
  void Begin(CallMessages& messages) {
    messages_ = &messages;
    const absl::Status status = pool_.Submit(call_.caller(), [this] { Run(); });
    if (!status.ok()) End(status);
  }

 private:
  // Responses up to this size are not counted.
  static constexpr size_t kSmallAnswerBytes = size_t{64} << 10;
  // How long a larger response is kept for a client that does not read it.
  static constexpr std::chrono::seconds kAnswerTimeout{60};

  UnaryCall(TaskPool& pool, grpc::CallbackServerContext& context, Work work)
      : count_(std::in_place, pool),
        pool_(pool),
        context_(context),
        call_(context),
        work_(std::move(work)) {}

  void Run() {
    absl::Status status = call_.Check();
    if (status.ok()) status = messages_->Parse();
    if (status.ok()) status = work_(call_);
    work_ = nullptr;
    if (status.ok()) messages_->NoteAnswer();
    if (status.ok()) status = HoldAnswer(messages_->Encode());
    End(status);
  }

  // Must be the last access, because gRPC may delete the reactor immediately.
  void End(const absl::Status& status) {
    const grpc::Status answer = ToGrpcStatus(status);
    pool_.CountEnd(answer.error_code(),
                   std::chrono::steady_clock::now() - begin_);
    messages_->pass().Note(status);
    Finish(answer);
  }

  absl::Status HoldAnswer(size_t bytes) {
    if (bytes <= kSmallAnswerBytes) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(
        count_->HoldAnswer(bytes, call_.caller(), IsLocal(context_.peer())));
    {
      MutexLock lock(mu_);
      has_alarm_ = true;
    }
    alarm_.Set(std::chrono::system_clock::now() + kAnswerTimeout,
               [this](bool is_late) {
                 {
                   MutexLock lock(mu_);
                   // The context is destroyed after OnDone.
                   if (is_late && !is_done_) context_.TryCancel();
                   has_alarm_ = false;
                   if (!is_done_) return;
                 }
                 delete this;
               });
    return absl::OkStatus();
  }

  void OnCancel() override { call_.Cancel(); }

  void OnDone() override {
    // Not done in the destructor, because the pool waits for calls but not for
    // alarms.
    count_.reset();
    alarm_.Cancel();
    {
      MutexLock lock(mu_);
      is_done_ = true;
      if (has_alarm_) return;
    }
    delete this;
  }

  std::optional<TaskPool::CallCount> count_;
  TaskPool& pool_;
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  grpc::CallbackServerContext& context_;
  CallMessages* messages_ = nullptr;
  Call call_;
  Work work_;
  grpc::Alarm alarm_;
  Mutex mu_;
  // The later of gRPC and the alarm deletes the call.
  bool is_done_ ABSL_GUARDED_BY(mu_) = false;
  bool has_alarm_ ABSL_GUARDED_BY(mu_) = false;
};

// Result of one step of a stream.
enum class StreamStep {
  kMessage,  // The message is filled in: send it, then continue.
  kWait,     // No message yet: continue when Await calls back.
  kEnd,      // There are no more messages.
};

// Produces the messages of one stream. Next is called on the pool, never
// concurrently.
template <typename Response>
class StreamSource {
 public:
  virtual ~StreamSource() = default;

  // `message` is empty when passed in. An error ends the stream.
  virtual absl::StatusOr<StreamStep> Next(const Call& call,
                                          Response& message) = 0;

  // Called after each kWait; a source that never waits need not override it.
  // Calls `wake` once, on any thread and possibly during this call. Returns a
  // number for StopWaiting.
  virtual uint64_t Await(absl::AnyInvocable<void()> /*wake*/) {
    MSITD_CHECK(false);
    return 0;
  }
  // Returns true if the `wake` with this number will never be called, and false
  // if it was or will be called.
  virtual bool StopWaiting(uint64_t /*waiter*/) { return false; }
};

// A server-streaming call. The next message is produced only after the previous
// one has been written, so a slow reader costs one message of memory and no
// thread. Keeps itself alive until gRPC no longer uses it.
//
// At any time exactly one of these owns the call and may access it: a task of
// the pool, a write of gRPC, or a waiter of the source. OnCancel takes it over
// from a waiter.
template <typename Response>
class StreamCall final : public grpc::ServerWriteReactor<Response> {
 public:
  using Source = std::unique_ptr<StreamSource<Response>>;

  // If `source` is an error, the call ends with it. If `places` is given, it
  // must outlive the call; the call then needs a place there, and the source
  // must never wait.
  static grpc::ServerWriteReactor<Response>* Start(
      TaskPool& pool, grpc::CallbackServerContext& context,
      absl::StatusOr<Source> source, StreamPlaces* places = nullptr) {
    absl::Status status = source.status();
    auto* call = new StreamCall(pool, context,
                                status.ok() ? *std::move(source) : nullptr);
    if (status.ok() && places != nullptr) {
      auto place = places->Enter(context.c_call(), call->call_.caller(),
                                 IsLocal(context.peer()));
      status = place.status();
      if (status.ok()) call->place_.emplace(*std::move(place));
    }
    if (status.ok()) {
      status = pool.Submit(call->call_.caller(), [call] { call->Step(); });
    }
    if (!status.ok()) call->End(status);
    return call;
  }

 private:
  // The state of a waiting call. Shared by the call and by those of its methods
  // that may still hold the lock after the call was deleted.
  struct Parking {
    Mutex mu;
    bool cancelled ABSL_GUARDED_BY(mu) = false;
    uint64_t waiter ABSL_GUARDED_BY(mu) = 0;
  };

  StreamCall(TaskPool& pool, const grpc::CallbackServerContext& context,
             Source source)
      : count_(pool), pool_(pool), call_(context), source_(std::move(source)) {}

  // Each branch passes on the ownership of the call as its last access.
  void Step() {
    absl::Status status = call_.Check();
    if (status.ok()) status = call_.CheckStillHasRole();
    if (!status.ok()) {
      End(status);
      return;
    }
    message_.Clear();
    const absl::StatusOr<StreamStep> step = source_->Next(call_, message_);
    if (!step.ok()) {
      End(step.status());
    } else if (*step == StreamStep::kMessage) {
      Write();
    } else if (*step == StreamStep::kEnd) {
      End(absl::OkStatus());
    } else {
      Park();
    }
  }

  void Write() {
    if (place_.has_value()) {
      const absl::Status status = place_->BeginWrite(message_.ByteSizeLong());
      if (!status.ok()) {
        End(status);
        return;
      }
    }
    this->StartWrite(&message_);
  }

  void End(const absl::Status& status) {
    const grpc::Status answer = ToGrpcStatus(status);
    pool_.CountEnd(answer.error_code(), std::nullopt);
    if (place_.has_value()) {
      // The final status may be queued after messages that the client does not
      // read. A stream with a place never waits for its source, so no other
      // thread uses the source now.
      source_.reset();
      message_ = Response();
      place_->End();
    }
    this->Finish(answer);
  }

  void Park() {
    const std::shared_ptr<Parking> parking = parking_;
    bool cancelled = false;
    MSITD_CHECK(!place_.has_value());
    {
      // The lock keeps OnCancel out until the number of the waiter is known.
      // After Await another thread may own the call.
      MutexLock lock(parking->mu);
      cancelled = parking->cancelled;
      if (!cancelled) {
        parking->waiter = source_->Await([this] { Continue(); });
      }
    }
    if (cancelled) End(call_.Check());
  }

  void Continue() {
    const absl::Status status = pool_.SubmitNextStep([this] { Step(); });
    if (!status.ok()) End(status);
  }

  void OnWriteDone(bool ok) override {
    if (place_.has_value()) {
      place_->EndWrite();
      // Frees the memory, so that a stream that waits for its turn needs
      // little.
      message_ = Response();
    }
    if (!ok) call_.Cancel();
    Continue();
  }

  void OnCancel() override {
    call_.Cancel();
    uint64_t waiter = 0;
    {
      MutexLock lock(parking_->mu);
      parking_->cancelled = true;
      waiter = parking_->waiter;
    }
    if (waiter != 0 && source_->StopWaiting(waiter)) {
      End(call_.Check());
    }
  }

  void OnDone() override { delete this; }

  const TaskPool::CallCount count_;
  TaskPool& pool_;
  Call call_;
  std::optional<StreamPlaces::StreamPlace> place_;
  Source source_;
  const std::shared_ptr<Parking> parking_ = std::make_shared<Parking>();
  Response message_;
};

}  // namespace msitd::service
