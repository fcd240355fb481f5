// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Stream ids. The upper half of a stream id identifies the process that opened
// the stream, so that streams of one process can be distinguished from those of
// others.
namespace msitd {

// Returns the number of the process. It is never 0 in an id that a client of
// msitd creates.
constexpr uint32_t ProcessOf(uint64_t stream_id) {
  return static_cast<uint32_t>(stream_id >> 32);
}

constexpr uint64_t MakeStreamId(uint32_t process, uint32_t number) {
  return uint64_t{process} << 32 | number;
}

// Action to take when a stream is opened for a run that already has tensors of
// its rank from another stream; see ingest_service.proto. The numbers are part
// of the session format.
enum class IfExists : uint32_t {
  kFail = 1,
  kAppend = 2,
  kReplace = 3,
  kNew = 4,
};

constexpr bool IsIfExists(uint32_t number) {
  return number >= 1 && number <= 4;
}

}  // namespace msitd
