// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/stored_row.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "daemon/compare/judge/metric_bytes.h"
#include "daemon/compare/judge/wire_field.h"
#include "protos/base/byte_codec.h"
#include "protos/base/utf8.h"

namespace msitd::compare {
namespace {

using Row = v1::ComparisonRow;
using Side = v1::ComparedTensor;

// Returns whether the bytes are packed numbers.
bool IsPacked(std::string_view packed) {
  ByteReader in(packed);
  while (in.ok() && !in.done()) in.GetVarint();
  return in.ok();
}

bool ParseShape(std::string_view packed, Side& out) {
  if (!IsPacked(packed)) return false;
  for (ByteReader in(packed); !in.done();) {
    out.add_shape(static_cast<int64_t>(in.GetVarint()));
  }
  return true;
}

// Sets the fields of a side that verdicts depend on. Returns false if protobuf
// could not parse the side.
bool ParseSide(std::string_view bytes, Side& out) {
  WireField field;
  for (ByteReader in(bytes); !in.done();) {
    if (!field.Read(in)) return false;
    const auto number = static_cast<int64_t>(field.number);
    const auto real = std::bit_cast<double>(field.number);
    switch (field.tag) {
      case VarintTag(Side::kDtypeFieldNumber):
        out.set_dtype(static_cast<v1::DType>(number));
        break;
      case LengthTag(Side::kShapeFieldNumber):
        if (!ParseShape(field.text, out)) return false;
        break;
      case VarintTag(Side::kShapeFieldNumber):
        out.add_shape(number);
        break;
      case Fixed64Tag(Side::kMinFieldNumber):
        out.set_min(real);
        break;
      case Fixed64Tag(Side::kMaxFieldNumber):
        out.set_max(real);
        break;
      case VarintTag(Side::kNanCountFieldNumber):
        out.set_nan_count(number);
        break;
      case VarintTag(Side::kInfinityCountFieldNumber):
        out.set_infinity_count(number);
        break;
      case Fixed64Tag(Side::kL2NormFieldNumber):
        out.set_l2_norm(real);
        break;
      case LengthTag(Side::kHashFieldNumber):
        if (!IsValidUtf8(field.text)) return false;
        out.set_hash(field.text.data(), field.text.size());
        break;
      case VarintTag(Side::kKindFieldNumber):
        out.set_kind(static_cast<v1::RecordKind>(number));
        break;
      case LengthTag(Side::kRanksFieldNumber):
        if (!IsPacked(field.text)) return false;
        break;
      case LengthTag(Side::kNameFieldNumber):
      case LengthTag(Side::kLayoutFieldNumber):
      case LengthTag(Side::kValueFieldNumber):
      case LengthTag(Side::kViewFieldNumber):
        if (!IsValidUtf8(field.text)) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

}  // namespace

bool StoredRow::Parse(std::string_view bytes) {
  Clear();
  MetricDecoder metrics(metrics_);
  WireField field;
  // Consecutive fields of one kind are copied at once.
  std::string* kind = &other_bytes_;
  size_t copied = 0;
  for (ByteReader in(bytes); !in.done();) {
    const size_t begin = bytes.size() - in.left();
    if (!field.Read(in)) return false;
    std::string* next = &side_bytes_;
    switch (field.tag) {
      case LengthTag(Row::kGoldenFieldNumber):
        if (!ParseSide(field.text, *row_.mutable_golden())) return false;
        break;
      case LengthTag(Row::kTargetFieldNumber):
        if (!ParseSide(field.text, *row_.mutable_target())) return false;
        break;
      case LengthTag(Row::kMetricsFieldNumber):
        if (!metrics.Add(field.text)) return false;
        next = &metric_bytes_;
        break;
      default:
        next = &other_bytes_;
        break;
    }
    if (next == kind) continue;
    kind->append(bytes.substr(copied, begin - copied));
    copied = begin;
    kind = next;
  }
  kind->append(bytes.substr(copied));
  has_unknown_metrics_ = metrics.has_unknown();
  return row_.MergeFromString(other_bytes_);
}

void StoredRow::Clear() {
  row_.Clear();
  metrics_ = {};
  metric_bytes_.clear();
  side_bytes_.clear();
  other_bytes_.clear();
}

void StoredRow::SetMetrics(const RowMetrics& metrics) {
  if (metrics == metrics_ && !has_unknown_metrics_) return;
  metrics_ = metrics;
  metric_bytes_ = EncodeMetrics(metrics);
  has_unknown_metrics_ = false;
}

std::string StoredRow::Serialize() {
  // The sides of `row_` are incomplete, so their bytes are used.
  Side* const golden = row_.release_golden();
  Side* const target = row_.release_target();
  std::string out;
  out.reserve(metric_bytes_.size() + side_bytes_.size() + row_.ByteSizeLong());
  // Consecutive rows often have the same metrics, and the store does not repeat
  // what a row begins with.
  out += metric_bytes_;
  out += side_bytes_;
  row_.AppendToString(&out);
  row_.set_allocated_golden(golden);
  row_.set_allocated_target(target);
  return out;
}

}  // namespace msitd::compare
