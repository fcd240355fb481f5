// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/libmsit/core/client.h"
#include "protos/base/limits.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

// Tests of tensors whose bytes are read from a source, and of marks.
namespace msitd::libmsit {
namespace {

// Returns bytes that depend on their offset, up to `fails_at`.
class CountingSource final : public TensorSource {
 public:
  explicit CountingSource(uint64_t fails_at) : fails_at_(fails_at) {}

  bool Read(std::span<std::byte> out) override {
    EXPECT_FALSE(has_failed_);
    has_failed_ = at_ + out.size() > fails_at_;
    if (has_failed_) return false;
    for (std::byte& one : out) one = ByteAt(at_++);
    return true;
  }
  std::span<std::byte> scratch() override { return scratch_; }

  static std::byte ByteAt(uint64_t at) {
    return static_cast<std::byte>(at % 251);
  }

 private:
  const uint64_t fails_at_;
  uint64_t at_ = 0;
  bool has_failed_ = false;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(kPartBytes);
};

class ClientSourceTest : public ClientTest {
 protected:
  Status RecordFrom(CountingSource& source, uint64_t bytes) {
    const int64_t dims[] = {static_cast<int64_t>(bytes)};
    TensorView tensor;
    tensor.token = 0;
    tensor.op = "op";
    tensor.call = 0;
    tensor.io = Io::kOutput;
    tensor.dtype = DType::kUint8;
    tensor.dims = dims;
    tensor.source = &source;
    return client_->Record(tensor);
  }

  static constexpr uint64_t kNever = ~uint64_t{0};
};

TEST_F(ClientSourceTest, BytesOfASourceArriveInTheirPlaces) {
  ASSERT_TRUE(Open().ok());
  const uint64_t sizes[] = {0, 1, kPartBytes, 2 * kPartBytes + 5};
  for (const uint64_t size : sizes) {
    CountingSource source(size);
    ASSERT_TRUE(RecordFrom(source, size).ok()) << size;
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 6u);
  for (const Arrived& part : arrived) {
    for (size_t i = 0; i < part.bytes.size(); ++i) {
      ASSERT_EQ(part.bytes[i], CountingSource::ByteAt(part.part_offset + i));
    }
  }
  EXPECT_EQ(arrived[5].part_offset, 2 * kPartBytes);
  EXPECT_EQ(arrived[5].bytes.size(), 5u);
  EXPECT_EQ(client_->counters().acknowledged_count, 4u);
}

TEST_F(ClientSourceTest, RecordWhoseSourceFailsAtOnceCountsNowhere) {
  ASSERT_TRUE(Open().ok());
  CountingSource source(9);
  EXPECT_EQ(RecordFrom(source, 10).code, MSIT_ERROR_DROPPED);
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_TRUE(Arrivals().empty());
  EXPECT_EQ(client_->counters().recorded_count, 0u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(ClientSourceTest, TensorWhoseSourceFailsNeverBecomesWhole) {
  ASSERT_TRUE(Open().ok());
  const uint64_t bytes = 3 * kPartBytes;
  for (const uint64_t fails_at :
       {kPartBytes - 1, 2 * kPartBytes - 1, bytes - 1}) {
    CountingSource source(fails_at);
    EXPECT_EQ(RecordFrom(source, bytes).code, MSIT_ERROR_DROPPED);
  }
  CountingSource whole(kNever);
  ASSERT_TRUE(RecordFrom(whole, bytes).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  size_t last_part_count = 0;
  for (const Arrived& part : Arrivals()) {
    last_part_count += part.part_offset + part.bytes.size() == bytes ? 1 : 0;
  }
  EXPECT_EQ(last_part_count, 1u);
  EXPECT_EQ(client_->counters().truncated_count, 3u);
  EXPECT_EQ(client_->counters().acknowledged_count, 1u);
}

TEST_F(ClientSourceTest, OnlyTensorsInRowMajorOrderHaveASource) {
  ASSERT_TRUE(Open().ok());
  CountingSource source(kNever);
  const int64_t one[] = {1};
  TensorView strided;
  strided.op = "op";
  strided.io = Io::kOutput;
  strided.dtype = DType::kUint8;
  strided.dims = one;
  strided.source = &source;
  ASSERT_TRUE(client_->Record(strided).ok());
  strided.byte_strides = one;
  EXPECT_EQ(client_->Record(strided).code, MSIT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ClientSourceTest, MarkIsDeliveredOnceAllBeforeItIsAcknowledged) {
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  const uint64_t empty = client_->Mark();
  EXPECT_TRUE(client_->HasDelivered(empty));
  ASSERT_TRUE(Record("before", 10).ok());
  const uint64_t mark = client_->Mark();
  EXPECT_FALSE(client_->HasDelivered(mark));
  ASSERT_TRUE(Record("behind", 10).ok());
  ASSERT_TRUE(daemon_.WaitForChunks(1));
  daemon_.Commit(1);
  while (client_->counters().acknowledged_count < 1) std::this_thread::yield();
  EXPECT_TRUE(client_->HasDelivered(mark));
  EXPECT_FALSE(client_->HasDelivered(client_->Mark()));
  daemon_.CommitAll();
}

}  // namespace
}  // namespace msitd::libmsit
