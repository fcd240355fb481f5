// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "client/libmsit/core/client.h"
#include "protos/base/limits.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

// Tests of values, documents, and other facts that a record contains in
// addition to its bytes.
namespace msitd::libmsit {
namespace {

class ClientValueTest : public ClientTest {
 protected:
  static TensorView Value(RecordKind kind, std::string_view text) {
    TensorView value;
    value.op = "op";
    value.io = Io::kInput;
    value.index = "0";
    value.kind = kind;
    value.value = text;
    return value;
  }

  static TensorView Document(const std::string& text, const int64_t& bytes) {
    TensorView document;
    document.token = 0;
    document.op = "tree.json";
    document.index = "ignored";
    document.kind = RecordKind::kDocument;
    document.dims = {&bytes, 1};
    document.data = reinterpret_cast<const std::byte*>(text.data());
    return document;
  }

  static TensorView Statistics(std::string_view text) {
    static constexpr int64_t kDims[] = {2, 3};
    TensorView statistics = Value(RecordKind::kStatistics, text);
    statistics.dtype = DType::kBfloat16;
    statistics.dims = kDims;
    return statistics;
  }

  void SetLevel(capture::Level level) {
    daemon_.SetPolicy(
        capture::Encode({{.revision = 1,
                          .first_token = 0,
                          .rules = {{.level = level, .tensors = {}}}}}));
  }
};

TEST_F(ClientValueTest, NumberHasBytesAndText) {
  ASSERT_TRUE(Open().ok());
  const int64_t number = -7;
  TensorView value = Value(RecordKind::kNumber, "-7");
  value.dtype = DType::kInt64;
  value.data = reinterpret_cast<const std::byte*>(&number);
  ASSERT_TRUE(client_->Record(value).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].kind, RecordKind::kNumber);
  EXPECT_EQ(arrived[0].value, "-7");
  EXPECT_TRUE(arrived[0].dims.empty());
  ASSERT_EQ(arrived[0].bytes.size(), 8u);
  EXPECT_EQ(std::memcmp(arrived[0].bytes.data(), &number, 8), 0);
  EXPECT_EQ(client_->counters().acknowledged_count, 1u);
  EXPECT_EQ(client_->counters().acknowledged_bytes, 8u);
}

TEST_F(ClientValueTest, TextsAreTextOnly) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(client_->Record(Value(RecordKind::kText, "")).ok());
  ASSERT_TRUE(client_->Record(Value(RecordKind::kNone, "None")).ok());
  TensorView dtype = Value(RecordKind::kDType, "torch.float32");
  // Fields that the kind of the record determines are ignored.
  const int64_t dims[] = {-1};
  dtype.dims = dims;
  dtype.dtype = DType::kFloat32;
  ASSERT_TRUE(client_->Record(dtype).ok());
  const std::string long_text(5000, 'x');
  ASSERT_TRUE(client_->Record(Value(RecordKind::kOther, long_text)).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 4u);
  for (const Arrived& record : arrived) {
    EXPECT_EQ(record.dtype, DType::kUint8);
    EXPECT_EQ(record.dims, std::vector<int64_t>{0});
    EXPECT_TRUE(record.bytes.empty());
  }
  EXPECT_EQ(arrived[0].value, "");
  EXPECT_EQ(arrived[1].value, "None");
  EXPECT_EQ(arrived[2].kind, RecordKind::kDType);
  EXPECT_EQ(arrived[2].value, "torch.float32");
  EXPECT_EQ(arrived[3].value->size(), kValueBytesMax);
  EXPECT_TRUE(
      arrived[3].value->ends_with("… (5000 bytes, hash 5d45fa080be4e345)"));
}

