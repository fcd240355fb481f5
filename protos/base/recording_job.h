// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "protos/base/limits.h"

// Which recordings of the ranks of one launch belong together.
//
// A process can record the same rank of a run several times in succession. All
// ranks of its launch do so, but not in lockstep: one rank may have finished
// two recordings before another begins its first. So a client counts the
// recordings of each run and rank, and the job that it sends names the launch
// and the number: `launch`, `launch / recording 2`, and so on. Streams with
// equal jobs belong together.
namespace msitd {

struct RecordingJob {
  std::string_view launch;
  uint32_t number = 1;  // From 1 to kRecordingNumberMax.
};

inline constexpr uint32_t kRecordingNumberMax = 999'999'999;
inline constexpr std::string_view kRecordingSeparator = " / recording ";
// Longer names of launches would leave no room for a number within
// kJobBytesMax.
inline constexpr uint32_t kLaunchBytesMax =
    kJobBytesMax - static_cast<uint32_t>(kRecordingSeparator.size()) - 9;

inline std::string MakeRecordingJob(const RecordingJob& job) {
  std::string text(job.launch);
  if (job.number > 1) {
    text.append(kRecordingSeparator).append(std::to_string(job.number));
  }
  return text;
}

// How launches without a name are identified: by the first process, by the
// variables of a launcher, or by the process itself.
inline constexpr std::string_view kLaunchOfParent = "parent";
inline constexpr std::string_view kLaunchOfLauncher = "launch";
inline constexpr std::string_view kLaunchOfProcess = "process";

// Returns whether the user has named the launch. Only then do different names
// prove different launches: ranks of one launch may have different parents, and
// different variables if each has a launcher of its own.
inline bool IsNamedLaunch(std::string_view launch) {
  for (const std::string_view kind :
       {kLaunchOfParent, kLaunchOfLauncher, kLaunchOfProcess}) {
    if (launch.size() > kind.size() && launch.starts_with(kind) &&
        launch[kind.size()] == ' ') {
      return false;
    }
  }
  return !launch.empty();
}

// Parses the result of MakeRecordingJob. Any other text is the first recording
// of a launch with that name.
inline RecordingJob ParseRecordingJob(std::string_view text) {
  const size_t at = text.rfind(kRecordingSeparator);
  if (at == std::string_view::npos) return {text, 1};
  const std::string_view digits = text.substr(at + kRecordingSeparator.size());
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_canonical =
      error == std::errc() && end == digits.data() + digits.size() &&
      digits.front() != '0' && number >= 2 && number <= kRecordingNumberMax;
  return is_canonical ? RecordingJob{text.substr(0, at), number}
                      : RecordingJob{text, 1};
}

}  // namespace msitd
