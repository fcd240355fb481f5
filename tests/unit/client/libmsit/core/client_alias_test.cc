// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/libmsit/core/client.h"
#include "protos/base/limits.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

// Records whose bytes the client has already sent.
namespace msitd::libmsit {
namespace {

class ClientAliasTest : public ClientTest {
 protected:
  // Records `bytes` as the output of `op`, or no bytes if `has_data` is false.
  Status RecordKnown(const std::string& op, uint64_t identity, size_t count = 8,
                     bool has_data = true, int64_t token = 0) {
    data_.resize(count, std::byte{1});
    const int64_t dims[] = {static_cast<int64_t>(count)};
    TensorView tensor;
    tensor.token = token;
    tensor.op = op;
    tensor.io = Io::kOutput;
    tensor.index = "0";
    tensor.dtype = DType::kUint8;
    tensor.dims = dims;
    tensor.data = has_data ? data_.data() : nullptr;
    tensor.identity = identity;
    return client_->Record(tensor);
  }

  // Returns a view of one double that always has the same identity.
  static TensorView Scalar(std::string_view op, RecordKind kind) {
    static constexpr double kNumber = 2;
    TensorView out;
    out.op = op;
    out.io = Io::kOutput;
    out.index = "0";
    out.dtype = DType::kFloat64;
    out.data = reinterpret_cast<const std::byte*>(&kNumber);
    out.kind = kind;
    out.identity = 5;
    return out;
  }

  void SetRules(std::vector<capture::Rule> rules) {
    daemon_.SetPolicy(capture::Encode(
        {{.revision = 1, .first_token = 0, .rules = std::move(rules)}}));
  }

  static capture::Rule RuleOf(capture::Level level, const std::string& op) {
    return {.level = level, .tensors = {.op_patterns = {op}}};
  }

  // Returns the originals of the aliases that have arrived, by op.
  std::map<std::string, std::string> AliasesByOp() {
    EXPECT_TRUE(client_->Flush(kLong).ok());
    std::map<std::string, std::string> aliases;
    for (const Arrived& record : Arrivals()) {
      aliases[record.key.op] = record.alias_of;
    }
    return aliases;
  }

  using Aliases = std::map<std::string, std::string>;

 private:
  std::vector<std::byte> data_;
};

TEST_F(ClientAliasTest, KnownBytesAreNotSentAgain) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(RecordKnown("a", 5).ok());
  ASSERT_TRUE(RecordKnown("b", 5).ok());
  ASSERT_TRUE(RecordKnown("c", 6).ok());
  ASSERT_TRUE(RecordKnown("b", 5).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 4u);
  EXPECT_EQ(arrived[0].alias_of, "");
  EXPECT_EQ(arrived[1].alias_of, "a|0|output|0");
  EXPECT_TRUE(arrived[1].bytes.empty());
  EXPECT_EQ(arrived[1].tensor_bytes, 8u);
  EXPECT_EQ(arrived[1].dims, std::vector<int64_t>{8});
  EXPECT_GT(arrived[1].sequence, arrived[0].sequence);
  EXPECT_EQ(arrived[2].alias_of, "");
  EXPECT_EQ(arrived[3].alias_of, "a|0|output|0");
  EXPECT_EQ(arrived[3].key.call, 1);
  const ClientCounters counters = client_->counters();
  EXPECT_EQ(counters.recorded_count, 4u);
  EXPECT_EQ(counters.recorded_bytes, 16u);
  EXPECT_EQ(counters.acknowledged_count, 4u);
  EXPECT_EQ(counters.acknowledged_bytes, 16u);
  EXPECT_EQ(counters.aliased_count, 2u);
  EXPECT_EQ(counters.aliased_bytes, 16u);
}

TEST_F(ClientAliasTest, AliasOfALargeTensorHasAsManyParts) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(RecordKnown("a", 5, 2 * kPartBytes + 1).ok());
  ASSERT_TRUE(RecordKnown("b", 5, 2 * kPartBytes + 1).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    const Arrived& part = arrived[3 + i];
    EXPECT_EQ(part.alias_of, "a|0|output|0");
    EXPECT_EQ(part.part_offset, i * kPartBytes);
    EXPECT_EQ(part.tensor_bytes, 2 * kPartBytes + 1);
    EXPECT_TRUE(part.bytes.empty());
  }
  EXPECT_EQ(client_->counters().acknowledged_count, 2u);
  EXPECT_EQ(client_->counters().acknowledged_bytes, 2 * kPartBytes + 1);
}

