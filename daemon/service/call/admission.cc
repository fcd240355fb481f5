// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/admission.h"

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>

#include "daemon/service/call/status_mapping.h"

namespace msitd::service {
namespace {

using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;

// Fields that name the target of a call, in the order of an audit line.
constexpr const char* kTargetFields[] = {
    "run",        "name",         "names", "comparison", "golden_run",
    "target_run", "archived_run", "url",   "id"};

std::string StringIn(const ProtoMessage& message, const char* name) {
  const FieldDescriptor* const field =
      message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() ||
      field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return "";
  }
  return message.GetReflection()->GetString(message, field);
}

std::string TextOf(const ProtoMessage& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  if (field.is_repeated()) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "";
    const int count = fields.FieldSize(message, &field);
    if (count == 0) return "";
    std::string first = fields.GetRepeatedString(message, &field, 0);
    return count == 1 ? first : fmt::format("{} and {} more", first, count - 1);
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return fields.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t number = fields.GetInt64(message, &field);
      return number == 0 ? "" : std::to_string(number);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      // CreateRun and CreateComparison contain the run and the comparison.
      return fields.HasField(message, &field)
                 ? AuditTarget(fields.GetMessage(message, &field))
                 : "";
    default:
      return "";
  }
}

}  // namespace

std::string AuditTarget(const ProtoMessage& request) {
  std::string out;
  for (const char* name : kTargetFields) {
    const FieldDescriptor* const field =
        request.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) continue;
    const std::string text = TextOf(request, *field);
    if (text.empty()) continue;
    if (!out.empty()) out += ' ';
    out += text;
  }
  return out;
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

absl::Status CallPass::CheckRequest(const ProtoMessage& request) {
  target_ = AuditTarget(request);
  const bool is_comparison = rule_.of == access::MethodRule::Of::kComparison;
  return gatekeeper_.CheckTarget(
      caller_, rule_, StringIn(request, is_comparison ? "comparison" : "run"));
}

void CallPass::NoteAnswer(const ProtoMessage& answer) {
  const std::string name = StringIn(answer, "name");
  const bool is_new = !name.empty() && target_.find(name) == std::string::npos;
  if (target_.empty() || is_new) target_ = AuditTarget(answer);
}

RefusedCall::RefusedCall(const absl::Status& status) {
  Finish(ToGrpcStatus(status));
}

}  // namespace msitd::service
