// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/error_reason.h"

// Creates, reads and annotates absl::Status. Debian's Abseil has its own
// string_view, so messages are formatted with {fmt}.
namespace msitd {

// Returns a status of `code` whose message is the formatted text.
template <typename... Args>
absl::Status MakeStatus(absl::StatusCode code,
                        fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}

// The message of `status`, valid as long as `status` is.
inline std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// Prepends `context` to the message of an error: what the layer was doing and
// to which object, as in "append to segment 42: write: no space left on
// device". Keeps payloads. Returns an OK status unchanged.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// Returns the status of a failed system call: `context`, then the text of
// `error_number`. ENOENT maps to NOT_FOUND, EEXIST to ALREADY_EXISTS, EACCES,
// EPERM and EROFS to PERMISSION_DENIED, ENOSPC and EDQUOT to
// RESOURCE_EXHAUSTED, and all others to UNAVAILABLE.
absl::Status ErrnoStatus(int error_number, std::string_view context);

// Sets the machine-readable reason of an error. The service layer writes its
// name to ErrorInfo.
absl::Status WithReason(absl::Status status, ErrorReason reason);
// As above, for the name of a reason from another process; sets no reason if
// empty.
absl::Status WithReason(absl::Status status, std::string_view name);

// Returns the name of the reason that WithReason set; empty if there is none.
std::string Reason(const absl::Status& status);
bool HasReason(const absl::Status& status, ErrorReason reason);

// Adds a value of the message in machine-readable form, for ErrorInfo.metadata.
absl::Status WithMetadata(absl::Status status, std::string_view key,
                          std::string_view value);

// Returns the metadata that WithMetadata set.
std::map<std::string, std::string> Metadata(const absl::Status& status);

// Returns INVALID_ARGUMENT for a field of a request, such as "filter.ranks[3]:
// 7 is twice there", with the reason FIELD_INVALID and the field in the
// metadata.
absl::Status FieldInvalid(std::string_view field, std::string_view problem);

}  // namespace msitd

#define MSITD_RETURN_IF_ERROR(expression)                               \
  do {                                                                  \
    if (absl::Status msitd_status = (expression); !msitd_status.ok()) { \
      return msitd_status;                                              \
    }                                                                   \
  } while (false)

#define MSITD_STATUS_CONCAT_(a, b) a##b
#define MSITD_STATUS_CONCAT(a, b) MSITD_STATUS_CONCAT_(a, b)
#define MSITD_ASSIGN_OR_RETURN(target, expression)                         \
  MSITD_ASSIGN_OR_RETURN_(MSITD_STATUS_CONCAT(msitd_status_or_, __LINE__), \
                          target, expression)
#define MSITD_ASSIGN_OR_RETURN_(variable, target, expression) \
  auto variable = (expression);                               \
  if (!variable.ok()) return std::move(variable).status();    \
  target = *std::move(variable)
