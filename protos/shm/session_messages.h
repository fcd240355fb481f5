// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "protos/base/limits.h"
#include "protos/base/stream_id.h"

// Messages between a local producer and the daemon on the ingest socket, a
// Unix socket of type SOCK_SEQPACKET: one struct is one packet, little-endian.
// docs/format/session.md has the bytes.
//
//   producer                                     daemon
//      | -- SessionHello (+ its arena) ----------> |
//      | <---- SessionPolicy (+ 1 fd), if any ---- |
//      | <---- SessionWelcome (+ 2 or 3 fds) ----- |
//      |                                           |   chunks go by the ring
//      | <--- SessionCommitted, SessionPolicy, any |
//      | -- SessionCoverage, any number ---------> |
//      | -- SessionFinish -----------------------> |
//      | <---------------------------- SessionEnd  |
//
// Either side ends a session by closing the socket.
namespace msitd::shm {

inline constexpr uint32_t kSessionMagic = 0x48534d49;  // "IMSH"
inline constexpr uint16_t kSessionVersion = 3;
inline constexpr uint32_t kUserAgentBytesMax = 256;
inline constexpr uint32_t kReasonBytesMax = 64;
inline constexpr uint32_t kMessageBytesMax = 512;

enum class SessionMessage : uint16_t {
  kHello = 1,
  kWelcome = 2,
  kCoverage = 3,
  kFinish = 4,
  kEnd = 5,
  kCommitted = 6,
  kPolicy = 7,
};

struct SessionHeader {
  uint32_t magic = kSessionMagic;
  uint16_t version = kSessionVersion;
  SessionMessage type{};
};

// Opens a session. Has the memfd of the arena attached if the producer holds
// one from a session that was interrupted.
struct SessionHello {
  static constexpr SessionMessage kType = SessionMessage::kHello;
  SessionHeader header{.type = kType};
  int32_t rank = 0;
  int32_t world_size = 0;
  uint64_t stream_id = 0;
  // Size of the arena that the producer requests, if it has none yet.
  uint64_t arena_bytes = 0;
  uint32_t run_bytes = 0;  // Length of `run`; the rest is zero.
  uint32_t user_agent_bytes = 0;
  uint32_t job_bytes = 0;
  IfExists if_exists = IfExists::kFail;
  char run[kRunNameBytesMax] = {};
  char job[kJobBytesMax] = {};
  char user_agent[kUserAgentBytesMax] = {};
};

// Reply to an accepted hello. Has the memfd of the table, the eventfd for
// published chunks and, if the hello had no arena, the memfd of the arena
// attached.
struct SessionWelcome {
  static constexpr SessionMessage kType = SessionMessage::kWelcome;
  SessionHeader header{.type = kType};
  // Number of chunks of the stream that are durable; also in the table.
  uint64_t committed_count = 0;
  uint64_t arena_bytes = 0;
  // Name of the run that chunks must carry, if it differs from the requested
  // one.
  uint32_t run_bytes = 0;
  // Highest version of chunks that the daemon accepts; 0 from daemons that
  // support only versions 1 and 2.
  uint32_t chunk_version = 0;
  char run[kRunNameBytesMax] = {};
};

// Reports that RingHeader::committed_count has increased.
struct SessionCommitted {
  static constexpr SessionMessage kType = SessionMessage::kCommitted;
  SessionHeader header{.type = kType};
  // Number of records of this session that the run already had with other
  // bytes.
  uint64_t conflict_count = 0;
};

// The capture policy to apply from now on. Has a memfd of sealed size with
// encoded capture::Policies attached. A policy that the run already has is sent
// before the welcome.
struct SessionPolicy {
  static constexpr SessionMessage kType = SessionMessage::kPolicy;
  SessionHeader header{.type = kType};
  uint64_t policy_bytes = 0;
};

// The counts of a StreamCoverage. Its times are in the table; see RingTimes.
struct SessionCounts {
  uint64_t seen_count = 0;
  uint64_t filtered_count = 0;
  uint64_t dropped_count = 0;
  uint64_t truncated_count = 0;
  uint64_t degraded_count = 0;
};

// Coverage of the stream so far.
struct SessionCoverage {
  static constexpr SessionMessage kType = SessionMessage::kCoverage;
  SessionHeader header{.type = kType};
  SessionCounts coverage;
  // The highest token that has begun, plus 1; 0 if none has begun.
  int64_t token_end = 0;
};

// Reports that the producer will publish no more chunks. A SessionEnd follows
// when all chunks are durable.
struct SessionFinish {
  static constexpr SessionMessage kType = SessionMessage::kFinish;
  SessionHeader header{.type = kType};
};

// Ends a session, or refuses a hello. `code` is a canonical gRPC code, which is
// 0 after a finish.
struct SessionEnd {
  static constexpr SessionMessage kType = SessionMessage::kEnd;
  SessionHeader header{.type = kType};
  int32_t code = 0;
  uint32_t reason_bytes = 0;
  uint32_t message_bytes = 0;
  uint32_t reserved = 0;
  char reason[kReasonBytesMax] = {};  // Name of a msitd.v1.ErrorReason.
  char message[kMessageBytesMax] = {};
};

inline constexpr uint32_t kSessionMessageBytesMax = 1024;
static_assert(sizeof(SessionHeader) == 8);
static_assert(sizeof(SessionHello) == 560);
static_assert(sizeof(SessionWelcome) == 160);
static_assert(sizeof(SessionCommitted) == 16);
static_assert(sizeof(SessionPolicy) == 16);
static_assert(sizeof(SessionCoverage) == 56);
static_assert(sizeof(SessionFinish) == 8);
static_assert(sizeof(SessionEnd) == 600);
static_assert(offsetof(SessionHello, stream_id) == 16);
static_assert(offsetof(SessionHello, run) == 48);
static_assert(offsetof(SessionEnd, reason) == 24);
static_assert(offsetof(SessionCoverage, coverage.degraded_count) == 40);
static_assert(offsetof(SessionCoverage, token_end) == 48);
static_assert(std::is_trivially_copyable_v<SessionHello>);
static_assert(std::is_trivially_copyable_v<SessionEnd>);

}  // namespace msitd::shm
