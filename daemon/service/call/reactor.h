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

// How handlers on gRPC's callback API run: the work goes to a TaskPool, no
// thread of gRPC blocks, and each call is finished exactly once, with a status
// of ToGrpcStatus.
//
//   grpc::ServerUnaryReactor* GetRun(ctx, request, response) override {
//     return UnaryCall::Start(pool_, *ctx, [=, this](const Call& call) {
//       return DoGetRun(*request, *response);
//     });
//   }
//
// Request and response live until the work has returned. The pool outlives
// the server's Shutdown.
namespace msitd::service {

// What the work of a call can ask about its caller. Thread-safe.
class Call {
 public:
  explicit Call(const grpc::CallbackServerContext& context)
      : deadline_(context.deadline()), caller_(CallerOf(context)) {}

  const access::Caller& caller() const { return caller_; }

  std::chrono::system_clock::time_point deadline() const { return deadline_; }

  // CANCELLED once nobody waits for the answer, DEADLINE_EXCEEDED once it
  // would come too late; OK before. To be asked between steps of long work.
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

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  const std::chrono::system_clock::time_point deadline_;
  const access::Caller caller_;
  std::atomic<bool> cancelled_{false};
};

// One unary call. Owns itself until gRPC is done with it.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Work = absl::AnyInvocable<absl::Status(const Call&)>;

  // Makes a call that runs `work` on the pool and finishes with what it
  // returns. BoundedService, to which the call belongs, has it Begin.
  static grpc::ServerUnaryReactor* Start(TaskPool& pool,
                                         grpc::CallbackServerContext& context,
                                         Work work) {
    return new UnaryCall(pool, context, std::move(work));
  }

  // Has the pool parse the request and run the work. `messages` outlive the
  // call.
  void Begin(CallMessages& messages) {
    messages_ = &messages;
    const absl::Status status = pool_.Submit(call_.caller(), [this] { Run(); });
    if (!status.ok()) End(status);
  }

 private:
  // Answers up to this are not counted.
  static constexpr size_t kSmallAnswerBytes = size_t{64} << 10;
  // How long a larger one is kept for a caller that does not take it.
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

  // The last touch: gRPC may delete the reactor at once.
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
                   // The context goes with OnDone.
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
    // Not in the destructor, since the pool waits for calls but not for alarms.
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
  // Whoever is last deletes the call: gRPC, or the alarm.
  bool is_done_ ABSL_GUARDED_BY(mu_) = false;
  bool has_alarm_ ABSL_GUARDED_BY(mu_) = false;
};

// What a step of a stream came to.
enum class StreamStep {
  kMessage,  // Filled in the message: send it, then go on.
  kWait,     // There is nothing yet: go on once Await calls back.
  kEnd,      // There will be nothing more.
};

// What makes the messages of one stream. Next is called on the pool, never
// twice at a time.
template <typename Response>
class StreamSource {
 public:
  virtual ~StreamSource() = default;

  // `message` comes cleared. An error ends the stream.
  virtual absl::StatusOr<StreamStep> Next(const Call& call,
                                          Response& message) = 0;

  // Called after each kWait; a source that never waits need not override it.
  // Calls `wake` once, from some thread and maybe within this call. Returns a
  // number for StopWaiting.
  virtual uint64_t Await(absl::AnyInvocable<void()> /*wake*/) {
    MSITD_CHECK(false);
    return 0;
  }
  // Returns true if the `wake` of this number will never be called, false if
  // it was or will be.
  virtual bool StopWaiting(uint64_t /*waiter*/) { return false; }
};

// One server-streaming call. The next message is made only when the one before
// has been written, so a slow reader costs one message of memory and no thread.
// Owns itself until gRPC is done with it.
//
// At any time exactly one of these owns the call and may touch it: a task of
// the pool, a write of gRPC, or a waiter of the source. OnCancel takes it over
// from a waiter.
template <typename Response>
class StreamCall final : public grpc::ServerWriteReactor<Response> {
 public:
  using Source = std::unique_ptr<StreamSource<Response>>;

  // An error instead of a source ends the call with it. With `places`, which
  // outlive the call, it needs a place there, and the source does not wait.
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
  // The state of a call that waits. Shared by the call and by those of its
  // methods that may still hold the lock when the call has gone.
  struct Parking {
    Mutex mu;
    bool cancelled ABSL_GUARDED_BY(mu) = false;
    uint64_t waiter ABSL_GUARDED_BY(mu) = 0;
  };

  StreamCall(TaskPool& pool, const grpc::CallbackServerContext& context,
             Source source)
      : count_(pool), pool_(pool), call_(context), source_(std::move(source)) {}

  // Each branch hands the call on as its last touch.
  void Step() {
    if (const absl::Status status = call_.Check(); !status.ok()) {
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
      // The end may wait behind messages that nobody takes. A stream with a
      // place never waits for its source, so that nobody else has that now.
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
      // The lock keeps OnCancel away until the number of the waiter is known.
      // After Await somebody else may own the call.
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
      // So that a stream that waits for its turn takes little.
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
  std::optional<StreamPlaces::Place> place_;
  Source source_;
  const std::shared_ptr<Parking> parking_ = std::make_shared<Parking>();
  Response message_;
};

}  // namespace msitd::service
