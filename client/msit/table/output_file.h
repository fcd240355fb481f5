// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::msit_command {

// Returns the time in msit's file names, YYYYmmddHHMMSS: eight hours ahead of
// UTC, or UTC.
std::string ChinaTimeStamp();
std::string UtcTimeStamp();

// Returns the absolute form of `path`, with the links of its existing part
// resolved.
std::string AbsolutePath(const std::string& path);

// Creates `folder` with its parents, and a file `<stem>.csv` in it with `text`,
// completely or not at all. Returns its path. If there is a file of this name,
// such as one written in the same second, the name is `<stem>_1.csv` and so on.
// Errors such as PERMISSION_DENIED name the path.
absl::StatusOr<std::string> WriteCsvFile(const std::string& folder,
                                         const std::string& stem,
                                         std::string_view text);

// Creates the folder of reports with its parents, accessible to their owner and
// its group.
absl::Status MakeReportFolder(const std::string& folder);

// Checks that MakeReportFolder and the reports will succeed, by creating the
// folder and a file, and removing what it created. Call it before work that
// takes long. Errors name the path.
absl::Status CheckReportFolder(const std::string& folder);

// Accepts the next bytes of a file.
using ByteTake = std::function<absl::Status(std::string_view)>;

// The same for a file of any size and any `extension`, such as ".xlsx", in an
// existing folder: `write` produces its bytes. The name is reserved before
// that, because other processes may write in the same second.
absl::StatusOr<std::string> WriteReportFile(
    const std::string& folder, const std::string& stem,
    const std::string& extension,
    const std::function<absl::Status(const ByteTake&)>& write);

// Writes `path`, completely or not at all, and replaces an existing file.
absl::Status ReplaceReportFile(
    const std::string& path,
    const std::function<absl::Status(const ByteTake&)>& write);

}  // namespace msitd::msit_command
