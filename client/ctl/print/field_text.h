// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>

#include "client/ctl/print/column.h"

namespace msitd::ctl {

// True for a message that is shown as one value: a timestamp or a duration.
bool IsScalarMessage(const google::protobuf::Descriptor& type);

// If `field` is a map, or a repeated message of a string, a scalar and maybe
// `text`, returns the field of the value; else null.
const google::protobuf::FieldDescriptor* ValueOfKeyList(
    const google::protobuf::FieldDescriptor& field);

// Returns the field `text` of such a list; null if it has none.
const google::protobuf::FieldDescriptor* TextOfKeyList(
    const google::protobuf::FieldDescriptor& field);

// What people read of one entry of such a list: its value, its text, or both.
std::string EntryText(const google::protobuf::Message& entry, CellStyle style);

// Text of a field that is present, or repeated. Enum values are lower-case
// words without the name of their type; an unspecified one is empty.
std::string FieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field,
                      CellStyle style);

}  // namespace msitd::ctl
