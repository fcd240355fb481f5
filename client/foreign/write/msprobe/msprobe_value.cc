// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_value.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/foreign/write/writer/crc32.h"
#include "client/foreign/write/writer/python_literal.h"
#include "client/foreign/write/writer/python_repr.h"
#include "protos/base/dtype.h"

namespace msitd::write {
namespace {

using Kind = PythonLiteral::Kind;

void WriteTyped(std::string_view type, std::string_view value,
                JsonWriter& out) {
  out.BeginObject().Field("type", type).Field("value", value).EndObject();
}

bool WriteTyped(std::string_view type, const PythonLiteral& value,
                JsonWriter& out) {
  out.BeginObject().Field("type", type).Key("value");
  WriteLiteral(value, out);
  out.EndObject();
  return true;
}

bool WriteSequence(std::string_view text, JsonWriter& out) {
  // Python writes all three items of a slice.
  constexpr size_t kSliceItems = 3;
  const auto sequence = SequenceIn(text);
  if (!sequence ||
      (sequence->is_slice && sequence->items.items.size() != kSliceItems)) {
    return false;
  }
  return WriteTyped(sequence->is_slice ? "slice" : "torch.Size",
                    sequence->items, out);
}

bool WriteDevice(std::string_view text, JsonWriter& out) {
  const auto name = DeviceIn(text);
  if (name) WriteTyped("torch.device", *name, out);
  return name.has_value();
}

// `torch.contiguous_format`, `RedOpType.SUM`, `Ellipsis`
bool WriteNamed(std::string_view text, JsonWriter& out) {
  if (const auto format = MemoryFormatIn(text)) {
    out.BeginObject().Field("type", "torch.memory_format");
    out.Field("format", *format).EndObject();
  } else if (text.starts_with("RedOpType.")) {
    WriteTyped("torch.distributed.ReduceOp", text, out);
  } else if (text == "Ellipsis") {
    WriteTyped("ellipsis", "...", out);
  } else {
    return false;
  }
  return true;
}

// Returns the checksum of the ranks, by which msprobe identifies a group: `[0,
// 1]`.
std::string GroupIdOf(const PythonLiteral& ranks) {
  std::string text;
  for (const PythonLiteral& rank : ranks.items) {
    text += (text.empty() ? "" : ", ") + rank.text;
  }
  text = "[" + text + "]";
  return fmt::format("{:08x}", Crc32(0, text));
}

// Writes a dict, a list, or an integer that does not fit into a record of a
// number.
bool WriteConstant(std::string_view text, JsonWriter& out) {
  auto literal = ParsePythonLiteral(text);
  if (!literal) return false;
  if (literal->kind == Kind::kNumber) return WriteTyped("int", *literal, out);
  if (literal->kind != Kind::kList && literal->kind != Kind::kDict) {
    return false;
  }
  const PythonLiteral* ranks = literal->Find("group_ranks");
  if (ranks != nullptr && literal->Find("group_id") == nullptr) {
    PythonLiteral id{Kind::kText, GroupIdOf(*ranks), {}, {}};
    literal->keys.emplace_back("group_id");
    literal->items.push_back(std::move(id));
  }
  WriteLiteral(*literal, out);
  return true;
}

void WriteOther(const std::string& text, JsonWriter& out) {
  if (WriteSequence(text, out) || WriteDevice(text, out) ||
      WriteNamed(text, out) || WriteConstant(text, out)) {
    return;
  }
  WriteTyped(text.substr(0, text.find('(')), text, out);
}

// Parses an int or a float. Returns nothing for a text that is neither, which a
// producer may have sent.
std::optional<PythonLiteral> NumberOf(const MsprobeRow& row) {
  auto literal = ParsePythonLiteral(row.text);
  if (InfoOf(row.dtype).kind == DTypeKind::kComplex || !literal ||
      literal->kind != Kind::kNumber) {
    return std::nullopt;
  }
  return literal;
}

// NumPy's scalars have types of their own. Those of 64 bits are treated as
// Python's.
std::string_view TypeOfNumber(DType dtype) {
  switch (InfoOf(dtype).kind) {
    case DTypeKind::kBool:
      return "bool";
    case DTypeKind::kInteger:
      return dtype == DType::kInt64 ? "int" : DTypeName(dtype);
    case DTypeKind::kComplex:
      return dtype == DType::kComplex128 ? "complex" : DTypeName(dtype);
    default:
      return dtype == DType::kFloat64 ? "float" : DTypeName(dtype);
  }
}

void WriteNumber(const MsprobeRow& row, JsonWriter& out) {
  if (InfoOf(row.dtype).kind == DTypeKind::kBool) {
    out.BeginObject().Field("type", "bool").Key("value");
    out.Bool(row.text == "True").EndObject();
  } else if (const auto number = NumberOf(row)) {
    WriteTyped(TypeOfNumber(row.dtype), *number, out);
  } else {
    const bool is_complex = InfoOf(row.dtype).kind == DTypeKind::kComplex;
    WriteTyped(is_complex ? TypeOfNumber(row.dtype) : "str", row.text, out);
  }
}

}  // namespace

void WriteMsprobeValue(const MsprobeRow& row, JsonWriter& out) {
  switch (row.kind) {
    case RecordKind::kNone:
      out.Null();
      return;
    case RecordKind::kNumber:
      WriteNumber(row, out);
      return;
    case RecordKind::kText:
      WriteTyped("str", row.text, out);
      return;
    case RecordKind::kDType:
      WriteTyped("torch.dtype", row.text, out);
      return;
    default:
      WriteOther(row.text, out);
  }
}

void WritePlainValue(const MsprobeRow& row, JsonWriter& out) {
  auto literal = row.kind == RecordKind::kText ? std::nullopt
                                               : ParsePythonLiteral(row.text);
  if (literal) {
    WriteLiteral(*literal, out);
  } else {
    out.Text(row.text);
  }
}

}  // namespace msitd::write
