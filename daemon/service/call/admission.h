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
#include "daemon/service/call/caller_stamp.h"
#include "daemon/service/call/first_reads.h"

// How calls are admitted.
namespace msitd::service {

// Objects that all calls use for admission. All of them must outlive the
// services.
struct Admission {
  access::Gatekeeper& gatekeeper;
  FirstReads& reads;
  // See kDaemonIdKey.
  const std::string& daemon_id;
};

// Returns a new id.
std::string MakeDaemonId();

// Returns the target of a request for the audit log: the values of its fields
// that name a run, tensors, a comparison, an attachment, an archive or a job,
// separated by spaces. Empty for a request that concerns the whole daemon.
std::string AuditTarget(const google::protobuf::Message& request);

// Tracks the admission of one call. Thread-compatible.
class CallPass {
 public:
  CallPass(access::Gatekeeper& gatekeeper, const access::MethodRule& rule,
           const grpc::ServerContextBase& context)
      : gatekeeper_(gatekeeper),
        rule_(rule),
        caller_(CallerOf(context)),
        peer_(context.peer()) {}

  const access::Caller& caller() const { return caller_; }

  // Checks that the caller has a role. Records a refusal in the audit log.
  //
  // Errors: those of Gatekeeper::Enter.
  absl::Status Enter();

  // Checks the request, or the part of it that opens a stream, when it has been
  // received. May read the store.
  //
  // Errors: those of Gatekeeper::CheckTarget.
  absl::Status CheckRequest(const google::protobuf::Message& request);

  // Replaces the target if the response names something else, such as an object
  // that the call created.
  void NoteAnswer(const google::protobuf::Message& answer);

  // Records that the call has ended or was refused. Does not block.
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

// A call that was not admitted.
class RefusedCall final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedCall(const absl::Status& status);

 private:
  void OnDone() override { delete this; }
};

}  // namespace msitd::service
