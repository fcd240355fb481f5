// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "msitd/v1/capture_service.pb.h"
#include "protos/base/selector.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Names of the documents that say what hooks do not record, one for each
// client; see docs/format/not_recorded.md. All older clients have the same one.
inline constexpr std::string_view kNotRecordedNames = "not_recorded/*.json";
inline constexpr std::string_view kOldNotRecordedName = "not_recorded.json";

// Documents of a rank that are read: one for each client. More are passed over
// and said so.
inline constexpr size_t kNotRecordedClientsMax = 64;
// Reasons of a rank that are told apart: those of one client, and two that
// stand for all others.
inline constexpr size_t kNotRecordedReasonsMax = 67;
// Longer texts of a reason are cut.
inline constexpr size_t kNotRecordedTextBytesMax = 1024;

// What the clients of one rank do not record.
struct NotRecorded {
  // Of the reasons that are not harmless.
  int64_t count = 0;
  std::vector<v1::NotRecorded> reasons;
};

// Returns what each rank of `run` that `selected` names, or any if it is empty,
// does not record, as far as it has told. The documents are foreign bytes: one
// that is damaged, or that has been given up, is a reason itself.
//
// Blocks on the reader. Errors: that of `stop`; those of the reader that are
// about no document.
absl::StatusOr<std::map<int32_t, NotRecorded>> FindNotRecorded(
    storage::RunReader& run, const std::vector<int32_t>& selected,
    storage::StopCheck stop);

// Returns the sum of all counts.
int64_t CountOf(const std::map<int32_t, NotRecorded>& ranks);

}  // namespace msitd::compare
