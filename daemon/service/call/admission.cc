// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/admission.h"

#include <fmt/format.h>

#include <cstdint>
#include <random>

#include "daemon/service/call/status_mapping.h"

namespace msitd::service {
namespace {

// Fields of requests that name what a method changes.
constexpr const char* kTargetFields[] = {"run", "name", "names", "comparison"};

std::string TargetOf(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& fields = *message.GetReflection();
  for (const char* name : kTargetFields) {
    const FieldDescriptor* const field =
        message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (!field->is_repeated()) return fields.GetString(message, field);
      const int count = fields.FieldSize(message, field);
      if (count == 0) return "";
      const std::string first = fields.GetRepeatedString(message, field, 0);
      return count == 1 ? first
                        : fmt::format("{} and {} more", first, count - 1);
    }
    // CreateRun has the run itself.
    if (std::string_view(name) == "run") {
      return TargetOf(fields.GetMessage(message, field));
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

std::string MakeDaemonId() {
  std::random_device random;
  const auto half = [&random] { return uint64_t{random()} << 32 | random(); };
  const uint64_t high = half();
  return fmt::format("{:016x}{:016x}", high, half());
}

absl::Status CallPass::Enter() {
  const absl::Status status = gatekeeper_.Enter(caller_, rule_);
  if (absl::IsPermissionDenied(status)) Note(status);
  return status;
}

absl::Status CallPass::CheckRequest(const google::protobuf::Message& request) {
  return CheckTarget(TargetOf(request));
}

void CallPass::NoteTarget(const google::protobuf::Message& message) {
  if (target_.empty()) target_ = TargetOf(message);
}

absl::Status CallPass::CheckTarget(std::string_view target) {
  target_ = target;
  return gatekeeper_.CheckTarget(caller_, rule_, target_);
}

RefusedCall::RefusedCall(const absl::Status& status) {
  Finish(ToGrpcStatus(status));
}

}  // namespace msitd::service
