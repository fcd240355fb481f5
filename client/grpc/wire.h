// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/core/delivery/transport.h"

// The few messages of ingest_service.proto that a producer needs, by hand.
//
// Generated code would register its files in the one libprotobuf of the host
// process, which ends the process if anybody else registers google/rpc too,
// and would copy each chunk into a message first.
namespace msitd::client {

// WriteChunksRequest with `open` set.
std::string EncodeOpen(const StreamIdentity& identity);

// What precedes the `chunk_bytes` bytes of a chunk in a WriteChunksRequest.
std::string EncodeChunkPrefix(uint64_t chunk_bytes);

// WriteChunksRequest with `coverage` set.
std::string EncodeCoverage(const StreamCoverage& coverage, int64_t token_end);

// A WriteChunksResponse. The view is into the message.
struct Answer {
  uint64_t committed_count = 0;
  std::string_view capture_policy;  // Empty if there is none.
  std::string_view run;             // Empty for the one that was asked for.
  uint64_t conflict_count = 0;
};

// Nothing if `message` is no such message or the count is negative.
std::optional<Answer> DecodeAnswer(std::string_view message);

// Returns the reason of the ErrorInfo in a google.rpc.Status; empty if there
// is none.
std::string DecodeReason(std::string_view status_details);

}  // namespace msitd::client
