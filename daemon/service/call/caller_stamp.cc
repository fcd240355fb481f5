// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/caller_stamp.h"

#include "daemon/service/call/admission.h"

namespace msitd::service {

grpc::Status CallerStamp::Process(const InputMetadata& /*metadata*/,
                                  grpc::AuthContext* connection,
                                  OutputMetadata* /*consumed*/,
                                  OutputMetadata* /*response*/) {
  MutexLock lock(mu_);
  if (connection->FindPropertyValues(kCallerProperty).empty()) {
    connection->AddProperty(kCallerProperty,
                            access::ToText(identify_(*connection)));
  }
  return grpc::Status::OK;
}

}  // namespace msitd::service
