// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/metric_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "daemon/compare/judge/wire_field.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/byte_codec.h"
#include "protos/base/utf8.h"

namespace msitd::compare {
namespace {

constexpr uint32_t kMetricTag =
    LengthTag(v1::ComparisonRow::kMetricsFieldNumber);
constexpr uint32_t kNameTag = LengthTag(v1::MetricValue::kMetricFieldNumber);
constexpr uint32_t kValueTag = Fixed64Tag(v1::MetricValue::kValueFieldNumber);
// Bytes of the field with the value: its tag, and a double.
constexpr size_t kValueBytes = 1 + sizeof(double);
static_assert(kValueTag < 0x80);

// Returns the field with the name of each metric.
const std::array<std::string, kRowMetricCount>& NameFields() {
  static const auto fields = [] {
    std::array<std::string, kRowMetricCount> out;
    for (size_t i = 0; i < out.size(); ++i) {
      ByteWriter writer(out[i]);
      writer.PutVarint(kNameTag);
      writer.PutText(MetricNames()[i]);
    }
    return out;
  }();
  return fields;
}

}  // namespace

std::string EncodeMetrics(const RowMetrics& metrics) {
  const auto& names = NameFields();
  std::string out;
  std::string message;
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (!metrics[i].has_value()) continue;
    message = names[i];
    ByteWriter fields(message);
    // As in every message, 0 is left out, but not -0.
    if (const auto bits = std::bit_cast<uint64_t>(*metrics[i]); bits != 0) {
      fields.PutVarint(kValueTag);
      fields.PutFixed64(bits);
    }
    ByteWriter writer(out);
    writer.PutVarint(kMetricTag);
    writer.PutText(message);
  }
  return out;
}

bool MetricDecoder::Add(std::string_view message) {
  const auto& names = NameFields();
  for (size_t tried = 0; tried < names.size(); ++tried) {
    const size_t name = next_;
    next_ = next_ + 1 == names.size() ? 0 : next_ + 1;
    if (!message.starts_with(names[name])) continue;
    ByteReader in(message.substr(names[name].size()));
    double value = 0;
    if (!in.done()) {
      if (in.left() != kValueBytes || in.GetVarint() != kValueTag) break;
      value = in.GetDouble();
    }
    if (!in.done()) break;
    out_[name] = value;
    return true;
  }
  return AddOther(message);
}

bool MetricDecoder::AddOther(std::string_view message) {
  std::string_view metric;
  double value = 0;
  WireField field;
  for (ByteReader in(message); !in.done();) {
    if (!field.Read(in)) return false;
    if (field.tag == kNameTag) {
      if (!IsValidUtf8(field.text)) return false;
      metric = field.text;
    }
    if (field.tag == kValueTag) value = std::bit_cast<double>(field.number);
  }
  const std::span<const std::string_view> names = MetricNames();
  const auto name = std::find(names.begin(), names.end(), metric);
  if (name == names.end()) {
    has_unknown_ = true;
  } else {
    out_[static_cast<size_t>(name - names.begin())] = value;
  }
  return true;
}

}  // namespace msitd::compare
