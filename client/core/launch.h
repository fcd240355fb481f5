// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>

// Tells this process, and the launch it belongs to, from others.
namespace msitd::client {

// Returns an id that no stream has had. Its upper half belongs to this process;
// a forked child has another one.
uint64_t NewStreamId();

// Returns a text that all ranks of a launch share and, as far as can be known,
// no other launch has: the environment variable MSITD_JOB; for a world size of
// 1, this process; what launchers say in the environment; or the parent
// process. At most kJobBytesMax bytes.
std::string LaunchOf(int32_t world_size);

// A rank of a run on one daemon, as one launch names it. Recordings of it are
// counted together. A process that belongs to several launches, or streams to
// several daemons, counts separately for each.
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

// Counts a recording that was opened under a number of NextRecording, or that
// another rank has replaced by then. A client that was refused for another
// reason does not count, because other ranks were not refused with it.
void CountRecording(const RecordedRank& rank, uint32_t number);

// Returns the job that the client sends: see protos/base/recording_job.h. The
// name of the launch is shortened to a hash if it leaves no room for a number.
std::string JobOf(const std::string& launch, uint32_t recording);

}  // namespace msitd::client
