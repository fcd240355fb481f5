// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/libmsit/core/delivery/transport.h"

// Encodes and decodes by hand the few messages of ingest_service.proto that a
// producer needs.
//
// Generated code would register its files in the only libprotobuf of the host
// process. If another library has also registered google/rpc, that aborts the
// process. Generated code would also copy each chunk into a message.
namespace msitd::libmsit {

// Returns a WriteChunksRequest with `open` set.
std::string EncodeOpen(const StreamIdentity& identity);

// Returns the bytes of a WriteChunksRequest that precede a chunk of
// `chunk_bytes` bytes.
std::string EncodeChunkPrefix(uint64_t chunk_bytes);

// Returns a WriteChunksRequest with `coverage` set.
std::string EncodeCoverage(const StreamCoverage& coverage, int64_t token_end);

// A WriteChunksResponse. The views point into the message.
struct Answer {
  uint64_t committed_count = 0;
  std::string_view capture_policy;  // Empty if there is none.
  std::string_view run;             // Empty: the requested run.
  uint64_t conflict_count = 0;
  uint64_t chunk_version = 0;  // 0 if the daemon does not send it.
  uint64_t first_token = 0;
};

// Returns nullopt if `message` is not a WriteChunksResponse or has a negative
// count.
std::optional<Answer> DecodeAnswer(std::string_view message);

// Returns the reason of the ErrorInfo in a google.rpc.Status; empty if there is
// none.
std::string DecodeReason(std::string_view status_details);

}  // namespace msitd::libmsit
