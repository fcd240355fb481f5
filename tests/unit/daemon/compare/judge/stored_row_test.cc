// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/stored_row.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <string_view>

#include "daemon/compare/judge/metric_bytes.h"

namespace msitd::compare {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// Sets a field that is not a message, or adds to a repeated one.
void SetScalar(const FieldDescriptor& field, int number,
               google::protobuf::Message& out) {
  const Reflection& fields = *out.GetReflection();
  const std::string text = field.name() + std::to_string(number) + " \u00fc";
  const auto set = [&](auto one, auto more, auto value) {
    if (field.is_repeated()) {
      (fields.*more)(&out, &field, value);
    } else {
      (fields.*one)(&out, &field, value);
    }
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      set(&Reflection::SetInt32, &Reflection::AddInt32, -number);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      set(&Reflection::SetInt64, &Reflection::AddInt64, number);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      set(&Reflection::SetDouble, &Reflection::AddDouble, 0.5 * number);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      set(&Reflection::SetBool, &Reflection::AddBool, true);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      set(&Reflection::SetEnumValue, &Reflection::AddEnumValue, 2);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      set(&Reflection::SetString, &Reflection::AddString, text);
      break;
    default:
      FAIL() << field.full_name();
  }
}

// Sets all fields, and all of their fields. Repeated fields get two entries.
void SetAll(google::protobuf::Message& out) {
  const Reflection& fields = *out.GetReflection();
  for (int i = 0; i < out.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *out.GetDescriptor()->field(i);
    for (int entry = 1; entry <= (field.is_repeated() ? 2 : 1); ++entry) {
      if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        SetScalar(field, 1000 * entry + i, out);
      } else if (field.is_repeated()) {
        SetAll(*fields.AddMessage(&out, &field));
      } else {
        SetAll(*fields.MutableMessage(&out, &field));
      }
    }
  }
}

v1::ComparisonRow FullRow() {
  v1::ComparisonRow row;
  SetAll(row);
  return row;
}

v1::ComparisonRow RowFrom(const std::string& bytes) {
  v1::ComparisonRow row;
  EXPECT_TRUE(row.ParseFromString(bytes));
  return row;
}

RowMetrics SomeMetrics() {
  RowMetrics out;
  out[0] = 0.25;
  out[2] = 0;
  out[3] = -0.0;
  out[5] = std::numeric_limits<double>::quiet_NaN();
  out[kRowMetricCount - 1] = std::numeric_limits<double>::infinity();
  return out;
}

TEST(StoredRowTest, EveryFieldIsKept) {
  const v1::ComparisonRow row = FullRow();
  StoredRow stored;
  ASSERT_TRUE(stored.Parse(row.SerializeAsString()));
  EXPECT_EQ(RowFrom(stored.Serialize()).SerializeAsString(),
            row.SerializeAsString());
  ASSERT_TRUE(stored.Parse(v1::ComparisonRow().SerializeAsString()));
  EXPECT_EQ(stored.Serialize(), "");
}

TEST(StoredRowTest, SidesHaveTheFieldsThatVerdictsDependOn) {
  const v1::ComparisonRow row = FullRow();
  StoredRow stored;
  ASSERT_TRUE(stored.Parse(row.SerializeAsString()));
  for (const bool is_golden : {true, false}) {
    v1::ComparedTensor whole = is_golden ? row.golden() : row.target();
    whole.clear_name();
    whole.clear_mean();
    whole.clear_ranks();
    whole.clear_layout();
    whole.clear_value();
    whole.clear_requires_grad();
    whole.clear_view();
    const v1::ComparedTensor& side =
        is_golden ? stored.row().golden() : stored.row().target();
    EXPECT_EQ(side.DebugString(), whole.DebugString());
  }
  v1::ComparisonRow others = row;
  v1::ComparisonRow head = stored.row();
  for (v1::ComparisonRow* const each : {&others, &head}) {
    each->clear_golden();
    each->clear_target();
    each->clear_metrics();
  }
  EXPECT_EQ(head.DebugString(), others.DebugString());
}

TEST(StoredRowTest, ChangedFieldsReplaceThoseOfTheBytes) {
  StoredRow stored;
  ASSERT_TRUE(stored.Parse(FullRow().SerializeAsString()));
  v1::ComparisonRow expected = FullRow();
  for (v1::ComparisonRow* const row : {&stored.row(), &expected}) {
    row->set_verdict(v1::FAIL);
    row->set_reason("because");
    row->clear_predicate();
    row->clear_rtol();
    row->clear_origin();
    row->set_explained(false);
    row->clear_watches();
  }
  EXPECT_EQ(RowFrom(stored.Serialize()).DebugString(), expected.DebugString());
  // A row that was written can be changed again.
  stored.row().set_reason("");
  expected.clear_reason();
  EXPECT_EQ(RowFrom(stored.Serialize()).DebugString(), expected.DebugString());
  EXPECT_TRUE(stored.row().has_golden());
}

