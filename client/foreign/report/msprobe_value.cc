// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "client/foreign/trees/json/python_text.h"
#include "client/foreign/write/writer/crc32.h"
#include "client/foreign/write/writer/python_literal.h"
#include "client/foreign/write/writer/python_repr.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"

namespace msitd::report {
namespace {

using Kind = MsprobeStatistic::Kind;
using write::PythonLiteral;

constexpr char kAbsent[] = "N/A";

MsprobeStatistic NoneStatistic() { return {Kind::kOther, 0, "None"}; }

// Returns the number that a text represents, if it is one for pandas.
std::optional<double> NumberIn(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.find_first_not_of("+-.eE0123456789") != text.npos) {
    return std::nullopt;
  }
  double out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    return std::strtod(std::string(text).c_str(), nullptr);
  }
  return error == std::errc() ? std::optional(out) : std::nullopt;
}

// msprobe classifies texts by their content.
MsprobeStatistic OfText(std::string_view text) {
  std::string lower(text);
  absl::AsciiStrToLower(&lower);
  if (lower == "nan") return {Kind::kNan, std::nan(""), "Nan"};
  MsprobeStatistic out = {Kind::kOther, 0, std::string(text)};
  if (lower == "inf" || lower == "-inf") {
    out.kind = Kind::kInfinity;
    out.number = lower == "inf" ? HUGE_VAL : -HUGE_VAL;
  } else if (const auto number = NumberIn(text)) {
    out.kind = Kind::kNumber;
    out.number = *number;
  } else if (lower.find("npu") != lower.npos ||
             lower.find("cpu") != lower.npos ||
             lower.find("cuda") != lower.npos) {
    out.kind = Kind::kDevice;
  } else if (text == kAbsent) {
    out.kind = Kind::kAbsent;
  }
  return out;
}

// Returns the cell of a bool, an int or a float, from Python's repr of it.
MsprobeStatistic OfNumber(std::string_view text, bool is_float) {
  if (text == "True" || text == "False") {
    return {Kind::kOther, 0, ask::Truth{text == "True", /*is_python=*/true}};
  }
  MsprobeStatistic out = OfText(text);
  if (is_float) {
    const double number = std::strtod(std::string(text).c_str(), nullptr);
    out.cell = ask::Real{number, ask::RealStyle::kMsprobe};
    return out;
  }
  int64_t integer = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), integer);
  if (error == std::errc() && end == text.data() + text.size()) {
    out.cell = integer;
  }
  return out;
}

std::string Crc32Of(std::string_view text) {
  return fmt::format("{:08x}", write::Crc32(0, text));
}

// Returns a value whose columns are its content in this class of Python.
MsprobeValue OfClass(std::string_view name, MsprobeStatistic statistic,
                     std::string_view text) {
  MsprobeValue out;
  out.dtype = fmt::format("<class '{}'>", name);
  out.shape = "[]";
  out.statistics.fill(statistic);
  out.checksum = Crc32Of(text);
  return out;
}

MsprobeValue OfStr(std::string_view text) {
  return OfClass("str", OfText(text), text);
}

// Describes a value whose content dump.json does not have.
MsprobeValue OfNothing() { return OfClass("NoneType", NoneStatistic(), ""); }

// Describes a value of which the shape column has the content.
MsprobeValue OfShape(std::string_view dtype, std::string shape,
                     std::string_view text) {
  MsprobeValue out;
  out.dtype = dtype;
  out.shape = std::move(shape);
  out.statistics.fill(NoneStatistic());
  out.checksum = Crc32Of(text);
  return out;
}

// Returns the constant as Python's repr does.
std::string ReprOf(const PythonLiteral& literal) {
  std::string out;
  switch (literal.kind) {
    case PythonLiteral::Kind::kNone:
      return "None";
    case PythonLiteral::Kind::kText:
      return trees::ReprOfText(literal.text);
    case PythonLiteral::Kind::kList:
      for (const PythonLiteral& item : literal.items) {
        out += (out.empty() ? "" : ", ") + ReprOf(item);
      }
      return "[" + out + "]";
    case PythonLiteral::Kind::kDict:
      for (size_t i = 0; i < literal.keys.size(); ++i) {
        out += (out.empty() ? "" : ", ") + trees::ReprOfText(literal.keys[i]) +
               ": " + ReprOf(literal.items[i]);
      }
      return "{" + out + "}";
    default:
      return literal.text;
  }
}

bool IsText(const PythonLiteral* literal) {
  return literal != nullptr && literal->kind == PythonLiteral::Kind::kText;
}

// Returns the cell of one of the statistics in the description of a tensor.
MsprobeStatistic StatisticIn(const PythonLiteral* literal) {
  if (literal == nullptr) return NoneStatistic();
  switch (literal->kind) {
    case PythonLiteral::Kind::kNone:
      return NoneStatistic();
    case PythonLiteral::Kind::kBool:
    case PythonLiteral::Kind::kNumber:
      return OfNumber(literal->text,
                      literal->text.find_first_of(".en") != std::string::npos);
    default:
      return OfText(ReprOf(*literal));
  }
}

// Describes a tensor of a type that msitd does not support. Its record is the
// description in dump.json.
MsprobeValue OfUnsupportedTensor(const PythonLiteral& leaf) {
  MsprobeValue out;
  const PythonLiteral& dtype = *leaf.Find("dtype");
  out.dtype = IsText(&dtype) ? dtype.text : ReprOf(dtype);
  out.shape = ReprOf(*leaf.Find("shape"));
  constexpr std::array<std::string_view, 4> kNames = {"Max", "Min", "Mean",
                                                      "Norm"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    out.statistics[i] = StatisticIn(leaf.Find(kNames[i]));
  }
  const PythonLiteral* md5 = leaf.Find("md5");
  out.checksum = IsText(md5) ? md5->text : Crc32Of("");
  return out;
}

