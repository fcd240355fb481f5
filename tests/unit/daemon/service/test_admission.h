// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "daemon/service/call/admission.h"
#include "daemon/service/call/caller_stamp.h"

namespace msitd::testing {

// Returns credentials for a Unix socket on which all callers are `caller`.
inline std::shared_ptr<grpc::ServerCredentials> CredentialsOf(
    access::Caller caller) {
  auto out = grpc::experimental::LocalServerCredentials(UDS);
  out->SetAuthMetadataProcessor(std::make_shared<service::CallerStamp>(
      [caller](const grpc::AuthContext&) { return caller; }));
  return out;
}

// Admits every caller with the required role, and ignores owners.
struct OpenGate {
  access::Gatekeeper gatekeeper{
      {.owner_of_run = [](std::string_view) -> absl::StatusOr<std::string> {
         return absl::NotFoundError("none");
       },
       .owner_of_comparison =
           [](std::string_view) -> absl::StatusOr<std::string> {
         return absl::NotFoundError("none");
       }}};
  service::FirstReads reads;
  const std::string daemon_id = service::MakeDaemonId();

  service::Admission admission() { return {gatekeeper, reads, daemon_id}; }
};

}  // namespace msitd::testing
