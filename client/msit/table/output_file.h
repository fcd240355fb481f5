// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::msit_command {

// The time of msit's file names, YYYYmmddHHMMSS: eight hours ahead of UTC, or
// UTC.
std::string ChinaTimeStamp();
std::string UtcTimeStamp();

// `path` from the root on, without links as far as it exists.
std::string AbsolutePath(const std::string& path);

// Makes `folder` and those above it, and a file `<stem>.csv` in it with
// `text`, whole or not at all. Returns its path. If there is one of this name,
// which one second is enough for, `<stem>_1.csv` and so on. PERMISSION_DENIED
// and the like name the path.
absl::StatusOr<std::string> WriteCsvFile(const std::string& folder,
                                         const std::string& stem,
                                         std::string_view text);

// Makes the folder of reports and those above it, for their owner and its
// group.
absl::Status MakeReportFolder(const std::string& folder);

// Takes the next bytes of a file.
using ByteTake = std::function<absl::Status(std::string_view)>;

// The same for a file of any size and any `extension`, such as ".xlsx", in a
// folder that is there: `write` gives its bytes. The name is taken before,
// against others that write in the same second.
absl::StatusOr<std::string> WriteReportFile(
    const std::string& folder, const std::string& stem,
    const std::string& extension,
    const std::function<absl::Status(const ByteTake&)>& write);

// Writes `path`, whole or not at all, in place of what is there.
absl::Status ReplaceReportFile(
    const std::string& path,
    const std::function<absl::Status(const ByteTake&)>& write);

}  // namespace msitd::msit_command
