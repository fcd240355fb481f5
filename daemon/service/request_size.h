// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>
#include <optional>

// What a message takes once it is parsed, before it is. Pure functions.
namespace msitd::service {

// Returns no less than the memory of the message of `type` that `in` holds up
// to its end: two bytes of an empty string become forty. Nothing if it takes
// more than `bytes_max`. What is no such message is measured up to where that
// shows.
std::optional<size_t> ParsedBytes(google::protobuf::io::ZeroCopyInputStream& in,
                                  const google::protobuf::Descriptor& type,
                                  size_t bytes_max);

}  // namespace msitd::service
