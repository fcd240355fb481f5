// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>

#include "absl/status/statusor.h"

// What a message takes once it is parsed, before it is. Pure functions.
namespace msitd::service {

// Returns no less than the memory of the message of `type` that `in` holds up
// to its end: two bytes of an empty string become forty.
//
// Errors: RESOURCE_EXHAUSTED if it takes more than `bytes_max`;
// INVALID_ARGUMENT if it does not parse, or has groups, as no message of ours
// does: what it would take is not known.
absl::StatusOr<size_t> ParsedBytes(
    google::protobuf::io::ZeroCopyInputStream& in,
    const google::protobuf::Descriptor& type, size_t bytes_max);

}  // namespace msitd::service
