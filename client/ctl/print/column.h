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

// Cells of tables and CSV files, taken from any message by its descriptor.
namespace msitd::ctl {

// How a value is written.
enum class CellStyle {
  kHuman,  // Six significant digits, "1.5 MiB", times to the second.
  kExact,  // What a program can read back without loss.
};

// A value inside a message, by dotted field names: `summary.nan_count`. One
// inside a list of keys and values, which a map is and a repeated message of a
// string, a scalar and maybe `text`, by its key: `metrics.cosine`. People see
// the text behind the value; `:text` behind the key selects the text alone.
// Timestamps and durations are values. Immutable.
class FieldPath {
 public:
  // INVALID_ARGUMENT if `root` has no such value.
  static absl::StatusOr<FieldPath> Parse(
      const google::protobuf::Descriptor& root, std::string_view dotted);

  // Every value of `root`, nested ones included, in the order of the
  // definition. Lists of keys and values come as a whole.
  static std::vector<std::string> All(const google::protobuf::Descriptor& root);

  // True if the value is a number: its column is aligned to the right.
  bool is_number() const;

  // The value in `message`, which is of the type of `root`. Nothing if the
  // field, or a message on the way to it, is absent. Not yet Printable.
  std::optional<std::string> Get(const google::protobuf::Message& message,
                                 CellStyle style) const;

 private:
  std::vector<const google::protobuf::FieldDescriptor*> steps_;
  std::optional<std::string> key_;
};

// When a table does without a column.
enum class ColumnNeed {
  kAlways,       // Never.
  kIfRoom,       // If the terminal is too narrow.
  kUnlessEqual,  // If it is, and the column says the same in all rows.
  kIfAny,        // If no row has a value, wherever it goes.
};

// What a column shows that no field has, and its name.
using ComputedValues =
    std::map<std::string,
             std::function<std::string(const google::protobuf::Message&)>>;

// Keys of lists of keys and values, by the path of the list.
using ColumnKeys = std::map<std::string, std::vector<std::string>>;

// One column: `[header[MARK]=]path`. A `?` says that a table may do without it
// kIfRoom, a `~` kUnlessEqual, a `+` kIfAny; a `$` that what does not fit is
// cut off at its end. A path `@name` is a computed value. Several paths are
// joined by
// - `/`: the values that are there, with slashes in between: `io/index`;
// - `|`: the two sides of a pair: one value if both are equal, else both with
//   a slash in between, `-` for one that is absent.
class Column {
 public:
  static absl::StatusOr<Column> Parse(const google::protobuf::Descriptor& root,
                                      std::string_view text,
                                      const ComputedValues& computed = {});

  // The same column, asked for by its name: no table does without.
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

// Parses the columns in `wanted`, separated by commas. A name may be the header
// of a column in `known` (same form), a path, or the end of exactly one path:
// `nan_count` for `summary.nan_count`. Of a list in `keys` there are these keys
// and no others. INVALID_ARGUMENT names what may be meant.
absl::StatusOr<std::vector<Column>> ParseColumns(
    const google::protobuf::Descriptor& root, std::string_view known,
    std::string_view wanted, const ColumnKeys& keys = {},
    const ComputedValues& computed = {});

// All paths of `root`, lists with known keys taken apart.
std::vector<std::string> AllPaths(const google::protobuf::Descriptor& root,
                                  const ColumnKeys& keys);

}  // namespace msitd::ctl
