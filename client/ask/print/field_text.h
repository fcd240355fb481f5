// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>

#include "client/ask/print/column.h"

namespace msitd::ask {

// True for a type that is shown as one value: a timestamp or a duration.
bool IsScalarMessage(const google::protobuf::Descriptor& type);

// If `field` is a list of keys and values (see FieldPath), returns the field of
// the value; else null.
const google::protobuf::FieldDescriptor* ValueOfKeyList(
    const google::protobuf::FieldDescriptor& field);

// Returns the field `text` of such a list; null if it has none.
const google::protobuf::FieldDescriptor* TextOfKeyList(
    const google::protobuf::FieldDescriptor& field);

// Returns one entry of such a list for people: its value, its text, or both.
std::string EntryText(const google::protobuf::Message& entry, CellStyle style);

// Returns the text of a field that is present, or repeated. An enum value is a
// lower-case word without the name of its type; the unspecified value is empty.
std::string FieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field,
                      CellStyle style);

}  // namespace msitd::ask
