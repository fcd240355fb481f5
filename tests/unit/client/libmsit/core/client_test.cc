// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/client.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "tests/unit/client/libmsit/core/client_fixture.h"

namespace msitd::libmsit {
namespace {

TEST_F(ClientTest, RecordArrivesAsItWasGiven) {
  ASSERT_TRUE(Open().ok());
  const std::vector<float> data = {1, 2, 3, 4, 5, 6};
  const int64_t dims[] = {2, 3};
  TensorView tensor;
  tensor.device = "npu:3";
  tensor.token = 7;
  tensor.op = "modèle/with blank";
  tensor.call = 9;
  tensor.io = Io::kGradInput;
  tensor.index = "1.0";
  tensor.dtype = DType::kFloat32;
  tensor.dims = dims;
  tensor.data = reinterpret_cast<const std::byte*>(data.data());
  ASSERT_TRUE(client_->Record(tensor).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());

  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].key, (TensorKey{.run = "run",
                                       .rank = 1,
                                       .device = "npu:3",
                                       .token = 7,
                                       .op = "modèle/with blank",
                                       .call = 9,
                                       .io = Io::kGradInput,
                                       .index = "1.0"}));
  EXPECT_EQ(arrived[0].dtype, DType::kFloat32);
  EXPECT_EQ(arrived[0].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(
      std::memcmp(arrived[0].bytes.data(), data.data(), sizeof(float) * 6), 0);
}

TEST_F(ClientTest, ScalarsAndEmptyTensorsArrive) {
  ASSERT_TRUE(Open().ok());
  const double value = 2.5;
  TensorView scalar;
  scalar.op = "scalar";
  scalar.io = Io::kOutput;
  scalar.dtype = DType::kFloat64;
  scalar.data = reinterpret_cast<const std::byte*>(&value);
  ASSERT_TRUE(client_->Record(scalar).ok());
  const int64_t dims[] = {4, 0, 3};
  TensorView empty;
  empty.op = "empty";
  empty.io = Io::kOutput;
  empty.dtype = DType::kBfloat16;
  empty.dims = dims;
  ASSERT_TRUE(client_->Record(empty).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(arrived[0].bytes.size(), 8u);
  EXPECT_TRUE(arrived[0].dims.empty());
  EXPECT_EQ(arrived[1].dims, (std::vector<int64_t>{4, 0, 3}));
  EXPECT_TRUE(arrived[1].bytes.empty());
  EXPECT_EQ(client_->counters().acknowledged_count, 2u);
}

TEST_F(ClientTest, PlacementsArriveInEveryPart) {
  ASSERT_TRUE(Open().ok());
  const std::vector<std::byte> data(kPartBytes + 8);
  const int64_t dims[] = {kPartBytes + 8};
  TensorView tensor;
  tensor.op = "op";
  tensor.io = Io::kOutput;
  tensor.dtype = DType::kUint8;
  tensor.dims = dims;
  tensor.data = data.data();
  tensor.placement = "0+2x4/4x1:R,S(0)";
  ASSERT_TRUE(client_->Record(tensor).ok());
  tensor.placement = "0+2/1:S(-1)";
  const Status refused = client_->Record(tensor);
  EXPECT_EQ(refused.code, MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(refused.message.find("placement"), std::string::npos);
  ASSERT_TRUE(client_->Flush(kLong).ok());
  size_t part_count = 0;
  for (const FakeDaemon::Bytes& bytes : daemon_.chunks()) {
    const auto chunk = chunk::Chunk::FromProducer(bytes);
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    for (const chunk::RecordDescriptor& record : chunk->records()) {
      EXPECT_EQ(chunk->Text(record.placement), "0+2x4/4x1:R,S(0)");
      ++part_count;
    }
  }
  EXPECT_EQ(part_count, 2u);
}

TEST_F(ClientTest, LargeTensorIsCutIntoCanonicalParts) {
  ASSERT_TRUE(Open().ok());
  std::vector<uint32_t> data(kPartBytes / 4 * 2 + 5);
  std::iota(data.begin(), data.end(), 0u);
  const int64_t dims[] = {static_cast<int64_t>(data.size())};
  TensorView tensor;
  tensor.op = "large";
  tensor.io = Io::kOutput;
  tensor.dtype = DType::kUint32;
  tensor.dims = dims;
  tensor.data = reinterpret_cast<const std::byte*>(data.data());
  ASSERT_TRUE(Record("before", 10).ok());
  ASSERT_TRUE(client_->Record(tensor).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());

  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 4u);
  std::vector<std::byte> whole;
  for (size_t part = 0; part < 3; ++part) {
    EXPECT_EQ(arrived[part + 1].part_offset, part * kPartBytes);
    EXPECT_EQ(arrived[part + 1].sequence, arrived[1].sequence);
    whole.insert(whole.end(), arrived[part + 1].bytes.begin(),
                 arrived[part + 1].bytes.end());
  }
  ASSERT_EQ(whole.size(), data.size() * 4);
  EXPECT_EQ(std::memcmp(whole.data(), data.data(), whole.size()), 0);
  EXPECT_EQ(client_->counters().acknowledged_count, 2u);
  EXPECT_EQ(client_->counters().acknowledged_bytes, 10 + whole.size());
}

TEST_F(ClientTest, StridedViewOfSeveralPartsArrivesRowMajor) {
  ASSERT_TRUE(Open().ok());
  constexpr int64_t kRows = 1500;
  constexpr int64_t kColumns = 1001;
  std::vector<uint32_t> data(kRows * kColumns);
  std::iota(data.begin(), data.end(), 0u);
  const int64_t dims[] = {kColumns, kRows};
  const int64_t strides[] = {4, kColumns * 4};
  TensorView tensor;
  tensor.op = "transposed";
  tensor.io = Io::kOutput;
  tensor.dtype = DType::kUint32;
  tensor.dims = dims;
  tensor.byte_strides = strides;
  tensor.data = reinterpret_cast<const std::byte*>(data.data());
  ASSERT_TRUE(client_->Record(tensor).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  std::vector<uint32_t> whole(data.size());
  for (const Arrived& part : Arrivals()) {
    std::memcpy(reinterpret_cast<std::byte*>(whole.data()) + part.part_offset,
                part.bytes.data(), part.bytes.size());
  }
  for (int64_t column = 0; column < kColumns; ++column) {
    for (int64_t row = 0; row < kRows; ++row) {
      ASSERT_EQ(whole[column * kRows + row], data[row * kColumns + column]);
    }
  }
}

TEST_F(ClientTest, SmallRecordsShareAChunk) {
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Record("op", 1000, i).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(daemon_.chunks().size(), 1u);
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(arrived[i].key.call, i);
    EXPECT_EQ(arrived[i].bytes[999], static_cast<std::byte>(i));
  }
}

TEST_F(ClientTest, MoreRecordsThanOneChunkHoldsKeepTheirOrder) {
  ASSERT_TRUE(Open().ok());
  const int count = static_cast<int>(kChunkRecordsMax) + 10;
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(Record("op" + std::to_string(i), 1).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(arrived[i].key.op, "op" + std::to_string(i));
    EXPECT_EQ(arrived[i].sequence, static_cast<uint64_t>(i));
  }
}

TEST_F(ClientTest, PartFilledChunkIsSentAfterTheLinger) {
  options_.linger = milliseconds(1);
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  EXPECT_TRUE(daemon_.WaitForChunks(1));
}

TEST_F(ClientTest, PartFilledChunksGatherWhileHalfTheMemoryWaits) {
  options_.linger = milliseconds(1);
  options_.buffer_bytes = 4 * kSlotBytes;
  daemon_.StopAcknowledging();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  ASSERT_TRUE(daemon_.WaitForChunks(1));
  ASSERT_TRUE(Record("op", 10).ok());
  ASSERT_TRUE(daemon_.WaitForChunks(2));
  // Two of four slots are waiting. The third record opens the third slot.
  ASSERT_TRUE(Record("op", 10).ok());
  std::this_thread::yield();
  ASSERT_TRUE(Record("op", 10).ok());
  EXPECT_EQ(daemon_.chunks().size(), 2u);
  daemon_.Commit(2);
  ASSERT_TRUE(daemon_.WaitForChunks(3));
  EXPECT_EQ(Arrivals().size(), 4u);
  daemon_.CommitAll();
}

TEST_F(ClientTest, OverwritingAfterRecordDoesNotAlterTheRecord) {
  ASSERT_TRUE(Open().ok());
  std::vector<std::byte> data(100'000, std::byte{1});
  const int64_t dims[] = {100'000};
  TensorView tensor;
  tensor.op = "op";
  tensor.io = Io::kOutput;
  tensor.dtype = DType::kUint8;
  tensor.dims = dims;
  tensor.data = data.data();
  ASSERT_TRUE(client_->Record(tensor).ok());
  std::fill(data.begin(), data.end(), std::byte{2});
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  EXPECT_EQ(std::count(arrived[0].bytes.begin(), arrived[0].bytes.end(),
                       std::byte{1}),
            100'000);
}

TEST_F(ClientTest, AutomaticCallPairsSidesAndIndices) {
  ASSERT_TRUE(Open().ok());
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(Record("op", 1, 0, "0").ok());
    ASSERT_TRUE(Record("op", 1, 0, "1").ok());
  }
  client_->NextToken();
  ASSERT_TRUE(Record("op", 1, 0, "0").ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  std::vector<std::pair<int64_t, int32_t>> calls;
  for (const Arrived& record : Arrivals()) {
    calls.emplace_back(record.key.token, record.key.call);
  }
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, int32_t>>{
                       {0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 0}}));
}

TEST_F(ClientTest, BeginCallNumbersTheCallsOfAnOp) {
  ASSERT_TRUE(Open().ok());
  int32_t call = -1;
  ASSERT_TRUE(client_->BeginCall(MSIT_TOKEN_CURRENT, "op", &call).ok());
  EXPECT_EQ(call, 0);
  ASSERT_TRUE(client_->BeginCall(0, "op", &call).ok());
  EXPECT_EQ(call, 1);
  ASSERT_TRUE(client_->BeginCall(1, "op", &call).ok());
  EXPECT_EQ(call, 0);
  EXPECT_EQ(client_->BeginCall(-2, "op", &call).code,
            MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(client_->BeginCall(0, "", &call).code, MSIT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ClientTest, BadRecordsAreRefusedAndCounted) {
  ASSERT_TRUE(Open().ok());
  const std::byte data[8] = {};
  const int64_t dims[] = {8};
  TensorView good;
  good.op = "op";
  good.io = Io::kOutput;
  good.dtype = DType::kUint8;
  good.dims = dims;
  good.data = data;
  ASSERT_TRUE(client_->Record(good).ok());

  std::vector<TensorView> bad(12, good);
  const std::string long_op(kOpBytesMax + 1, 'x');
  const std::string long_index(kIndexBytesMax + 1, 'x');
  const int64_t negative[] = {-1};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  const std::vector<int64_t> many(kDimsMax + 1, 1);
  bad[0].op = "";
  bad[1].op = long_op;
  bad[2].op = std::string_view("a\0b", 3);
  bad[3].op = "\xff";
  bad[4].index = long_index;
  bad[5].token = kTokenMax + 1;
  bad[6].call = -2;
  bad[7].io = static_cast<Io>(99);
  bad[8].dtype = static_cast<DType>(99);
  bad[9].dims = negative;
  bad[10].dims = huge;
  bad[11].dims = many;
  for (size_t i = 0; i < bad.size(); ++i) {
    const Status status = client_->Record(bad[i]);
    EXPECT_EQ(status.code, MSIT_ERROR_INVALID_ARGUMENT) << i;
    EXPECT_FALSE(status.message.empty()) << i;
  }
  TensorView null_data = good;
  null_data.data = nullptr;
  EXPECT_EQ(client_->Record(null_data).code, MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(client_->counters().invalid_count, bad.size() + 1);
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Arrivals().size(), 1u);
}

TEST_F(ClientTest, BadOptionsAreRefused) {
  const auto refused = [&](auto change) {
    ClientOptions options = options_;
    change(options);
    return Client::Open(options, daemon_.MakeTransport(), &client_).code ==
           MSIT_ERROR_INVALID_ARGUMENT;
  };
  EXPECT_TRUE(refused([](ClientOptions& o) { o.run = ""; }));
  EXPECT_TRUE(refused(
      [](ClientOptions& o) { o.run.assign(kRunNameBytesMax + 1, 'r'); }));
  EXPECT_TRUE(refused([](ClientOptions& o) { o.rank = 2; }));
  EXPECT_TRUE(refused([](ClientOptions& o) { o.rank = -1; }));
  EXPECT_TRUE(refused([](ClientOptions& o) { o.world_size = 0; }));
  EXPECT_TRUE(refused([](ClientOptions& o) { o.device = ""; }));
  EXPECT_TRUE(
      refused([](ClientOptions& o) { o.max_block = microseconds(-1); }));
}

TEST_F(ClientTest, ThreadsRecordAtTheSameTime) {
  options_.buffer_bytes = 3 * kSlotBytes;
  options_.linger = milliseconds(0);
  ASSERT_TRUE(Open().ok());
  constexpr int kThreads = 4;
  constexpr int kRecords = 30;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kRecords; ++i) {
        // Every tenth record needs two parts.
        const size_t bytes = i % 10 == 0 ? kPartBytes + 100 : 5000;
        ASSERT_TRUE(Record("thread" + std::to_string(t), bytes, t + 1).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().acknowledged_count,
            uint64_t{kThreads * kRecords});
  EXPECT_EQ(client_->counters().dropped_count, 0u);
  std::map<std::string, int32_t> next_call;
  for (const Arrived& record : Arrivals()) {
    const auto value = static_cast<std::byte>(record.key.op.back() - '0' + 1);
    EXPECT_EQ(std::count(record.bytes.begin(), record.bytes.end(), value),
              static_cast<std::ptrdiff_t>(record.bytes.size()));
    if (record.part_offset == 0) {
      EXPECT_EQ(record.key.call, next_call[record.key.op]++);
    }
  }
}

TEST_F(ClientTest, CloseDeliversAndFinishesTheStream) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  EXPECT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(Arrivals().size(), 1u);
  EXPECT_TRUE(daemon_.was_finished());
  EXPECT_EQ(Record("op", 10).code, MSIT_ERROR_CLOSED);
  EXPECT_EQ(client_->Flush(kLong).code, MSIT_ERROR_CLOSED);
  EXPECT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(client_->counters().dropped_count, 1u);
}

TEST_F(ClientTest, ForkedChildIsOffAndCounts) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("parent", 10).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    // A forked child may not use locks, threads or test assertions.
    const bool is_off = Record("child", 10).code == MSIT_ERROR_FORKED &&
                        client_->Flush(kLong).code == MSIT_ERROR_FORKED &&
                        client_->Close(kLong).code == MSIT_ERROR_FORKED &&
                        client_->counters().dropped_count == 1;
    ::_exit(is_off ? 0 : 1);
  }
  int wait_status = -1;
  ASSERT_EQ(::waitpid(child, &wait_status, 0), child);
  EXPECT_EQ(wait_status, 0);
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = Arrivals();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].key.op, "parent");
}

}  // namespace
}  // namespace msitd::libmsit
