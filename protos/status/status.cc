// SPDX-License-Identifier: Apache-2.0
#include "protos/status/status.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/cord.h"

namespace msitd {
namespace {

constexpr char kReasonUrl[] = "msitd/reason";
constexpr std::string_view kMetadataUrl = "msitd/metadata/";

absl::StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status out(status.code(),
                   fmt::format("{}: {}", context, Message(status)));
  status.ForEachPayload([&out](absl::string_view url, const absl::Cord& bytes) {
    out.SetPayload(url, bytes);
  });
  return out;
}

absl::Status ErrnoStatus(int error_number, std::string_view context) {
  return MakeStatus(CodeOf(error_number), "{}: {}", context,
                    std::generic_category().message(error_number));
}

absl::Status WithReason(absl::Status status, ErrorReason reason) {
  return WithReason(std::move(status), ErrorReasonName(reason));
}

absl::Status WithReason(absl::Status status, std::string_view name) {
  if (!name.empty()) {
    status.SetPayload(kReasonUrl, absl::Cord(std::string(name)));
  }
  return status;
}

std::string Reason(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

bool HasReason(const absl::Status& status, ErrorReason reason) {
  return Reason(status) == ErrorReasonName(reason);
}

absl::Status WithMetadata(absl::Status status, std::string_view key,
                          std::string_view value) {
  status.SetPayload(fmt::format("{}{}", kMetadataUrl, key),
                    absl::Cord(std::string(value)));
  return status;
}

std::map<std::string, std::string> Metadata(const absl::Status& status) {
  std::map<std::string, std::string> out;
  status.ForEachPayload([&out](absl::string_view url, const absl::Cord& bytes) {
    const std::string_view name(url.data(), url.size());
    if (!name.starts_with(kMetadataUrl)) return;
    out.emplace(name.substr(kMetadataUrl.size()), std::string(bytes));
  });
  return out;
}

absl::Status FieldInvalid(std::string_view field, std::string_view problem) {
  return WithMetadata(WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                            "{}: {}", field, problem),
                                 ErrorReason::kFieldInvalid),
                      "field", field);
}

}  // namespace msitd
