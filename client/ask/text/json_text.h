// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace msitd::ask {

// Returns the proto JSON of `message`, on one line or indented.
std::string ToJson(const google::protobuf::Message& message, bool indented);

}  // namespace msitd::ask
