// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "client/ask/query/fanout.h"
#include "client/ask/query/interrupts.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/archive_service.grpc.pb.h"
#include "msitd/v1/attachment_service.grpc.pb.h"
#include "msitd/v1/capture_service.grpc.pb.h"
#include "msitd/v1/comparison_service.grpc.pb.h"
#include "msitd/v1/node_service.grpc.pb.h"
#include "msitd/v1/run_reader_service.grpc.pb.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "msitd/v1/tensor_service.grpc.pb.h"
#include "protos/endpoint/personal_daemon.h"
#include "protos/status/mutex.h"

namespace msitd::ask {

// The daemon, and how to connect to it.
struct ConnectionOptions {
  std::string endpoint;  // In the syntax of ParseEndpoint.
  std::string target;    // As returned by ParseEndpoint.
  // The socket folder of the personal daemon, which is started at the first
  // call, as `start` says. Empty for other daemons. See daemon_choice.h.
  std::string personal_dir = {};
  endpoint::Start start = endpoint::Start::kAuto;
  // Why this user cannot use the daemon. Empty: nothing is known.
  std::string problem = {};
  bool tls = false;
  std::string ca_file;  // Empty: the certificates of the system.
  // PEM files to show to the daemon; both or neither.
  std::string cert_file;
  std::string key_file;

  // Time for all calls together. Absent: kUnaryTimeout for each call,
  // kStreamTimeout for a stream or a wait.
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds connect_timeout{5000};
  // The limit for one call, including the connection if it does not exist yet.
  // Absent: determined by `timeout`.
  std::optional<std::chrono::milliseconds> call_timeout;

  // The host in the certificate of the daemon, if `endpoint` contains only its
  // address. Empty: the host of `endpoint`.
  std::string tls_host;
};

// Creates a request for the run, comparison or tensor with this name.
template <typename Request>
Request RequestFor(const std::string& name) {
  Request request;
  if constexpr (requires { request.set_run(name); }) {
    request.set_run(name);
  } else if constexpr (requires { request.set_comparison(name); }) {
    request.set_comparison(name);
  } else {
    request.set_name(name);
  }
  return request;
}

// Calls one daemon. Connects at the first call, so that errors in the command
// line are reported without a daemon. Thread-safe, except SetFanout and with a
// fanout.
class Connection {
 public:
  using Clock = std::chrono::system_clock;
  static constexpr std::chrono::seconds kUnaryTimeout{60};
  static constexpr std::chrono::hours kStreamTimeout{24};

  // Borrows `interrupts`. The timeout begins now.
  Connection(ConnectionOptions options, Interrupts& interrupts);

  // Makes `fanout` answer all calls from now on. Borrows it.
  void SetFanout(Fanout* fanout) { fanout_ = fanout; }
  Fanout* fanout() const { return fanout_; }

  Interrupts& interrupts() { return interrupts_; }
  const ConnectionOptions& connection_options() const { return options_; }

  // The last value of kDaemonIdKey that the daemon sent; empty before that.
  std::string daemon_id() const ABSL_LOCKS_EXCLUDED(mu_);

  // Connects at the first call. Starts the personal daemon if that is the
  // daemon and it does not run.
  Outcome Connect() ABSL_LOCKS_EXCLUDED(mu_);

  // A method with a single answer, such as &v1::RunService::Stub::GetRun.
  template <typename Stub, typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&,
                                        Response*);

  // Makes a call that an interrupt may cancel.
  template <typename Stub, typename Request, typename Response>
  Outcome Ask(Method<Stub, Request, Response> method, const Request& request,
              Response& response) {
    return Call(method, request, response, /*may_be_cancelled=*/true);
  }

  // Makes a call whose outcome must be known. An interrupt waits for the
  // response.
  template <typename Stub, typename Request, typename Response>
  Outcome AskToTheEnd(Method<Stub, Request, Response> method,
                      const Request& request, Response& response) {
    return Call(method, request, response, /*may_be_cancelled=*/false);
  }

