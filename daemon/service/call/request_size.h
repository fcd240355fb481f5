// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>

#include "absl/status/statusor.h"

// Computes the memory that a message would need, without parsing it. Pure
// functions.
namespace msitd::service {

// Reads `in`, a message of `type`, to its end. Returns an upper bound for the
// memory that the parsed message needs. This may be far more than its encoded
// size: an empty string has two bytes on the wire and forty in memory.
//
// Errors: RESOURCE_EXHAUSTED if the message needs more than `bytes_max`;
// INVALID_ARGUMENT if it is invalid or contains groups. No message of this API
// contains groups, and the memory that they need is not known.
absl::StatusOr<size_t> ParsedBytes(
    google::protobuf::io::ZeroCopyInputStream& in,
    const google::protobuf::Descriptor& type, size_t bytes_max);

}  // namespace msitd::service
