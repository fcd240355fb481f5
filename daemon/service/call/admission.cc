// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/admission.h"

#include "daemon/service/call/status_mapping.h"

namespace msitd::service {
namespace {

// Fields of requests that name what a method changes.
constexpr const char* kTargetFields[] = {"run", "name", "comparison"};

std::string TargetOf(const google::protobuf::Message& request) {
  using google::protobuf::FieldDescriptor;
  for (const char* name : kTargetFields) {
    const FieldDescriptor* const field =
        request.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return request.GetReflection()->GetString(request, field);
    }
    // CreateRun and CreateComparison have the thing itself.
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return TargetOf(request.GetReflection()->GetMessage(request, field));
    }
  }
  return "";
}

}  // namespace

access::Caller CallerOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> connection =
      context.auth_context();
  if (connection == nullptr) return {};
  const std::vector<grpc::string_ref> found =
      connection->FindPropertyValues(kCallerProperty);
  if (found.size() != 1) return {};
  return access::ParseCaller({found.front().data(), found.front().size()});
}

absl::Status CallPass::CheckRequest(const google::protobuf::Message& request) {
  return CheckTarget(TargetOf(request));
}

void CallPass::NoteTarget(const google::protobuf::Message& request) {
  target_ = TargetOf(request);
}

absl::Status CallPass::CheckTarget(std::string_view target) {
  target_ = target;
  return gatekeeper_.CheckTarget(caller_, rule_, target_);
}

RefusedCall::RefusedCall(const absl::Status& status) {
  Finish(ToGrpcStatus(status));
}

}  // namespace msitd::service
