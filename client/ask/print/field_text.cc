// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/field_text.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "client/ask/text/text.h"
#include "msitd/v1/filter.pb.h"

namespace msitd::ask {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kTimestamp[] = "google.protobuf.Timestamp";
constexpr char kDuration[] = "google.protobuf.Duration";
constexpr char kRankRange[] = "msitd.v1.RankRange";

// The prefix of the values of an enum: "D_TYPE_" for DType.
std::string EnumPrefix(std::string_view type_name) {
  std::string out;
  for (size_t i = 0; i < type_name.size(); ++i) {
    const auto c = static_cast<unsigned char>(type_name[i]);
    if (i != 0 && std::isupper(c) != 0) out += '_';
    out += static_cast<char>(std::toupper(c));
  }
  return out + '_';
}

std::string EnumText(const EnumValueDescriptor& value) {
  const std::string prefix = EnumPrefix(value.type()->name());
  std::string_view name = value.name();
  if (name.ends_with("UNSPECIFIED")) return {};
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  std::string out(name);
  for (char& c : out) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string DoubleText(double value, CellStyle style) {
  return style == CellStyle::kHuman ? fmt::format("{:.6g}", value)
                                    : fmt::format("{}", value);
}

std::string IntegerText(int64_t value, const FieldDescriptor& field,
                        CellStyle style) {
  const std::string_view name = field.name();
  const bool is_size = name.ends_with("_bytes") || name.ends_with("_bytes_max");
  if (is_size && style == CellStyle::kHuman) return HumanSize(value);
  return fmt::format("{}", value);
}

std::string TimestampText(const Message& message, CellStyle style) {
  google::protobuf::Timestamp time;
  time.CopyFrom(message);
  if (style == CellStyle::kHuman) time.set_nanos(0);
  return google::protobuf::util::TimeUtil::ToString(time);
}

std::string DurationText(const Message& message, CellStyle style) {
  google::protobuf::Duration duration;
  duration.CopyFrom(message);
  if (style == CellStyle::kExact) {
    return google::protobuf::util::TimeUtil::ToString(duration);
  }
  return HumanDuration(static_cast<double>(duration.seconds()) +
                       static_cast<double>(duration.nanos()) * 1e-9);
}

// Ranks in the form of --ranks.
std::string RankRangeText(const Message& message) {
  v1::RankRange range;
  range.CopyFrom(message);
  return range.first() == range.last()
             ? fmt::format("{}", range.first())
             : fmt::format("{}-{}", range.first(), range.last());
}

std::string RankListText(const Message& message, const FieldDescriptor& field) {
  std::string out;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field);
       ++i) {
    if (i != 0) out += ',';
    out += RankRangeText(
        message.GetReflection()->GetRepeatedMessage(message, &field, i));
  }
  return out;
}

std::string MessageText(const Message& message, CellStyle style) {
  const std::string& type = message.GetDescriptor()->full_name();
  if (type == kTimestamp) return TimestampText(message, style);
  if (type == kDuration) return DurationText(message, style);
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string out;
  // Fails only for text that is not UTF-8, which proto3 rejects before.
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &out, options);
  return status.ok() ? out : std::string();
}

std::string SingularText(const Message& message, const FieldDescriptor& field,
                         CellStyle style) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return IntegerText(reflection.GetInt32(message, &field), field, style);
    case FieldDescriptor::CPPTYPE_INT64:
      return IntegerText(reflection.GetInt64(message, &field), field, style);
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format("{}", reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}", reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return DoubleText(reflection.GetDouble(message, &field), style);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return DoubleText(reflection.GetFloat(message, &field), style);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumText(*reflection.GetEnum(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageText(reflection.GetMessage(message, &field), style);
  }
  return {};
}

std::string ElementText(const Message& message, const FieldDescriptor& field,
                        int i, CellStyle style) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format("{}", reflection.GetRepeatedInt32(message, &field, i));
    case FieldDescriptor::CPPTYPE_INT64:
      return fmt::format("{}", reflection.GetRepeatedInt64(message, &field, i));
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format("{}",
                         reflection.GetRepeatedUInt32(message, &field, i));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}",
                         reflection.GetRepeatedUInt64(message, &field, i));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return DoubleText(reflection.GetRepeatedDouble(message, &field, i),
                        style);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return DoubleText(reflection.GetRepeatedFloat(message, &field, i), style);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetRepeatedBool(message, &field, i) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumText(*reflection.GetRepeatedEnum(message, &field, i));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetRepeatedString(message, &field, i);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageText(reflection.GetRepeatedMessage(message, &field, i),
                         style);
  }
  return {};
}

std::string KeyListText(const Message& message, const FieldDescriptor& field,
                        CellStyle style) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key = *field.message_type()->field(0);
  std::vector<std::string> entries;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    entries.push_back(fmt::format("{}: {}", SingularText(entry, key, style),
                                  EntryText(entry, style)));
  }
  // Maps have no order.
  if (field.is_map()) std::sort(entries.begin(), entries.end());
  return fmt::format("{}", fmt::join(entries, "; "));
}

}  // namespace

bool IsScalarMessage(const Descriptor& type) {
  return type.full_name() == kTimestamp || type.full_name() == kDuration;
}

const FieldDescriptor* ValueOfKeyList(const FieldDescriptor& field) {
  if (!field.is_repeated() ||
      field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return nullptr;
  }
  const Descriptor& entry = *field.message_type();
  const bool has_text =
      entry.field_count() == 3 && entry.field(2)->name() == "text" &&
      entry.field(2)->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (entry.field_count() != 2 && !has_text) return nullptr;
  const FieldDescriptor* key = entry.field(0);
  const FieldDescriptor* value = entry.field(1);
  if (key->is_repeated() || value->is_repeated() ||
      key->cpp_type() != FieldDescriptor::CPPTYPE_STRING ||
      value->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return nullptr;
  }
  return value;
}

const FieldDescriptor* TextOfKeyList(const FieldDescriptor& field) {
  return ValueOfKeyList(field) == nullptr ||
                 field.message_type()->field_count() == 2
             ? nullptr
             : field.message_type()->field(2);
}

std::string EntryText(const Message& entry, CellStyle style) {
  const Descriptor& type = *entry.GetDescriptor();
  const FieldDescriptor& value = *type.field(1);
  std::string out;
  if (!value.has_presence() || entry.GetReflection()->HasField(entry, &value)) {
    out = SingularText(entry, value, style);
  }
  if (type.field_count() == 2) return out;
  const std::string text = SingularText(entry, *type.field(2), style);
  if (!out.empty() && !text.empty()) out += ' ';
  return out + text;
}

std::string FieldText(const Message& message, const FieldDescriptor& field,
                      CellStyle style) {
  if (!field.is_repeated()) return SingularText(message, field, style);
  if (ValueOfKeyList(field) != nullptr) {
    return KeyListText(message, field, style);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
      field.message_type()->full_name() == kRankRange) {
    return RankListText(message, field);
  }
  std::string out = "[";
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field);
       ++i) {
    if (i != 0) out += ", ";
    out += ElementText(message, field, i, style);
  }
  return out + "]";
}

}  // namespace msitd::ask
