// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_value.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/base/tensor_statistics.h"

namespace msitd::trees {
namespace {

PythonValue Other(std::string text) {
  return {RecordKind::kOther, WithoutNul(text)};
}

// Accepts `str`, and `str_` of NumPy and `unicode_` of its older releases.
bool IsText(std::string_view type) {
  return type == "str" || type == "str_" || type == "unicode_";
}

// Returns torch's repr of `cuda:0`, `cpu:None` or `cpu`.
std::string ReprOfDevice(std::string_view name) {
  const size_t colon = name.find(':');
  std::string out = "device(type=" + ReprOfText(name.substr(0, colon));
  if (colon != std::string_view::npos && name.substr(colon + 1) != "None") {
    out.append(", index=").append(name.substr(colon + 1));
  }
  return out + ")";
}

PythonValue DescribeText(std::string_view type, const std::string& text) {
  if (IsText(type)) return {RecordKind::kText, WithoutNul(text)};
  if (type == "torch.dtype") return {RecordKind::kDType, WithoutNul(text)};
  if (type == "torch.device") return Other(ReprOfDevice(text));
  if (type == "ellipsis") return Other("Ellipsis");
  return Other(text);
}

// Returns true for a text in place of a number that valid JSON cannot
// represent.
bool IsPythonNumber(const JsonValue& value) {
  return value.IsString() && (value.text == "NaN" || value.text == "Infinity" ||
                              value.text == "-Infinity");
}

// Returns the statistic in the form of a record; nothing for null and for a
// value that is not a scalar.
std::optional<TensorStatistic> StatisticOf(std::string_view name,
                                           const JsonValue* value) {
  if (value == nullptr) return std::nullopt;
  TensorStatistic out;
  out.name = name;
  if (value->IsBool()) {
    out.text = value->type == JsonToken::kTrue ? "true" : "false";
  } else if (value->IsNumber() || IsPythonNumber(*value)) {
    out.text = value->text;
    out.is_string = true;
    if (out.text == "NaN") {
      out.text = "nan";
    } else if (out.text == "Infinity") {
      out.text = "inf";
    } else if (out.text == "-Infinity") {
      out.text = "-inf";
    } else {
      out.is_string = false;
    }
  } else {
    return std::nullopt;
  }
  if (out.text.size() > kStatisticTextBytesMax) return std::nullopt;
  return out;
}

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

// The value that msprobe calls md5 is a CRC-32, or the words of the tensor
// joined by xor. For a tensor without dimensions, the latter is its value.
std::optional<TensorStatistic> ChecksumOf(const JsonValue* md5) {
  if (md5 == nullptr) return std::nullopt;
  if (!md5->IsString()) return StatisticOf("xor", md5);
  const std::string_view text = md5->text;
  if (text.size() == 8 && IsHex(text)) return {{"crc32", text, true}};
  if (text.starts_with("0x") && text.size() == 18 && IsHex(text.substr(2))) {
    return {{"xor", text, true}};
  }
  return std::nullopt;
}

}  // namespace

bool IsMsprobeLeaf(const JsonValue& value) {
  if (!value.IsObject()) return false;
  const JsonValue* type = value.Find("type");
  return type != nullptr && type->IsString();
}

bool IsMsprobeTensor(const JsonValue& value) {
  return IsMsprobeLeaf(value) && value.Find("dtype") != nullptr &&
         value.Find("shape") != nullptr;
}

PythonValue DescribeMsprobe(const JsonValue& leaf) {
  const std::string_view type = leaf.Find("type")->text;
  const JsonValue* format = leaf.Find("format");
  if (type == "torch.memory_format" && format != nullptr &&
      format->IsString()) {
    return Other("torch." + format->text);
  }
  const JsonValue* value = leaf.Find("value");
  if (value == nullptr) return Other(ReprOfJson(leaf));
  if (type == "float" && IsPythonNumber(*value)) {
    JsonValue number = *value;
    number.type = JsonToken::kNumber;
    return DescribeJson(number);
  }
  if (value->IsString()) return DescribeText(type, value->text);
  if (value->IsArray() && type == "torch.Size") {
    return Other("torch.Size(" + ReprOfJson(*value) + ")");
  }
  if (value->IsArray() && type == "slice") {
    const std::string items = ReprOfJson(*value);
    return Other("slice(" + items.substr(1, items.size() - 2) + ")");
  }
  if (value->IsObject() || value->IsArray() || value->IsNull()) {
    return Other(ReprOfJson(leaf));
  }
  return DescribeJson(*value);
}

std::string StatisticsOfMsprobe(const JsonValue& tensor) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"Max", "max"}, {"Min", "min"}, {"Mean", "mean"}, {"Norm", "l2_norm"}};
  std::vector<TensorStatistic> out;
  for (const auto& [theirs, ours] : kNames) {
    const auto one = StatisticOf(ours, tensor.Find(theirs));
    if (one) out.push_back(*one);
  }
  const auto checksum = ChecksumOf(tensor.Find("md5"));
  if (checksum) out.push_back(*checksum);
  return PrintTensorStatistics(out);
}

}  // namespace msitd::trees
