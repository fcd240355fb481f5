// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "msitd/v1/capture_service.pb.h"
#include "protos/base/selector.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Names of the documents in which clients report what their hooks do not
// record. Each client has its own, except that all older clients have the
// second name. See docs/format/not_recorded.md.
inline constexpr std::string_view kNotRecordedNames = "not_recorded/*.json";
inline constexpr std::string_view kOldNotRecordedName = "not_recorded.json";

// Maximum number of clients of a rank whose documents are read. Further
// documents are skipped, and a reason says so.
inline constexpr size_t kNotRecordedClientsMax = 64;
// Maximum number of different reasons of a rank: those of one client, and two
// that stand for all others.
inline constexpr size_t kNotRecordedReasonsMax = 67;
// Maximum number of ops of a rank that are listed as never called.
inline constexpr size_t kUncalledOpsMax = 65'536;
// Longer texts of a reason are cut to this size.
inline constexpr size_t kNotRecordedTextBytesMax = 1024;

// The records that the clients of one rank skip, and the reasons.
struct NotRecorded {
  // Sum over all reasons that are not harmless.
  int64_t count = 0;
  std::vector<v1::NotRecorded> reasons;
  // Ops of which no call was seen, ascending. Each client lists at most 1024.
  std::vector<std::string> uncalled;
};

// Returns what each rank of `run` does not record, according to the reports of
// its clients. Only ranks in `selected` are included, or all if it is empty.
// The documents are untrusted: a document that is damaged or was removed counts
// as a reason itself.
//
// Blocks on the reader. Errors: that of `stop`; those of the reader, except
// errors that concern a single document.
absl::StatusOr<std::map<int32_t, NotRecorded>> FindNotRecorded(
    storage::RunReader& run, const std::vector<int32_t>& selected,
    storage::StopCheck stop);

// Returns the sum of all counts.
int64_t CountOf(const std::map<int32_t, NotRecorded>& ranks);

}  // namespace msitd::compare