TEST_F(ClientValueTest, TensorKeepsItsFacts) {
  ASSERT_TRUE(Open().ok());
  const float data = 1;
  TensorView tensor;
  tensor.op = "op";
  tensor.io = Io::kOutput;
  tensor.dtype = DType::kFloat32;
  tensor.data = reinterpret_cast<const std::byte*>(&data);
  ASSERT_TRUE(client_->Record(tensor).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  tensor.requires_grad = false;
  ASSERT_TRUE(client_->Record(tensor).ok());
  tensor.requires_grad = true;
  tensor.stack = "model.py:7 forward\nmain.py:3 <module>";
  ASSERT_TRUE(client_->Record(tensor).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 3u);
  // Daemons that do not support these facts receive records without them.
  EXPECT_EQ(arrived[0].chunk_version, 1);
  EXPECT_EQ(arrived[0].requires_grad, std::nullopt);
  EXPECT_EQ(arrived[1].chunk_version, 2);
  EXPECT_EQ(arrived[1].requires_grad, false);
  EXPECT_EQ(arrived[1].stack, "");
  EXPECT_EQ(arrived[1].value, std::nullopt);
  EXPECT_EQ(arrived[2].requires_grad, true);
  EXPECT_EQ(arrived[2].stack, tensor.stack);
}

TEST_F(ClientValueTest, StatisticsHaveTypeShapeAndText) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(client_->Record(Statistics("{\"max\": 1.5}")).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].kind, RecordKind::kStatistics);
  EXPECT_EQ(arrived[0].value, "{\"max\": 1.5}");
  EXPECT_EQ(arrived[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(arrived[0].bytes.empty());
  EXPECT_EQ(client_->counters().acknowledged_count, 1u);
}

TEST_F(ClientValueTest, StatisticsThatTheDaemonDoesNotKnowAreLeftOut) {
  daemon_.SetChunkVersion(chunk::kExtrasVersion);
  ASSERT_TRUE(Open().ok());
  const Status status = client_->Record(Statistics("{}"));
  EXPECT_EQ(status.code, MSIT_ERROR_DROPPED);
  EXPECT_EQ(status.message,
            "the daemon is too old for records of kind statistics: it accepts "
            "chunks up to version 2");
  EXPECT_EQ(client_->stream_error(), status.message);
  // Records of other kinds are still sent.
  ASSERT_TRUE(client_->Record(Value(RecordKind::kText, "x")).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().dropped_count, 1u);
  EXPECT_EQ(client_->counters().acknowledged_count, 1u);
  EXPECT_EQ(client_->counters().refused_chunk_count, 0u);
}

TEST_F(ClientValueTest, ADaemonThatDoesNotSayKnowsNoStatistics) {
  daemon_.SetChunkVersion(0);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(client_->Record(Statistics("{}")).code, MSIT_ERROR_DROPPED);
  EXPECT_TRUE(client_->Record(Value(RecordKind::kText, "x")).ok());
}

TEST_F(ClientValueTest, ADaemonThatComesBackNewerTakesStatistics) {
  daemon_.SetChunkVersion(chunk::kExtrasVersion);
  ASSERT_TRUE(Open().ok());
  ASSERT_FALSE(client_->Record(Statistics("{}")).ok());
  daemon_.SetChunkVersion(chunk::kVersion);
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(daemon_.WaitForOpenings(2));
  // Flush returns after the new stream has accepted the value.
  ASSERT_TRUE(client_->Record(Value(RecordKind::kText, "x")).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_TRUE(client_->Record(Statistics("{}")).ok());
}

TEST_F(ClientValueTest, ValuesFollowTheRuleAndAreWholeAtAnyLevel) {
  SetLevel(capture::Level::kSummary);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(client_->Record(Value(RecordKind::kText, "kept")).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  ASSERT_EQ(Arrivals().size(), 1u);
  EXPECT_EQ(Arrivals()[0].value, "kept");
  EXPECT_EQ(Arrivals()[0].kept, chunk::Kept::kNothing);
}

TEST_F(ClientValueTest, DocumentsAreTakenWhateverThePolicySays) {
  SetLevel(capture::Level::kOff);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(client_->Record(Value(RecordKind::kText, "filtered")).ok());
  const std::string text = "{\"läuft\": " + std::string(kPartBytes, ' ') + "1}";
  const auto bytes = static_cast<int64_t>(text.size());
  ASSERT_TRUE(client_->Record(Document(text, bytes)).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().filtered_count, 1u);
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 2u);
  std::string received;
  for (const Arrived& part : arrived) {
    EXPECT_EQ(part.kind, RecordKind::kDocument);
    EXPECT_EQ(part.kept, chunk::Kept::kAll);
    EXPECT_EQ(part.key.op, "tree.json");
    EXPECT_EQ(part.key.io, Io::kState);
    EXPECT_EQ(part.key.index, "");
    received.append(reinterpret_cast<const char*>(part.bytes.data()),
                    part.bytes.size());
  }
  EXPECT_EQ(received, text);
}

TEST_F(ClientValueTest, WrongRecordsAreRefusedAndCounted) {
  ASSERT_TRUE(Open().ok());
  const double number = 1;
  const int64_t one = 1;
  std::vector<TensorView> wrong;
  wrong.push_back(Value(static_cast<RecordKind>(8), "x"));
  wrong.push_back(Value(RecordKind::kNone, ""));
  wrong.push_back(Value(RecordKind::kText, "\xff"));
  TensorView value = Value(RecordKind::kNumber, "1.0");
  value.data = reinterpret_cast<const std::byte*>(&number);
  value.dtype = DType::kFloat32;
  wrong.push_back(value);
  value.dtype = DType::kFloat64;
  value.dims = {&one, 1};
  wrong.push_back(value);
  value.kind = RecordKind::kTensor;
  wrong.push_back(value);
  value.value = {};
  value.stack = std::string_view("a\0b", 3);
  wrong.push_back(value);
  const std::string text = "\xff";
  wrong.push_back(Document(text, one));
  for (const char* statistics : {"", "1", "{\"max\"}", "{\"max\": null}"}) {
    wrong.push_back(Statistics(statistics));
  }
  const std::string too_long = "{" + std::string(kValueBytesMax, ' ') + "}";
  wrong.push_back(Statistics(too_long));
  wrong.push_back(Statistics("{}"));
  wrong.back().dtype = DType::kUnspecified;
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(client_->Record(wrong[i]).code, MSIT_ERROR_INVALID_ARGUMENT) << i;
  }
  EXPECT_EQ(client_->counters().invalid_count, wrong.size());
  value.stack = {};
  EXPECT_TRUE(client_->Record(value).ok());
}

}  // namespace
}  // namespace msitd::libmsit
