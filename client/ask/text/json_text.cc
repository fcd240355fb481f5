// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/json_text.h"

#include <google/protobuf/util/json_util.h>

namespace msitd::ask {

std::string ToJson(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  options.add_whitespace = indented;
  std::string out;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &out, options);
  return status.ok() ? out : "{}";
}

}  // namespace msitd::ask
