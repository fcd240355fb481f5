// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/print/column.h"
#include "client/ctl/print/output.h"
#include "client/ctl/print/table.h"
#include "client/text/json_text.h"

// Prints messages in any format from their descriptors. JSON is the proto JSON
// of the message with the field names of the .proto file; fields that are zero
// are there, absent ones are not.
namespace msitd::ctl {

enum class Format { kTable, kJson, kCsv, kName };

// Nothing for an unknown name.
std::optional<Format> ParseFormat(std::string_view name);

struct PrintOptions {
  Format format = Format::kTable;
  Table::Style table = {};
  // Then nothing but Printable text is written in any format.
  bool to_terminal = false;
  // GuardFormula in every cell of CSV.
  bool guards_formulas = false;
  // Columns of a table or CSV, in place of the default ones.
  std::string columns = {};
  // Fields of a message that PrintMessage leaves out of a table.
  std::vector<std::string> hidden_fields = {};
};

// How the rows of one list are shown.
struct ListLayout {
  // The response that carries the rows, and its field that holds them.
  const google::protobuf::Descriptor* response = nullptr;
  std::string field;

  // Columns of a table, in the form of ParseColumns. CSV has all fields.
  std::string columns;

  // What -o name prints: the first of these paths, between commas, that is in
  // the row. Empty if rows have no names.
  std::string name;

  // CSV has a column for each of these keys, and there are no others.
  ColumnKeys keys;

  // Values that no field has: `columns` may have them, CSV has them last.
  ComputedValues computed;
};

// Prints the rows of a list as they come; memory does not grow with their
// number. Thread-compatible.
class ListPrinter {
 public:
  // INVALID_ARGUMENT if the options do not fit the rows. Borrows `out`.
  static absl::StatusOr<std::unique_ptr<ListPrinter>> Create(
      ListLayout layout, PrintOptions options, Output& out);

  void Add(const google::protobuf::Message& row);

  // Writes the heading of CSV, and the rows of a table that wait for others to
  // settle the widths.
  void Flush();

  // Ends the list. `rest`, a message of type `layout.response`, has the other
  // fields of the response for JSON; its rows are ignored. `member` is one more
  // of the JSON object, `"name": value`, unless it is empty.
  void Finish(const google::protobuf::Message& rest,
              std::string_view member = {});

 private:
  ListPrinter(ListLayout layout, PrintOptions options, Output& out);

  absl::Status SetUpColumns(const google::protobuf::Descriptor& row);
  absl::Status SetUpNames(const google::protobuf::Descriptor& row);
  void WriteCsvHeading();
  void AddJson(const google::protobuf::Message& row);
  void AddToTable(const google::protobuf::Message& row);
  void FinishJson(const google::protobuf::Message& rest,
                  std::string_view member);

  const ListLayout layout_;
  const PrintOptions options_;
  Output& out_;
  std::vector<Column> columns_;
  std::vector<FieldPath> names_;
  std::optional<Table> table_;
  bool is_first_ = true;
  bool heading_is_due_ = false;  // Of CSV: what fails before prints nothing.
  bool has_waiting_rows_ = false;
};

// Prints one message: as a table a line for each value that is there, as CSV a
// heading and a line. `name` is as in ListLayout. INVALID_ARGUMENT if the
// options do not fit the message.
absl::Status PrintMessage(const google::protobuf::Message& message,
                          std::string_view name, const PrintOptions& options,
                          Output& out);

// The proto JSON of `message` in the form in which a terminal may get it.
std::string ToJson(const google::protobuf::Message& message, bool indented,
                   const PrintOptions& options);

}  // namespace msitd::ctl