TEST(StoredRowTest, MetricsAreReadInAnyOrderAndReplaced) {
  v1::ComparisonRow row = FullRow();
  row.clear_metrics();
  for (const size_t metric : {size_t{7}, size_t{1}, size_t{8}}) {
    v1::MetricValue& value = *row.add_metrics();
    value.set_metric(std::string(MetricNames()[metric]));
    value.set_value(static_cast<double>(metric));
  }
  row.add_metrics()->set_metric("of a later version");
  StoredRow stored;
  ASSERT_TRUE(stored.Parse(row.SerializeAsString()));
  RowMetrics expected;
  for (const size_t metric : {size_t{7}, size_t{1}, size_t{8}}) {
    expected[metric] = static_cast<double>(metric);
  }
  EXPECT_EQ(stored.metrics(), expected);
  EXPECT_EQ(RowFrom(stored.Serialize()).metrics_size(), 4);
  // Names that are not known are not kept among metrics that were replaced.
  stored.SetMetrics(expected);
  EXPECT_EQ(RowFrom(stored.Serialize()).metrics_size(), 3);
  expected[7].reset();
  stored.SetMetrics(expected);
  ASSERT_TRUE(stored.Parse(stored.Serialize()));
  EXPECT_EQ(stored.metrics(), expected);
  stored.SetMetrics({});
  EXPECT_FALSE(stored.has_metrics());
}

TEST(StoredRowTest, EncodedMetricsAreThoseOfProtobuf) {
  const RowMetrics metrics = SomeMetrics();
  v1::ComparisonRow expected;
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (!metrics[i].has_value()) continue;
    v1::MetricValue& value = *expected.add_metrics();
    value.set_metric(std::string(MetricNames()[i]));
    value.set_value(*metrics[i]);
  }
  const std::string bytes = EncodeMetrics(metrics);
  EXPECT_EQ(bytes, expected.SerializeAsString());
  StoredRow stored;
  ASSERT_TRUE(stored.Parse(bytes));
  EXPECT_EQ(EncodeMetrics(stored.metrics()), bytes);
  EXPECT_TRUE(std::signbit(*stored.metrics()[3]));
  EXPECT_EQ(EncodeMetrics({}), "");
}

// Expects that the bytes are a row if protobuf can parse them, and the same
// row after they were parsed and written.
void ExpectAsParsed(const std::string& bytes, StoredRow& stored) {
  v1::ComparisonRow expected;
  const bool is_row = expected.ParseFromString(bytes);
  const bool was_parsed = stored.Parse(bytes);
  if (!was_parsed) return;
  ASSERT_TRUE(is_row);
  v1::ComparisonRow actual;
  ASSERT_TRUE(actual.ParseFromString(stored.Serialize()));
  EXPECT_EQ(actual.SerializeAsString(), expected.SerializeAsString());
}

TEST(StoredRowTest, DamagedBytesAreRefused) {
  // Protobuf reports each text that is not UTF-8.
  const google::protobuf::LogSilencer silence;
  StoredRow stored;
  const std::string bytes = FullRow().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectAsParsed(bytes.substr(0, size), stored);
  }
  std::mt19937 random(7);
  int parsed = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string damaged = bytes;
    for (int flips = 0; flips < 3; ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    ExpectAsParsed(damaged, stored);
    parsed += stored.Parse(damaged) ? 1 : 0;
  }
  EXPECT_GT(parsed, 1000);
  // A group, a field with the number 0, a side that is cut off, and a tag that
  // is cut off.
  for (const char* const text : {"\x0b", "\x01\x01", "\x4a\x05", "\xff"}) {
    EXPECT_FALSE(stored.Parse(text)) << text;
  }
}

TEST(StoredRowTest, MetricsAndLengthsThatProtobufRefusesAreRefused) {
  const google::protobuf::LogSilencer silence;
  StoredRow stored;
  // A value that is cut off, and a value whose tag, or a side whose length, has
  // more than 5 bytes.
  const std::string_view padded = "\x84\x80\x80\x80\x80\x00";
  const std::string rows[] = {
      "\x7a\x06\x0a\x03nl2\x11",
      "\x7a\x13\x0a\x03nl2\x91\x80\x80\x80\x80" + std::string(9, '\0'),
      "\x4a" + std::string(padded.data(), 6) + "\x0a\x02" + "ab",
  };
  for (const std::string& bytes : rows) {
    EXPECT_FALSE(v1::ComparisonRow().ParseFromString(bytes));
    EXPECT_FALSE(stored.Parse(bytes));
  }
  // The same without the padding.
  EXPECT_TRUE(stored.Parse(std::string("\x7a\x0e\x0a\x03nl2\x11", 8) +
                           std::string(8, '\0')));
  EXPECT_TRUE(
      stored.Parse("\x4a\x04\x0a\x02"
                   "ab"));
}

}  // namespace
}  // namespace msitd::compare
