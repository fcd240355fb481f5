// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/printer.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "client/ask/text/ranges.h"
#include "client/ask/text/text.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string JoinColumns(const std::vector<std::string>& columns) {
  return fmt::format("{}", fmt::join(columns, ","));
}

// The columns of CSV.
std::string AllColumns(const Descriptor& row, const ListLayout& layout) {
  std::vector<std::string> out = AllPaths(row, layout.keys);
  for (const auto& [name, value] : layout.computed) {
    out.push_back(fmt::format("{0}=@{0}", name));
  }
  return JoinColumns(out);
}

std::string RowLine(const std::vector<Column>& columns, const Message& row,
                    const PrintOptions& options) {
  std::vector<std::string> fields;
  for (const Column& column : columns) {
    const std::string text =
        column.Get(row, CellStyle::kExact).value_or(std::string());
    fields.push_back(options.to_terminal ? Printable(text) : text);
  }
  return CsvLine(fields, options.guards_formulas);
}

std::string HeadingLine(const std::vector<Column>& columns,
                        const PrintOptions& options) {
  std::vector<std::string> fields;
  for (const Column& column : columns) {
    fields.push_back(Printable(column.header()));
  }
  return CsvLine(fields, options.guards_formulas);
}

// Escapes line breaks, even if stdout is not a terminal, because a line break
// in a name would produce two names. An escaped name cannot be used.
std::string NameLine(const std::vector<FieldPath>& paths, const Message& row) {
  for (const FieldPath& path : paths) {
    const auto value = path.Get(row, CellStyle::kExact);
    if (value.has_value()) return Printable(*value) + '\n';
  }
  return {};
}

absl::StatusOr<std::vector<FieldPath>> ParseNames(const Descriptor& row,
                                                  std::string_view names) {
  std::vector<FieldPath> paths;
  for (const std::string& path : SplitLists({std::string(names)})) {
    MSITD_ASSIGN_OR_RETURN(paths.emplace_back(), FieldPath::Parse(row, path));
  }
  if (paths.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "-o name: this output has no names");
  }
  return paths;
}

// `"field": value` for one field of `message`; empty if it is not set.
std::string MemberJson(const Message& message, const FieldDescriptor& field) {
  const std::unique_ptr<Message> only(message.New());
  only->CopyFrom(message);
  std::vector<const FieldDescriptor*> set_fields;
  only->GetReflection()->ListFields(*only, &set_fields);
  bool is_set = false;
  for (const FieldDescriptor* other : set_fields) {
    if (other == &field) {
      is_set = true;
    } else {
      only->GetReflection()->ClearField(only.get(), other);
    }
  }
  if (!is_set) return {};
  if (!field.is_repeated() &&
      field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return fmt::format(
        "\"{}\":{}", field.name(),
        ToJson(only->GetReflection()->GetMessage(*only, &field), false));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map()) {
    std::string elements;
    const auto& reflection = *only->GetReflection();
    for (int i = 0; i < reflection.FieldSize(*only, &field); ++i) {
      if (i != 0) elements += ',';
      elements +=
          ToJson(reflection.GetRepeatedMessage(*only, &field, i), false);
    }
    return fmt::format("\"{}\":[{}]", field.name(), elements);
  }
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(*only, &json, options);
  if (!status.ok()) return {};
  return json.substr(1, json.size() - 2);
}

// True if `column`, whose heading is its path, is in a hidden field.
bool IsHidden(const Column& column, const PrintOptions& options) {
  const std::string& path = column.header();
  const std::vector<std::string>& hidden = options.hidden_fields;
  return std::find(hidden.begin(), hidden.end(),
                   path.substr(0, path.find('.'))) != hidden.end();
}

void NoteColumnsLeftOut(const Table& table) {
  const std::vector<std::string>& names = table.left_out();
  if (names.empty()) return;
  fmt::print(
      stderr,
      "msitctl: note: not enough width for {}; to select columns: --columns\n",
      fmt::join(names, ", "));
}