// Describes a value whose record is its description in dump.json.
MsprobeValue OfDescription(const PythonLiteral& leaf) {
  if (leaf.Find("dtype") != nullptr && leaf.Find("shape") != nullptr) {
    return OfUnsupportedTensor(leaf);
  }
  const PythonLiteral* value = leaf.Find("value");
  if (leaf.Find("type")->text == "torch.ProcessGroup") {
    const PythonLiteral* ranks = leaf.Find("group_ranks");
    const std::string text = ranks == nullptr ? "None" : ReprOf(*ranks);
    MsprobeValue out = OfShape("torch.ProcessGroup", "[]", text);
    out.statistics.fill(OfText(text));
    out.checksum = text;
    return out;
  }
  if (value == nullptr) return OfNothing();
  const std::string text = ReprOf(*value);
  switch (value->kind) {
    case PythonLiteral::Kind::kList:
      return OfClass("list", OfText(text), text);
    case PythonLiteral::Kind::kDict:
      return OfClass("dict", OfText(text), text);
    default:
      return OfClass("NoneType", NoneStatistic(), text);
  }
}

// Describes `slice(0, None, 2)` and `torch.Size([2, 3])`.
std::optional<MsprobeValue> OfSequence(std::string_view text) {
  const auto sequence = write::SequenceIn(text);
  if (!sequence) return std::nullopt;
  const std::string content = ReprOf(sequence->items);
  return sequence->is_slice
             ? OfShape("slice",
                       fmt::format("({},)", sequence->items.items.size()),
                       content)
             : OfShape("torch.Size", content, content);
}

// Describes a value of kind other by its text, which is Python's repr of it.
MsprobeValue OfOther(std::string_view text) {
  if (auto sequence = OfSequence(text)) return *std::move(sequence);
  if (const auto device = write::DeviceIn(text)) return OfStr(*device);
  if (text == "Ellipsis") {
    MsprobeValue out = OfShape("ellipsis", "[]", "...");
    out.statistics.fill(OfText("..."));
    return out;
  }
  if (write::MemoryFormatIn(text)) return OfNothing();
  const auto literal = write::ParsePythonLiteral(text);
  if (!literal) return OfStr(text);
  // An integer of more than 64 bits.
  if (literal->kind == PythonLiteral::Kind::kNumber) {
    return OfClass("int", OfNumber(text, /*is_float=*/false), text);
  }
  if (IsText(literal->Find("type"))) return OfDescription(*literal);
  MsprobeValue out = OfStr(text);
  out.is_empty_container =
      literal->items.empty() && (literal->kind == PythonLiteral::Kind::kList ||
                                 literal->kind == PythonLiteral::Kind::kDict);
  return out;
}

MsprobeValue OfKindNumber(DType dtype, const std::string& text) {
  switch (InfoOf(dtype).kind) {
    case DTypeKind::kBool:
      return OfClass("bool", OfNumber(text, false), text);
    case DTypeKind::kInteger:
      return OfClass("int", OfNumber(text, false), text);
    case DTypeKind::kComplex:
      return OfStr(text);
    default:
      return OfClass("float", OfNumber(text, true), text);
  }
}

// Shows a rank or a number of a group as a text with its type.
void ShowAsRank(std::string_view text, MsprobeValue& value) {
  constexpr std::string_view kHead = "<class '";
  if (!value.dtype.starts_with(kHead)) return;
  value.dtype =
      value.dtype.substr(kHead.size(), value.dtype.size() - kHead.size() - 2);
  value.statistics.fill(OfText(text));
  value.checksum = text;
}

}  // namespace

bool IsMsprobeValue(const v1::ComparedTensor& side) {
  return IsValue(static_cast<RecordKind>(side.kind()));
}

MsprobeValue MsprobeValueOf(const v1::ComparedTensor& side,
                            std::string_view index) {
  constexpr std::array<std::string_view, 4> kRanks = {"src", "dst", "group_src",
                                                      "group_dst"};
  MsprobeValue out;
  switch (static_cast<RecordKind>(side.kind())) {
    case RecordKind::kNone:
      out.dtype = out.shape = out.checksum = kAbsent;
      out.statistics.fill(NoneStatistic());
      return out;
    case RecordKind::kNumber:
      out = OfKindNumber(static_cast<DType>(side.dtype()), side.value());
      break;
    case RecordKind::kText:
    case RecordKind::kDType:
      out = OfStr(side.value());
      break;
    default:
      out = OfOther(side.value());
  }
  const std::string_view name = index.substr(index.rfind('.') + 1);
  if (std::find(kRanks.begin(), kRanks.end(), name) != kRanks.end()) {
    ShowAsRank(side.value(), out);
  }
  return out;
}

bool ValuesDiffer(const MsprobeStatistic& target,
                  const MsprobeStatistic& golden) {
  if (ask::TextOf(target.cell) == ask::TextOf(golden.cell)) return false;
  const auto* one = std::get_if<ask::Real>(&target.cell);
  const auto* other = std::get_if<ask::Real>(&golden.cell);
  // The two zeros have different texts.
  return one == nullptr || other == nullptr || one->value != other->value;
}

}  // namespace msitd::report
