// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// Cells of tables and CSV files, read from any message using its descriptor.
namespace msitd::ask {

// How a value is written.
enum class CellStyle {
  kHuman,  // Six significant digits, "1.5 MiB", times to the second.
  kExact,  // Programs can parse it without loss.
};

// A value inside a message. Immutable.
//
// It is named by the fields on the path to it, separated by dots:
// `summary.nan_count`. A list of keys and values is a map, or a repeated
// message of a string, a scalar and optionally `text`. A value in such a list
// is named by its key: `metrics.cosine`. kHuman shows it with its text, if any.
// `:text` after the key selects only the text. Timestamps and durations count
// as values.
class FieldPath {
 public:
  // INVALID_ARGUMENT if `root` has no such value.
  static absl::StatusOr<FieldPath> Parse(
      const google::protobuf::Descriptor& root, std::string_view dotted);

  // Returns the paths of all values of `root`, nested ones included, in the
  // order of the definition. Lists of keys and values appear as a whole.
  static std::vector<std::string> All(const google::protobuf::Descriptor& root);

  // True if the value is a number. Its column is then aligned to the right.
  bool is_number() const;

  // Returns the value in `message`, which is of the type of `root`. Nothing if
  // the field, or a message on the way to it, is absent. The result is not yet
  // Printable.
  std::optional<std::string> Get(const google::protobuf::Message& message,
                                 CellStyle style) const;

 private:
  std::vector<const google::protobuf::FieldDescriptor*> steps_;
  std::optional<std::string> key_;
};

// When a table leaves a column out.
enum class ColumnNeed {
  kAlways,       // Never.
  kIfRoom,       // If the terminal is too narrow.
  kUnlessEqual,  // The same, if the column says the same in all rows.
  kIfAny,        // If no row has a value, on a terminal or not.
};

// Columns that no field has, by name, with the function for their cells.
using ComputedValues =
    std::map<std::string,
             std::function<std::string(const google::protobuf::Message&)>>;

// Keys of lists of keys and values, by the path of the list.
using ColumnKeys = std::map<std::string, std::vector<std::string>>;

// One column: `[header[MARK]=]path`.
//
// A MARK is `?` for kIfRoom, `~` for kUnlessEqual, `+` for kIfAny, and `$` for
// text that is cut off at its end if it does not fit. A path `@name` is a
// computed value. Several paths are joined by
// - `/`: the values that are there, with slashes in between: `io/index`;
// - `|`: the two sides of a pair: one value if both are equal, else both with a
//   slash in between, and `-` for an absent one.
class Column {
 public:
  static absl::StatusOr<Column> Parse(const google::protobuf::Descriptor& root,
                                      std::string_view text,
                                      const ComputedValues& computed = {});

  // Returns the same column with kAlways, since the user asked for it by name.
  Column Required() const;

  const std::string& header() const { return header_; }
  bool is_number() const;
  ColumnNeed need() const { return need_; }
  bool is_prose() const { return is_prose_; }
  std::optional<std::string> Get(const google::protobuf::Message& message,
                                 CellStyle style) const;

 private:
  // Takes a mark off the end of the header.
  void TakeMark();

  std::string header_;
  ColumnNeed need_ = ColumnNeed::kAlways;
  bool is_prose_ = false;  // `$`.
  std::function<std::string(const google::protobuf::Message&)> computed_;
  std::vector<FieldPath> paths_;
  bool is_pair_ = false;
};

// Parses the columns in `wanted`, separated by commas. A name is the header of
// a column in `known` (which has the same form), a path, or the end of exactly
// one path: `nan_count` for `summary.nan_count`. A list in `keys` has exactly
// the keys given there. INVALID_ARGUMENT says what may be meant.
absl::StatusOr<std::vector<Column>> ParseColumns(
    const google::protobuf::Descriptor& root, std::string_view known,
    std::string_view wanted, const ColumnKeys& keys = {},
    const ComputedValues& computed = {});

// Returns all paths of `root`, with one for each key of the lists in `keys`.
std::vector<std::string> AllPaths(const google::protobuf::Descriptor& root,
                                  const ColumnKeys& keys);

}  // namespace msitd::ask