  // Like Ask, for a request that contains only a name.
  template <typename Stub, typename Request, typename Response>
  Outcome AskByName(Method<Stub, Request, Response> method,
                    const std::string& name, Response& response) {
    return Ask(method, RequestFor<Request>(name), response);
  }

  // The same call of another daemon.
  template <typename Stub, typename Request, typename Response>
  static Fanout::NodeCall NodeCallOf(Method<Stub, Request, Response> method,
                                     bool may_be_cancelled = true) {
    return [method, may_be_cancelled](Connection& node,
                                      const Fanout::Message& request,
                                      Fanout::Message& response) {
      return node.Call(method, static_cast<const Request&>(request),
                       static_cast<Response&>(response), may_be_cancelled);
    };
  }

  Clock::time_point UnaryDeadline() const;
  Clock::time_point StreamDeadline() const;

  // Converts `status`. Distinguishes interrupts and unreachable daemons from
  // errors that a daemon returned.
  Outcome OutcomeOf(const grpc::Status& status) const ABSL_LOCKS_EXCLUDED(mu_);

  // Valid once connected.
  template <typename Stub>
  Stub& stub() {
    return *std::get<std::unique_ptr<Stub>>(stubs_);
  }

 private:
  template <typename Stub, typename Request, typename Response>
  Outcome Call(Method<Stub, Request, Response> method, const Request& request,
               Response& response, bool may_be_cancelled) {
    if (fanout_ != nullptr) {
      return fanout_->Ask(NodeCallOf(method, may_be_cancelled), request,
                          response);
    }
    const auto deadline = UnaryDeadline();
    MSITCTL_RETURN_IF_FAILED(ConnectFor(deadline));
    grpc::ClientContext context;
    context.set_deadline(deadline);
    const Interrupts::Hold hold(interrupts_,
                                may_be_cancelled ? &context : nullptr);
    const grpc::Status status =
        (stub<Stub>().*method)(&context, request, &response);
    if (status.ok()) NoteDaemon(context);
    return OutcomeOf(status);
  }
  // Connects for a call, which may have a deadline. Calls that wait while
  // another one cannot connect share its failure.
  Outcome ConnectFor(std::optional<Clock::time_point> deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  Outcome ConnectLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts the personal daemon if it is the daemon of this connection.
  Outcome EnsureDaemon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Outcome OpenChannel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Outcome WaitForChannel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Stores the id of the daemon from a response.
  void NoteDaemon(const grpc::ClientContext& context) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns why the daemon cannot be reached. gRPC does not report TLS as the
  // reason.
  Outcome Unreachable(std::string_view by_grpc,
                      Clock::time_point call_deadline) const;

  const ConnectionOptions options_;
  Interrupts& interrupts_;
  const Clock::time_point start_ = Clock::now();
  Fanout* fanout_ = nullptr;
  // Held while the connection is made.
  mutable Mutex mu_;
  // That of the last call.
  Clock::time_point call_deadline_ ABSL_GUARDED_BY(mu_) =
      Clock::time_point::max();
  // Number of failures to connect, and the last one. The number is written with
  // mu_ held and read without it before waiting for it.
  std::atomic<uint64_t> failed_count_{0};
  Outcome failure_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mu_);
  bool was_ready_ ABSL_GUARDED_BY(mu_) = false;
  std::string daemon_id_ ABSL_GUARDED_BY(mu_);
  // Constant after the first Connect.
  std::tuple<std::unique_ptr<v1::RunService::Stub>,
             std::unique_ptr<v1::AttachmentService::Stub>,
             std::unique_ptr<v1::TensorService::Stub>,
             std::unique_ptr<v1::ComparisonService::Stub>,
             std::unique_ptr<v1::CaptureService::Stub>,
             std::unique_ptr<v1::NodeService::Stub>,
             std::unique_ptr<v1::RunReaderService::Stub>,
             std::unique_ptr<v1::ArchiveService::Stub>>
      stubs_;
};

}  // namespace msitd::ask
