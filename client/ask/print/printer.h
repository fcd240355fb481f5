// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ask/print/column.h"
#include "client/ask/print/output.h"
#include "client/ask/print/table.h"
#include "client/ask/text/json_text.h"

// Prints messages in any format from their descriptors. JSON is the proto JSON
// of the message with the field names of the .proto file. It has fields that
// are zero, but not absent ones.
namespace msitd::ask {

enum class Format { kTable, kJson, kCsv, kName };

// Nothing for an unknown name.
std::optional<Format> ParseFormat(std::string_view name);

struct PrintOptions {
  Format format = Format::kTable;
  Table::Style table = {};
  // If true, every format writes Printable text only.
  bool to_terminal = false;
  // If true, every cell of CSV goes through GuardFormula.
  bool guards_formulas = false;
  // Columns of a table or CSV, in place of the default ones.
  std::string columns = {};
  // Fields of a message that PrintMessage leaves out of a table.
  std::vector<std::string> hidden_fields = {};
  // If set, returns additional members of each JSON object: `"name": value`,
  // separated by commas. Called after all other members are written.
  std::function<std::string()> more_members = {};
};

// How the rows of one list are shown.
struct ListLayout {
  // The response that carries the rows, and its field that holds them.
  const google::protobuf::Descriptor* response = nullptr;
  std::string field;

  // Columns of a table, in the form of ParseColumns. CSV has all fields.
  std::string columns;

  // The output of -o name: the first of these paths, separated by commas, that
  // the row has. Empty if rows have no names.
  std::string name;

  // All keys of these lists. CSV has a column for each.
  ColumnKeys keys;

  // Values that no field has. `columns` may name them; CSV has them last.
  ComputedValues computed;
};

// Prints the rows of a list as they arrive. Memory use does not depend on their
// number. Thread-compatible.
class ListPrinter {
 public:
  // INVALID_ARGUMENT if the options do not fit the rows. Borrows `out`.
  static absl::StatusOr<std::unique_ptr<ListPrinter>> Create(
      ListLayout layout, PrintOptions options, Output& out);

  void Add(const google::protobuf::Message& row);

  // Writes the heading of CSV, and the rows of a table that are held back until
  // the widths are settled.
  void Flush();

  // Ends the list. `rest`, of type `layout.response`, has the other fields of
  // the response for JSON; its rows are ignored. `member`, unless empty, is one
  // more member of the JSON object: `"name": value`.
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
  bool heading_is_due_ = false;  // For CSV: nothing is printed if a call fails.
  bool has_waiting_rows_ = false;
};

// Prints one message. A table has a line for each value that is there, CSV a
// heading and one line. `name` is as in ListLayout. INVALID_ARGUMENT if the
// options do not fit the message.
absl::Status PrintMessage(const google::protobuf::Message& message,
                          std::string_view name, const PrintOptions& options,
                          Output& out);

// Returns the proto JSON of `message`, Printable if it goes to a terminal.
std::string ToJson(const google::protobuf::Message& message, bool indented,
                   const PrintOptions& options);

}  // namespace msitd::ask
