// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/column.h"

#include <algorithm>
#include <span>

#include "client/ask/print/field_text.h"
#include "client/ask/text/nearest.h"
#include "client/ask/text/ranges.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Deeper nesting, which only a recursive type has, is shown as a whole.
constexpr int kNestingMax = 8;

bool IsNested(const FieldDescriptor& field) {
  return !field.is_repeated() &&
         field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         !IsScalarMessage(*field.message_type());
}

void AppendAll(const Descriptor& type, const std::string& prefix, int depth,
               std::vector<std::string>& out) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = prefix + field.name();
    if (IsNested(field) && depth < kNestingMax) {
      AppendAll(*field.message_type(), path + ".", depth + 1, out);
    } else {
      out.push_back(path);
    }
  }
}

bool IsNumeric(const FieldDescriptor& field) {
  if (field.is_repeated()) return false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return false;
    default:
      return true;
  }
}

constexpr std::string_view kTextEnd = ":text";

// Returns the entry of `list` with this key; null if there is none.
const Message* FindEntry(const Message& message, const FieldDescriptor& list,
                         std::string_view key) {
  const Reflection& reflection = *message.GetReflection();
  const Descriptor& entry_type = *list.message_type();
  for (int i = 0; i < reflection.FieldSize(message, &list); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &list, i);
    if (FieldText(entry, *entry_type.field(0), CellStyle::kExact) == key) {
      return &entry;
    }
  }
  return nullptr;
}

// True if `key` selects the text of an entry of `list`.
bool IsTextKey(const FieldDescriptor& list, std::string_view key) {
  return TextOfKeyList(list) != nullptr && key.ends_with(kTextEnd);
}

std::optional<std::string> ValueOfKey(const Message& message,
                                      const FieldDescriptor& list,
                                      std::string_view key, CellStyle style) {
  const bool is_text = IsTextKey(list, key);
  if (is_text) key.remove_suffix(kTextEnd.size());
  const Message* entry = FindEntry(message, list, key);
  if (entry == nullptr) return std::nullopt;
  if (is_text) return FieldText(*entry, *TextOfKeyList(list), style);
  const FieldDescriptor& value = *ValueOfKeyList(list);
  if (style == CellStyle::kHuman) return EntryText(*entry, style);
  if (value.has_presence() &&
      !entry->GetReflection()->HasField(*entry, &value)) {
    return std::nullopt;
  }
  return FieldText(*entry, value, style);
}

absl::Status NoSuchColumn(std::string_view name,
                          std::span<const std::string> others = {}) {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "no column \"{}\"{}; for all columns: -o csv", name,
                    DidYouMean(name, others));
}

// The names that `paths` go by: each path itself and its last part.
std::vector<std::string> NamesOf(const std::vector<Column>& known,
                                 const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const Column& column : known) names.push_back(column.header());
  for (const std::string& path : paths) {
    names.push_back(path);
    names.push_back(path.substr(path.rfind('.') + 1));
  }
  return names;
}

// True if `path` names a key that its list does not have.
bool HasUnknownKey(std::string_view path, const ColumnKeys& keys) {
  for (const auto& [list, known] : keys) {
    if (!path.starts_with(list + ".")) continue;
    const std::string_view key = path.substr(list.size() + 1);
    return std::find(known.begin(), known.end(), key) == known.end();
  }
  return false;
}

absl::StatusOr<Column> FindColumn(const Descriptor& root,
                                  const std::vector<Column>& known,
                                  const ColumnKeys& keys,
                                  const std::string& name) {
  for (const Column& column : known) {
    if (column.header() == name) return column.Required();
  }
  const std::vector<std::string> all = AllPaths(root, keys);
  if (auto column = Column::Parse(root, name); column.ok()) {
    if (HasUnknownKey(name, keys)) return NoSuchColumn(name, all);
    return column;
  }
  std::vector<std::string> paths;
  for (const std::string& path : all) {
    if (path.ends_with("." + name)) paths.push_back(path);
  }
  if (paths.empty()) return NoSuchColumn(name, NamesOf(known, all));
  if (paths.size() > 1) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "column \"{}\" is ambiguous: use {} or {}", name,
                      paths[0], paths[1]);
  }
  return Column::Parse(root, name + "=" + paths[0]);
}

}  // namespace

absl::StatusOr<FieldPath> FieldPath::Parse(const Descriptor& root,
                                           std::string_view dotted) {
  FieldPath path;
  const Descriptor* type = &root;
  std::string_view rest = dotted;
  while (!rest.empty()) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const FieldDescriptor* field =
        type == nullptr
            ? nullptr
            : type->FindFieldByName(std::string(rest.substr(0, dot)));
    if (field == nullptr) return NoSuchColumn(dotted);
    path.steps_.push_back(field);
    const bool is_last = dot == rest.size();
    rest.remove_prefix(is_last ? dot : dot + 1);
    if (!is_last && ValueOfKeyList(*field) != nullptr) {
      path.key_ = rest;
      return path;
    }
    type = IsNested(*field) ? field->message_type() : nullptr;
  }
  if (path.steps_.empty() || type != nullptr) return NoSuchColumn(dotted);
  return path;
}

