// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/access/gatekeeper.h"
#include "daemon/service/call/first_reads.h"

// How a call gets in.
namespace msitd::service {

// What all calls pass. All of it outlives the services.
struct Admission {
  access::Gatekeeper& gatekeeper;
  FirstReads& reads;
  // See kDaemonIdKey.
  const std::string& daemon_id;
};

// Returns a new one.
std::string MakeDaemonId();

// The property of a connection that says who calls, as access::ToText does. The
// server sets it.
inline constexpr const char* kCallerProperty = "msitd_caller";

// Returns who calls; nobody if the server has not said so.
access::Caller CallerOf(const grpc::ServerContextBase& context);

// Returns what the audit log names as the target of a request: the values of
// its fields that name a run, tensors, a comparison, an attachment, an archive
// or a job, with spaces between them. Empty for a request about the whole
// daemon.
std::string AuditTarget(const google::protobuf::Message& request);

// One call on its way through the gate. Thread-compatible.
class CallPass {
 public:
  CallPass(access::Gatekeeper& gatekeeper, const access::MethodRule& rule,
           const grpc::ServerContextBase& context)
      : gatekeeper_(gatekeeper),
        rule_(rule),
        caller_(CallerOf(context)),
        peer_(context.peer()) {}

  const access::Caller& caller() const { return caller_; }

  // Audits the refusal of a caller without any role.
  //
  // Errors: those of Gatekeeper::Enter.
  absl::Status Enter();

  // The request is there, or its part that opens a stream. May read the store.
  //
  // Errors: those of Gatekeeper::CheckTarget.
  absl::Status CheckRequest(const google::protobuf::Message& request);

  // Replaces the target if the answer names something else, such as what the
  // call has made.
  void NoteAnswer(const google::protobuf::Message& answer);

  // It has ended, or was refused. Does not block.
  void Note(const absl::Status& status) {
    gatekeeper_.Note(caller_, peer_, rule_, target_, status);
  }

 private:
  access::Gatekeeper& gatekeeper_;
  const access::MethodRule& rule_;
  const access::Caller caller_;
  const std::string peer_;
  std::string target_;  // Empty until it is known.
};

// A call that does not get in.
class RefusedCall final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedCall(const absl::Status& status);

 private:
  void OnDone() override { delete this; }
};

}  // namespace msitd::service
