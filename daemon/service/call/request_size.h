// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>

#include "absl/status/statusor.h"

// The memory that a message would take, found without parsing it. Pure
// functions.
namespace msitd::service {

// Reads `in`, a message of `type`, to its end. Returns no less than the memory
// that the message takes once it is parsed. That may be far more than its
// bytes: an empty string has two bytes on the wire and forty in memory.
//
// Errors: RESOURCE_EXHAUSTED if it takes more than `bytes_max`;
// INVALID_ARGUMENT if it does not parse, or has groups, as no message of ours
// does: what it would take is not known.
absl::StatusOr<size_t> ParsedBytes(
    google::protobuf::io::ZeroCopyInputStream& in,
    const google::protobuf::Descriptor& type, size_t bytes_max);

}  // namespace msitd::service