std::string OnTerminal(std::string json, const PrintOptions& options) {
  if (!options.to_terminal) return json;
  // All line breaks are part of the layout, because JSON escapes those in text.
  std::string out;
  for (size_t begin = 0; begin < json.size();) {
    const size_t end = std::min(json.find('\n', begin), json.size());
    out += Printable(std::string_view(json).substr(begin, end - begin));
    if (end < json.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

// Appends members to the object `json`.
void AddMembers(std::string& json, const PrintOptions& options) {
  size_t end = json.rfind('}');
  while (end > 0 && (json[end - 1] == '\n' || json[end - 1] == ' ')) --end;
  json.resize(end);
  json += fmt::format("{}\n{}\n}}\n", json.ends_with('{') ? "" : ",",
                      OnTerminal(options.more_members(), options));
}

}  // namespace

std::optional<Format> ParseFormat(std::string_view name) {
  if (name == "table") return Format::kTable;
  if (name == "json") return Format::kJson;
  if (name == "csv") return Format::kCsv;
  if (name == "name") return Format::kName;
  return std::nullopt;
}

std::string ToJson(const Message& message, bool indented,
                   const PrintOptions& options) {
  return OnTerminal(ToJson(message, indented), options);
}

ListPrinter::ListPrinter(ListLayout layout, PrintOptions options, Output& out)
    : layout_(std::move(layout)), options_(std::move(options)), out_(out) {}

absl::StatusOr<std::unique_ptr<ListPrinter>> ListPrinter::Create(
    ListLayout layout, PrintOptions options, Output& out) {
  std::unique_ptr<ListPrinter> printer(
      new ListPrinter(std::move(layout), std::move(options), out));
  const ListLayout& shown = printer->layout_;
  const Descriptor& row =
      *shown.response->FindFieldByName(shown.field)->message_type();
  if (printer->options_.format == Format::kName) {
    MSITD_RETURN_IF_ERROR(printer->SetUpNames(row));
  } else if (printer->options_.format != Format::kJson) {
    MSITD_RETURN_IF_ERROR(printer->SetUpColumns(row));
  }
  return printer;
}

absl::Status ListPrinter::SetUpNames(const Descriptor& row) {
  MSITD_ASSIGN_OR_RETURN(names_, ParseNames(row, layout_.name));
  return absl::OkStatus();
}

absl::Status ListPrinter::SetUpColumns(const Descriptor& row) {
  const std::string by_default = options_.format == Format::kTable
                                     ? layout_.columns
                                     : AllColumns(row, layout_);
  const std::string& wanted =
      options_.columns.empty() ? by_default : options_.columns;
  const std::string known =
      options_.columns.empty() ? by_default : layout_.columns;
  if (options_.columns.empty()) {
    for (const std::string& text : SplitLists({by_default})) {
      MSITD_ASSIGN_OR_RETURN(columns_.emplace_back(),
                             Column::Parse(row, text, layout_.computed));
    }
  } else {
    MSITD_ASSIGN_OR_RETURN(
        columns_,
        ParseColumns(row, known, wanted, layout_.keys, layout_.computed));
  }
  if (options_.format == Format::kCsv) {
    heading_is_due_ = true;
    return absl::OkStatus();
  }
  std::vector<Table::Heading> headings;
  for (const Column& column : columns_) {
    headings.push_back({Printable(column.header()), column.is_number(),
                        column.need(), column.is_prose()});
  }
  table_.emplace(std::move(headings), options_.table);
  return absl::OkStatus();
}

void ListPrinter::Add(const Message& row) {
  switch (options_.format) {
    case Format::kTable:
      AddToTable(row);
      break;
    case Format::kJson:
      AddJson(row);
      break;
    case Format::kCsv:
      WriteCsvHeading();
      out_.Write(RowLine(columns_, row, options_));
      break;
    case Format::kName:
      out_.Write(NameLine(names_, row));
      break;
  }
  is_first_ = false;
}

void ListPrinter::AddToTable(const Message& row) {
  std::vector<std::string> cells;
  for (const Column& column : columns_) {
    auto value = column.Get(row, CellStyle::kHuman);
    cells.push_back(value.has_value() ? *std::move(value) : "-");
  }
  table_->Add(std::move(cells));
  has_waiting_rows_ = true;
  if (table_->wants_flush()) Flush();
}

void ListPrinter::Flush() {
  WriteCsvHeading();
  if (!std::exchange(has_waiting_rows_, false)) return;
  out_.Write(table_->Flush());
}

void ListPrinter::WriteCsvHeading() {
  if (std::exchange(heading_is_due_, false))
    out_.Write(HeadingLine(columns_, options_));
}

void ListPrinter::AddJson(const Message& row) {
  out_.Write(is_first_ ? fmt::format("{{\"{}\": [\n", layout_.field) : ",\n");
  out_.Write(ToJson(row, /*indented=*/false, options_));
}

void ListPrinter::Finish(const Message& rest, std::string_view member) {
  if (options_.format == Format::kTable) {
    out_.Write(table_->Flush());
    NoteColumnsLeftOut(*table_);
  }
  if (options_.format == Format::kCsv) WriteCsvHeading();
  if (options_.format == Format::kJson) FinishJson(rest, member);
}

void ListPrinter::FinishJson(const Message& rest, std::string_view member) {
  out_.Write(is_first_ ? fmt::format("{{\"{}\": [", layout_.field) : "\n");
  out_.Write("]");
  if (!member.empty()) out_.Write(fmt::format(",\n{}", member));
  for (int i = 0; i < layout_.response->field_count(); ++i) {
    const FieldDescriptor& field = *layout_.response->field(i);
    if (field.name() == layout_.field) continue;
    const std::string json = MemberJson(rest, field);
    if (json.empty()) continue;
    out_.Write(",\n");
    out_.Write(OnTerminal(json, options_));
  }
  if (options_.more_members) {
    out_.Write(",\n" + OnTerminal(options_.more_members(), options_));
  }
  out_.Write("}\n");
}

absl::Status PrintMessage(const Message& message, std::string_view name,
                          const PrintOptions& options, Output& out) {
  const Descriptor& type = *message.GetDescriptor();
  if (options.format == Format::kJson) {
    std::string json = ToJson(message, /*indented=*/true, options);
    if (options.more_members) AddMembers(json, options);
    out.Write(json);
    return absl::OkStatus();
  }
  if (options.format == Format::kName) {
    std::vector<FieldPath> names;
    MSITD_ASSIGN_OR_RETURN(names, ParseNames(type, name));
    out.Write(NameLine(names, message));
    return absl::OkStatus();
  }
  const std::string all = JoinColumns(FieldPath::All(type));
  std::vector<Column> columns;
  MSITD_ASSIGN_OR_RETURN(
      columns,
      ParseColumns(type, all, options.columns.empty() ? all : options.columns));
  if (options.format == Format::kCsv) {
    out.Write(HeadingLine(columns, options));
    out.Write(RowLine(columns, message, options));
    return absl::OkStatus();
  }
  Table table({{"field"}, {"value"}}, options.table);
  for (const Column& column : columns) {
    if (IsHidden(column, options)) continue;
    auto value = column.Get(message, CellStyle::kHuman);
    if (value.has_value() && !value->empty()) {
      table.Add({column.header(), *std::move(value)});
    }
  }
  out.Write(table.Flush());
  return absl::OkStatus();
}

}  // namespace msitd::ask
