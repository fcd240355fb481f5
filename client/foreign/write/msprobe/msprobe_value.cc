// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/foreign/write/writer/crc32.h"
#include "client/foreign/write/writer/python_literal.h"
#include "protos/base/dtype.h"

namespace msitd::write {
namespace {

using Kind = PythonLiteral::Kind;

constexpr std::array<std::string_view, 4> kMemoryFormats = {
    "torch.contiguous_format", "torch.channels_last", "torch.channels_last_3d",
    "torch.preserve_format"};
constexpr std::string_view kTorch = "torch.";

// Returns the text between `head` and `tail`.
std::optional<std::string_view> Between(std::string_view text,
                                        std::string_view head,
                                        std::string_view tail) {
  if (!text.starts_with(head) || !text.ends_with(tail) ||
      text.size() < head.size() + tail.size()) {
    return std::nullopt;
  }
  return text.substr(head.size(), text.size() - head.size() - tail.size());
}

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

// `slice(0, None, 2)`, `torch.Size([2, 3])`.
bool WriteSequence(std::string_view text, JsonWriter& out) {
  if (const auto items = Between(text, "slice(", ")")) {
    const auto list = ParsePythonLiteral(fmt::format("[{}]", *items));
    return list && list->items.size() == 3 && WriteTyped("slice", *list, out);
  }
  if (const auto size = Between(text, "torch.Size(", ")")) {
    const auto list = ParsePythonLiteral(*size);
    return list && list->kind == Kind::kList &&
           WriteTyped("torch.Size", *list, out);
  }
  return false;
}

// `device(type='cuda', index=0)`
bool WriteDevice(std::string_view text, JsonWriter& out) {
  auto type = Between(text, "device(type='", ")");
  if (!type) return false;
  const size_t quote = type->find('\'');
  if (quote == type->npos) return false;
  std::string name(type->substr(0, quote));
  type->remove_prefix(quote + 1);
  if (const auto index = Between(*type, ", index=", "")) {
    name.append(":").append(*index);
  } else if (!type->empty()) {
    return false;
  }
  WriteTyped("torch.device", name, out);
  return true;
}

// `torch.contiguous_format`, `RedOpType.SUM`, `Ellipsis`
bool WriteNamed(std::string_view text, JsonWriter& out) {
  if (std::find(kMemoryFormats.begin(), kMemoryFormats.end(), text) !=
      kMemoryFormats.end()) {
    out.BeginObject().Field("type", "torch.memory_format");
    out.Field("format", text.substr(kTorch.size())).EndObject();
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
