// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/libmsit/core/client.h"
#include "protos/chunk/chunk.h"
#include "tests/unit/client/libmsit/core/fake_transport.h"

namespace msitd::libmsit {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr uint64_t kSlotBytes = chunk::ChunkBuilder::kBufferBytes;

// A timeout that is longer than any test, for waits that must not expire.
inline constexpr seconds kLong{60};

// One record of a chunk.
struct Arrived {
  uint64_t sequence;
  TensorKey key;
  DType dtype;
  std::vector<int64_t> dims;
  uint64_t tensor_bytes;
  uint64_t part_offset;
  std::vector<std::byte> bytes;
  uint64_t part_bytes;  // Also set if the bytes were not sent; 0 for an alias.
  // The digest that the client sent for the bytes, if any.
  std::optional<Digest> digest;
  chunk::Kept kept;
  RecordKind kind;
  std::optional<bool> requires_grad;
  std::optional<std::string> value;
  std::string stack;
  // `op|call|io|index` of the original; empty if the record is not an alias.
  std::string alias_of;
  uint16_t chunk_version;
};

inline std::string AliasOf(const chunk::Chunk& chunk,
                           const chunk::RecordExtra& extra) {
  if (!extra.is_alias()) return "";
  return std::string(chunk.Text(extra.alias_op)) + "|" +
         std::to_string(extra.alias_call) + "|" +
         std::string(IoName(static_cast<Io>(extra.alias_io))) + "|" +
         std::string(chunk.Text(extra.alias_index));
}

// Parses chunks as the daemon does. The test fails if the daemon would reject a
// chunk.
inline std::vector<Arrived> ReadChunks(
    const std::vector<FakeDaemon::Bytes>& chunks, uint64_t stream_id) {
  std::vector<Arrived> out;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto chunk = chunk::Chunk::FromProducer(chunks[i]);
    EXPECT_TRUE(chunk.ok()) << chunk.status();
    if (!chunk.ok()) continue;
    EXPECT_EQ(chunk->header().chunk_sequence, i);
    EXPECT_EQ(chunk->header().stream_id, stream_id);
    for (const chunk::RecordDescriptor& record : chunk->records()) {
      const auto dims = chunk->Dims(record);
      const auto bytes = chunk->PayloadOf(record);
      const chunk::RecordExtra extra = chunk->ExtraOf(record);
      out.push_back(
          {.sequence = record.sequence,
           .key = {.run = std::string(chunk->run()),
                   .rank = chunk->header().rank,
                   .device = std::string(chunk->Text(record.device)),
                   .token = record.token,
                   .op = std::string(chunk->Text(record.op)),
                   .call = record.call,
                   .io = static_cast<Io>(record.io),
                   .index = std::string(chunk->Text(record.index))},
           .dtype = static_cast<DType>(record.dtype),
           .dims = {dims.begin(), dims.end()},
           .tensor_bytes = record.tensor_bytes,
           .part_offset = record.part_offset,
           .bytes = {bytes.begin(), bytes.end()},
           .part_bytes = extra.is_alias() ? 0 : chunk::PartBytes(record),
           .digest = chunk::HasDigest(record)
                         ? std::optional<Digest>({record.summary, record.hash})
                         : std::nullopt,
           .kept = chunk->kept(),
           .kind = chunk::KindOf(record),
           .requires_grad = chunk::RequiresGradOf(record),
           .value = extra.has_value()
                        ? std::optional<std::string>(chunk->Text(extra.value))
                        : std::nullopt,
           .stack = std::string(chunk->Text(extra.stack)),
           .alias_of = AliasOf(*chunk, extra),
           .chunk_version = chunk->header().version});
    }
  }
  return out;
}

// A client that is connected to a FakeDaemon.
class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    options_.run = "run";
    options_.rank = 1;
    options_.world_size = 2;
    options_.max_block = kLong;
    options_.buffer_bytes = 14 * kSlotBytes;
    options_.open_timeout = kLong;
    options_.linger = kLong;
    options_.backoff_min = milliseconds(1);
    options_.backoff_max = milliseconds(2);
  }

  Status Open() {
    return Client::Open(options_, daemon_.MakeTransport(), &client_);
  }

  // Records `count` bytes of `value` as the output of `op`.
  Status Record(const std::string& op, size_t count, int value = 1,
                const std::string& index = "0") {
    const std::vector<std::byte> data(count, static_cast<std::byte>(value));
    const int64_t dims[] = {static_cast<int64_t>(count)};
    TensorView tensor;
    tensor.op = op;
    tensor.io = Io::kOutput;
    tensor.index = index;
    tensor.dtype = DType::kUint8;
    tensor.dims = dims;
    tensor.data = data.data();
    return client_->Record(tensor);
  }

  // Fills all slots of the client while no chunk is acknowledged.
  void FillSlots() {
    const uint64_t count = options_.buffer_bytes / kSlotBytes;
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(Record("fill", kPartBytes).ok());
    }
  }

  std::vector<Arrived> Arrivals() {
    return ReadChunks(daemon_.chunks(), daemon_.stream_id());
  }

  ClientOptions options_;
  FakeDaemon daemon_{/*acknowledges=*/true};
  std::unique_ptr<Client> client_;
};

}  // namespace msitd::libmsit
