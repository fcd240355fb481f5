// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/query/interrupts.h"
#include "client/query/outcome.h"
#include "client/query/tls_probe.h"
#include "msitd/v1/capture_service.grpc.pb.h"
#include "msitd/v1/comparison_service.grpc.pb.h"
#include "msitd/v1/node_service.grpc.pb.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "msitd/v1/tensor_service.grpc.pb.h"

namespace msitd::ctl {

// Which daemon, and how to reach it.
struct ConnectionOptions {
  std::string endpoint;  // As ParseEndpoint takes it.
  std::string target;    // As it gives it.
  bool tls = false;
  std::string ca_file;  // Empty: the certificates of the system.
  // What the daemon is shown; both or neither.
  std::string cert_file;
  std::string key_file;

  // Of all calls together; absent: kUnaryTimeout for each call, kStreamTimeout
  // for a stream or a wait.
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds connect_timeout{5000};
};

// The calls of one daemon. Connects when the first one is made, so that a wrong
// command line is told without a daemon. Thread-compatible.
class Connection {
 public:
  using Clock = std::chrono::system_clock;
  static constexpr std::chrono::seconds kUnaryTimeout{60};
  static constexpr std::chrono::hours kStreamTimeout{24};

  // Borrows `interrupts`. The timeout begins now.
  Connection(ConnectionOptions options, Interrupts& interrupts);

  Interrupts& interrupts() { return interrupts_; }

  // Does nothing once connected.
  Outcome Connect();

  // Makes a call that an interrupt may cancel: `call` gets a ClientContext and
  // returns what the stub returns.
  template <typename F>
  Outcome Unary(F&& call) {
    MSITCTL_RETURN_IF_FAILED(Connect());
    grpc::ClientContext context;
    context.set_deadline(UnaryDeadline());
    const Interrupts::Hold hold(interrupts_, &context);
    return OutcomeOf(call(context));
  }

  // Like Unary, for a call whose answer has to be known: an interrupt waits
  // until it is there.
  template <typename F>
  Outcome UnaryToTheEnd(F&& call) {
    MSITCTL_RETURN_IF_FAILED(Connect());
    grpc::ClientContext context;
    context.set_deadline(UnaryDeadline());
    const Interrupts::Hold hold(interrupts_);
    return OutcomeOf(call(context));
  }

  Clock::time_point UnaryDeadline() const;
  Clock::time_point StreamDeadline() const;

  // Decodes `status`; an interrupt and a daemon that cannot be reached are
  // told from what a daemon says.
  Outcome OutcomeOf(const grpc::Status& status) const;

  // Valid once connected.
  v1::RunService::Stub& runs() { return *runs_; }
  v1::TensorService::Stub& tensors() { return *tensors_; }
  v1::ComparisonService::Stub& comparisons() { return *comparisons_; }
  v1::CaptureService::Stub& captures() { return *captures_; }
  v1::NodeService::Stub& node() { return *node_; }

 private:
  Outcome OpenChannel();
  // Why the daemon is not reached, in words; gRPC does not say it of TLS.
  Outcome Unreachable(std::string_view by_grpc) const;

  const ConnectionOptions options_;
  Interrupts& interrupts_;
  const Clock::time_point start_ = Clock::now();
  TlsAttempt attempt_;
  std::shared_ptr<grpc::Channel> channel_;
  bool was_ready_ = false;
  std::unique_ptr<v1::RunService::Stub> runs_;
  std::unique_ptr<v1::TensorService::Stub> tensors_;
  std::unique_ptr<v1::ComparisonService::Stub> comparisons_;
  std::unique_ptr<v1::CaptureService::Stub> captures_;
  std::unique_ptr<v1::NodeService::Stub> node_;
};

}  // namespace msitd::ctl