std::vector<std::string> FieldPath::All(const Descriptor& root) {
  std::vector<std::string> out;
  AppendAll(root, "", 0, out);
  return out;
}

bool FieldPath::is_number() const {
  const FieldDescriptor& last = *steps_.back();
  if (key_.has_value() && IsTextKey(last, *key_)) return false;
  return IsNumeric(key_.has_value() ? *ValueOfKeyList(last) : last);
}

std::optional<std::string> FieldPath::Get(const Message& message,
                                          CellStyle style) const {
  const Message* at = &message;
  for (size_t i = 0; i + 1 < steps_.size(); ++i) {
    if (!at->GetReflection()->HasField(*at, steps_[i])) return std::nullopt;
    at = &at->GetReflection()->GetMessage(*at, steps_[i]);
  }
  const FieldDescriptor& last = *steps_.back();
  if (key_.has_value()) return ValueOfKey(*at, last, *key_, style);
  if (last.has_presence() && !at->GetReflection()->HasField(*at, &last)) {
    return std::nullopt;
  }
  return FieldText(*at, last, style);
}

absl::StatusOr<Column> Column::Parse(const Descriptor& root,
                                     std::string_view text,
                                     const ComputedValues& computed) {
  Column column;
  const size_t equals = text.find('=');
  std::string_view rest =
      equals == std::string_view::npos ? text : text.substr(equals + 1);
  column.header_ = text.substr(0, equals);
  if (equals != std::string_view::npos) column.TakeMark();
  if (rest.starts_with('@')) {
    const auto found = computed.find(std::string(rest.substr(1)));
    if (found == computed.end()) return NoSuchColumn(rest);
    column.computed_ = found->second;
    return column;
  }
  column.is_pair_ = rest.find('|') != std::string_view::npos;
  const char separator = column.is_pair_ ? '|' : '/';
  while (true) {
    const size_t end = std::min(rest.find(separator), rest.size());
    MSITD_ASSIGN_OR_RETURN(column.paths_.emplace_back(),
                           FieldPath::Parse(root, rest.substr(0, end)));
    if (end == rest.size()) return column;
    rest.remove_prefix(end + 1);
  }
}

void Column::TakeMark() {
  switch (header_.empty() ? '\0' : header_.back()) {
    case '?':
      need_ = ColumnNeed::kIfRoom;
      break;
    case '~':
      need_ = ColumnNeed::kUnlessEqual;
      break;
    case '+':
      need_ = ColumnNeed::kIfAny;
      break;
    case '$':
      is_prose_ = true;
      break;
    default:
      return;
  }
  header_.pop_back();
}

Column Column::Required() const {
  Column column = *this;
  column.need_ = ColumnNeed::kAlways;
  return column;
}

bool Column::is_number() const {
  return paths_.size() == 1 && paths_[0].is_number();
}

std::optional<std::string> Column::Get(const Message& message,
                                       CellStyle style) const {
  if (computed_) return computed_(message);
  if (paths_.size() == 1) return paths_[0].Get(message, style);
  std::vector<std::string> values;
  bool any = false;
  for (const FieldPath& path : paths_) {
    const auto value = path.Get(message, style);
    any = any || value.has_value();
    if (is_pair_) {
      values.push_back(value.value_or("-"));
    } else if (value.has_value() && !value->empty()) {
      values.push_back(*value);
    }
  }
  if (!any) return std::nullopt;
  if (is_pair_ &&
      std::all_of(values.begin(), values.end(),
                  [&](const std::string& v) { return v == values[0]; })) {
    return values[0];
  }
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += '/';
    out += values[i];
  }
  return out;
}

std::vector<std::string> AllPaths(const Descriptor& root,
                                  const ColumnKeys& keys) {
  std::vector<std::string> out;
  for (std::string& path : FieldPath::All(root)) {
    const auto found = keys.find(path);
    if (found == keys.end()) {
      out.push_back(std::move(path));
      continue;
    }
    for (const std::string& key : found->second) {
      out.push_back(path + "." + key);
    }
  }
  return out;
}

absl::StatusOr<std::vector<Column>> ParseColumns(
    const Descriptor& root, std::string_view known, std::string_view wanted,
    const ColumnKeys& keys, const ComputedValues& computed) {
  std::vector<Column> known_columns;
  for (const std::string& text : SplitLists({std::string(known)})) {
    MSITD_ASSIGN_OR_RETURN(known_columns.emplace_back(),
                           Column::Parse(root, text, computed));
  }
  std::vector<Column> columns;
  for (const std::string& name : SplitLists({std::string(wanted)})) {
    MSITD_ASSIGN_OR_RETURN(columns.emplace_back(),
                           FindColumn(root, known_columns, keys, name));
  }
  if (columns.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument, "--columns is empty");
  }
  return columns;
}

}  // namespace msitd::ask
