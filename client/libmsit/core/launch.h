// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>

// Identification of this process and of the launch that it belongs to.
namespace msitd::libmsit {

// Returns an id that no stream has had before. Its upper half identifies this
// process; a forked child has another one.
uint64_t NewStreamId();

// Returns a text that all ranks of a launch share and, as far as can be
// determined, no other launch has. It is the environment variable MSITD_JOB.
// Without it, the text identifies this process if the world size is 1.
// Otherwise it consists of the variables that launchers set, or identifies the
// parent process. At most kJobBytesMax bytes.
std::string LaunchOf(int32_t world_size);

// A rank of a run on one daemon in one launch. Its recordings are counted
// together. A process that belongs to several launches, or streams to several
// daemons, counts separately for each.
struct RecordedRank {
  std::string endpoint;
  std::string launch;
  std::string run;
  int32_t rank = 0;

  auto operator<=>(const RecordedRank&) const = default;
};

// Returns the number of the next recording of `rank`: one more than this
// process has opened. A forked child counts from 1.
uint32_t NextRecording(const RecordedRank& rank);

// Counts a recording that was opened with a number from NextRecording, or that
// another rank has replaced in the meantime. A client that was refused for any
// other reason is not counted, because other ranks were not refused with it.
void CountRecording(const RecordedRank& rank, uint32_t number);

// Returns the job that the client sends; see protos/base/recording_job.h. The
// name of the launch is replaced by a hash if it leaves no room for a number.
std::string JobOf(const std::string& launch, uint32_t recording);

}  // namespace msitd::libmsit