TEST_F(ClientAliasTest, UnknownIdentityWithoutBytesIsNoRecord) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(RecordKnown("a", 5, 8, /*has_data=*/false).code,
            MSIT_ERROR_UNKNOWN_IDENTITY);
  EXPECT_EQ(RecordKnown("a", 0, 8, /*has_data=*/false).code,
            MSIT_ERROR_INVALID_ARGUMENT);
  ASSERT_TRUE(RecordKnown("a", 5).ok());
  ASSERT_TRUE(RecordKnown("a", 5, 8, /*has_data=*/false).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 2u);
  // The failed call did not use up a call number.
  EXPECT_EQ(arrived[0].key.call, 0);
  EXPECT_EQ(arrived[1].key.call, 1);
  EXPECT_EQ(arrived[1].alias_of, "a|0|output|0");
  EXPECT_EQ(client_->counters().recorded_count, 2u);
  EXPECT_EQ(client_->counters().invalid_count, 1u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(ClientAliasTest, ARecordIsNoAliasOfItself) {
  ASSERT_TRUE(Open().ok());
  TensorView tensor = Scalar("a", RecordKind::kTensor);
  tensor.call = 0;
  ASSERT_TRUE(client_->Record(tensor).ok());
  // This record gets call number 0, because records with an explicit call
  // number are not counted.
  tensor.call = MSIT_CALL_AUTO;
  ASSERT_TRUE(client_->Record(tensor).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[1].key.call, 0);
  EXPECT_EQ(arrived[1].alias_of, "");
}

TEST_F(ClientAliasTest, OnlyTensorsAreOriginals) {
  ASSERT_TRUE(Open().ok());
  TensorView number = Scalar("a", RecordKind::kNumber);
  number.value = "2.0";
  ASSERT_TRUE(client_->Record(number).ok());
  ASSERT_TRUE(client_->Record(Scalar("b", RecordKind::kTensor)).ok());
  EXPECT_EQ(AliasesByOp(), (Aliases{{"a", ""}, {"b", ""}}));
}

TEST_F(ClientAliasTest, EmptyTensorsAndOtherTokensAreNoOriginals) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(RecordKnown("empty", 4, 0).ok());
  ASSERT_TRUE(RecordKnown("empty again", 4, 0).ok());
  ASSERT_TRUE(RecordKnown("a", 5).ok());
  ASSERT_TRUE(RecordKnown("next token", 5, 8, true, /*token=*/1).ok());
  EXPECT_EQ(
      AliasesByOp(),
      (Aliases{
          {"empty", ""}, {"empty again", ""}, {"a", ""}, {"next token", ""}}));
}

TEST_F(ClientAliasTest, AliasIsKeptLikeItsOriginal) {
  using capture::Level;
  SetRules({RuleOf(Level::kSummary, "summary*"), RuleOf(Level::kOff, "off"),
            RuleOf(Level::kFull, "*")});
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(RecordKnown("off", 5).ok());
  ASSERT_TRUE(RecordKnown("summary", 5).ok());
  // These records request more than was kept of the original.
  ASSERT_TRUE(RecordKnown("full", 5).ok());
  ASSERT_TRUE(RecordKnown("summary 2", 5).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  std::map<std::string, Arrived> by_op;
  for (const Arrived& record : Arrivals()) by_op[record.key.op] = record;
  ASSERT_EQ(by_op.size(), 3u);
  EXPECT_EQ(by_op["summary"].kept, chunk::Kept::kNothing);
  EXPECT_EQ(by_op["full"].alias_of, "");
  EXPECT_EQ(by_op["full"].kept, chunk::Kept::kAll);
  EXPECT_EQ(by_op["summary 2"].alias_of, "full|0|output|0");
  EXPECT_EQ(by_op["summary 2"].kept, chunk::Kept::kAll);
}

TEST_F(ClientAliasTest, MemoryThatIsShortDoesNotDegradeAnAlias) {
  options_.overflow = OverflowMode::kDegrade;
  options_.buffer_bytes = 4 * kSlotBytes;
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(RecordKnown("a", 5).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Record("fill", kPartBytes).ok());
  ASSERT_TRUE(RecordKnown("b", 5).ok());
  ASSERT_TRUE(RecordKnown("c", 6).ok());
  ASSERT_TRUE(RecordKnown("d", 6).ok());
  daemon_.CommitAll();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  std::map<std::string, Arrived> by_op;
  for (const Arrived& record : Arrivals()) by_op[record.key.op] = record;
  EXPECT_EQ(by_op["b"].alias_of, "a|0|output|0");
  EXPECT_EQ(by_op["b"].kept, chunk::Kept::kAll);
  EXPECT_EQ(by_op["c"].alias_of, "");
  EXPECT_EQ(by_op["c"].kept, chunk::Kept::kNothing);
  EXPECT_EQ(by_op["d"].alias_of, "c|0|output|0");
  EXPECT_EQ(by_op["d"].kept, chunk::Kept::kNothing);
}

TEST_F(ClientAliasTest, DroppedChunkHasNoOriginals) {
  ASSERT_TRUE(Open().ok());
  daemon_.RefuseNextChunk();
  ASSERT_TRUE(RecordKnown("refused", 5).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  ASSERT_EQ(client_->counters().dropped_count, 1u);
  ASSERT_TRUE(RecordKnown("a", 5).ok());
  ASSERT_TRUE(RecordKnown("b", 5).ok());
  EXPECT_EQ(AliasesByOp(), (Aliases{{"a", ""}, {"b", "a|0|output|0"}}));
}

TEST_F(ClientAliasTest, ThereAreNoAliasesAfterAConflict) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(RecordKnown("a", 5).ok());
  daemon_.TellConflicts(1);
  while (client_->counters().conflict_count == 0) std::this_thread::yield();
  ASSERT_TRUE(RecordKnown("b", 5).ok());
  EXPECT_EQ(AliasesByOp(), (Aliases{{"a", ""}, {"b", ""}}));
}

}  // namespace
}  // namespace msitd::libmsit
