// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/core/delivery/transport.h"

// Encodes and decodes by hand the few messages of ingest_service.proto that a
// producer needs.
//
// Generated code would register its files in the one libprotobuf of the host
// process. That ends the process if somebody else has registered google/rpc
// too. It would also copy each chunk into a message.
namespace msitd::client {

// WriteChunksRequest with `open` set.
std::string EncodeOpen(const StreamIdentity& identity);

// The bytes of a WriteChunksRequest that precede a chunk of `chunk_bytes`
// bytes.
std::string EncodeChunkPrefix(uint64_t chunk_bytes);

// WriteChunksRequest with `coverage` set.
std::string EncodeCoverage(const StreamCoverage& coverage, int64_t token_end);

// A WriteChunksResponse. The views point into the message.
struct Answer {
  uint64_t committed_count = 0;
  std::string_view capture_policy;  // Empty if there is none.
  std::string_view run;             // Empty: the run that was asked for.
  uint64_t conflict_count = 0;
  uint64_t chunk_version = 0;  // 0 if the daemon does not say.
  uint64_t first_token = 0;
};

// Nothing if `message` is no WriteChunksResponse, or has a negative count.
std::optional<Answer> DecodeAnswer(std::string_view message);

// Returns the reason of the ErrorInfo in a google.rpc.Status; empty if there
// is none.
std::string DecodeReason(std::string_view status_details);

}  // namespace msitd::client
