// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// How a stream tells itself from others.
//
// The id of a stream: its upper half stands for the process that opened it, so
// that streams of one process are known from those of others.
namespace msitd {

// Not 0 in an id that a client of ours makes.
constexpr uint32_t ProcessOf(uint64_t stream_id) {
  return static_cast<uint32_t>(stream_id >> 32);
}

constexpr uint64_t MakeStreamId(uint32_t process, uint32_t number) {
  return uint64_t{process} << 32 | number;
}

// What a stream makes of a run that has tensors of its rank from another
// process already; see ingest_service.proto. The numbers travel.
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
