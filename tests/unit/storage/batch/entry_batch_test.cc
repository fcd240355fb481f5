// SPDX-License-Identifier: Apache-2.0
#include "storage/batch/entry_batch.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"

namespace msitd::storage {
namespace {

// Generates entries with random combinations of fields.
class RandomEntries {
 public:
  explicit RandomEntries(uint32_t seed) : random_(seed) {}

  TensorInfo Next() {
    TensorInfo out;
    out.key = {"run",
               Below(5),
               "npu:" + std::to_string(Below(2)),
               Below(9),
               Name("op"),
               Below(3),
               Io::kOutput,
               Below(2) == 0 ? "" : Name("i")};
    out.kind = static_cast<RecordKind>(Below(kRecordKindCount));
    out.dtype = DType::kFloat32;
    out.sequence = static_cast<uint64_t>(Below(1 << 20));
    if (out.kind == RecordKind::kTensor) {
      FillTensor(out);
    } else if (out.kind != RecordKind::kNumber) {
      out.shape = {0};
    } else {
      out.tensor_bytes = 4;
    }
    if (out.kind == RecordKind::kStatistics) out.value = R"({"max": 1.5})";
    if (IsValue(out.kind)) out.value = Name("value");
    if (Below(3) == 0) out.requires_grad = Below(2) == 0;
    if (Below(3) == 0) out.stack = Name("File");
    FillParts(out);
    return out;
  }

 private:
  int Below(int end) { return static_cast<int>(random_() % end); }
  std::string Name(const std::string& base) {
    return base + "." + std::to_string(Below(7));
  }
  ContentHash Hash() { return {random_(), random_()}; }

  void FillTensor(TensorInfo& out) {
    switch (Below(4)) {
      case 0:
        break;
      case 1:
        out.shape = {3, 0};
        break;
      case 2:
        out.shape = {Below(100) + 1, 2};
        break;
      default:  // Three parts.
        out.shape = {(9 << 20) / 4};
    }
    out.tensor_bytes = 4;
    for (const int64_t dim : out.shape) {
      out.tensor_bytes *= static_cast<uint64_t>(dim);
    }
    out.summary.count = out.tensor_bytes / 4;
    out.summary.nan_count = out.summary.count / 3;
    out.summary.min = -0.0;
    out.summary.max = Below(1000) / 7.0;
    out.summary.sum_squares_exponent = Below(9) - 4;
    if (Below(3) == 0) out.placement = "0+2/1:S(0)";
    if (Below(4) == 0) {
      out.alias_of = {Name("original"), Below(9), Io::kInput, "0"};
    }
  }

  void FillParts(TensorInfo& out) {
    const int keeps = Below(4);
    const bool has_bytes = out.kind != RecordKind::kStatistics;
    out.is_claimed = keeps == 0;
    out.has_bytes = keeps != 0 && keeps != 3 && has_bytes;
    out.has_sample = keeps == 3 && has_bytes;
    std::vector<ContentHash> hashes;
    for (uint64_t i = 0; i < chunk::PartCount(out.tensor_bytes); ++i) {
      PartInfo& part = out.parts.emplace_back();
      part.place = {random_() % 99, random_()};
      part.bytes = std::min(kPartBytes, out.tensor_bytes - i * kPartBytes);
      part.hash = Hash();
      part.has_bytes = keeps != 3;
      part.has_sample = keeps == 3;
      if (part.has_sample) part.sample_hash = random_();
      hashes.push_back(part.hash);
    }
    out.hash =
        hashes.size() == 1 ? hashes[0] : chunk::CombinePartHashes(hashes);
  }

  std::mt19937_64 random_;
};

void ExpectEqual(const TensorInfo& a, const TensorInfo& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.tensor_bytes, b.tensor_bytes);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.summary, b.summary);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.has_bytes, b.has_bytes);
  EXPECT_EQ(a.has_sample, b.has_sample);
  EXPECT_EQ(a.is_claimed, b.is_claimed);
  EXPECT_EQ(a.placement, b.placement);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.requires_grad, b.requires_grad);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.stack, b.stack);
  EXPECT_EQ(a.alias_of, b.alias_of);
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (size_t i = 0; i < a.parts.size(); ++i) {
    EXPECT_EQ(a.parts[i].place, b.parts[i].place);
    EXPECT_EQ(a.parts[i].bytes, b.parts[i].bytes);
    EXPECT_EQ(a.parts[i].hash, b.parts[i].hash);
    EXPECT_EQ(a.parts[i].has_bytes, b.parts[i].has_bytes);
    EXPECT_EQ(a.parts[i].has_sample, b.parts[i].has_sample);
    EXPECT_EQ(a.parts[i].sample_hash, b.parts[i].sample_hash);
  }
}

std::string BatchOf(const std::vector<TensorInfo>& entries) {
  EntryBatchWriter writer;
  for (const TensorInfo& entry : entries) writer.Add(entry);
  EXPECT_EQ(writer.entry_count(), entries.size());
  return writer.Finish();
}

TEST(EntryBatchTest, EntriesComeBack) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    RandomEntries random(seed);
    std::vector<TensorInfo> entries(seed * 7 % 100);
    for (TensorInfo& entry : entries) entry = random.Next();
    auto reader = EntryBatchReader::Open(BatchOf(entries), "run");
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->entry_count(), entries.size());
    TensorInfo got;
    for (const TensorInfo& entry : entries) {
      const auto is_there = reader->Next(got);
      ASSERT_TRUE(is_there.ok()) << is_there.status();
      ASSERT_TRUE(*is_there);
      ExpectEqual(got, entry);
    }
    EXPECT_FALSE(*reader->Next(got));
  }
}

TEST(EntryBatchTest, AWriterBeginsAnotherBatch) {
  RandomEntries random(1);
  EntryBatchWriter writer;
  const TensorInfo entry = random.Next();
  writer.Add(entry);
  const std::string first = writer.Finish();
  EXPECT_EQ(writer.entry_count(), 0u);
  writer.Add(entry);
  EXPECT_EQ(writer.Finish(), first);
}

TEST(EntryBatchTest, NamesAreThereOnce) {
  RandomEntries random(2);
  TensorInfo entry = random.Next();
  entry.key.op = std::string(kOpBytesMax, 'o');
  const size_t one = BatchOf({entry}).size();
  EXPECT_LT(BatchOf({entry, entry}).size(), one + kOpBytesMax / 2);
}

TEST(EntryBatchTest, ItIsFullAtItsBounds) {
  RandomEntries random(3);
  TensorInfo entry = random.Next();
  EntryBatchWriter writer;
  while (!writer.is_full()) writer.Add(entry);
  EXPECT_EQ(writer.entry_count(), kBatchEntriesMax);
  (void)writer.Finish();
  entry.kind = RecordKind::kTensor;
  entry.alias_of.reset();
  entry.value.clear();
  entry.shape = {static_cast<int64_t>(kTensorBytesMax)};
  entry.dtype = DType::kUint8;
  entry.tensor_bytes = kTensorBytesMax;
  entry.parts.assign(kTensorBytesMax / kPartBytes, entry.parts.front());
  writer.Add(entry);
  EXPECT_TRUE(writer.is_full());
  auto reader = EntryBatchReader::Open(writer.Finish(), "run");
  TensorInfo got;
  const auto is_there = reader->Next(got);
  ASSERT_TRUE(is_there.ok()) << is_there.status();
  EXPECT_EQ(got.parts.size(), entry.parts.size());
}

// After any change of a byte, the batch is rejected or returns valid entries.
TEST(EntryBatchTest, ChangedBytesAreRefusedOrMakeSense) {
  RandomEntries random(4);
  std::vector<TensorInfo> entries(6);
  for (TensorInfo& entry : entries) entry = random.Next();
  const std::string batch = BatchOf(entries);
  size_t refused = 0;
  for (size_t at = 0; at < batch.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string changed = batch;
      changed[at] = static_cast<char>(changed[at] ^ change);
      auto reader = EntryBatchReader::Open(changed, "run");
      TensorInfo got;
      absl::StatusOr<bool> more = reader.ok();
      if (!reader.ok()) more = reader.status();
      while (more.ok() && *more) {
        more = reader->Next(got);
        if (!more.ok() || !*more) break;
        EXPECT_TRUE(IsValid(got.dtype) && IsValid(got.key.io));
        EXPECT_EQ(got.parts.size(), chunk::PartCount(got.tensor_bytes));
      }
      if (!more.ok()) {
        ++refused;
        EXPECT_EQ(more.status().code(), absl::StatusCode::kDataLoss);
      }
    }
  }
  EXPECT_GT(refused, batch.size());
}

TEST(EntryBatchTest, ACutBatchIsRefused) {
  RandomEntries random(5);
  const std::string batch = BatchOf({random.Next(), random.Next()});
  for (size_t size = 0; size < batch.size(); ++size) {
    auto reader = EntryBatchReader::Open(batch.substr(0, size), "run");
    TensorInfo got;
    bool is_refused = !reader.ok();
    for (int i = 0; i < 3 && !is_refused; ++i) {
      is_refused = !reader->Next(got).ok();
    }
    EXPECT_TRUE(is_refused) << size;
  }
}

TEST(EntryBatchTest, BytesBehindTheLastEntryAreRefused) {
  auto reader = EntryBatchReader::Open(BatchOf({}) + "x", "run");
  TensorInfo got;
  EXPECT_FALSE(reader->Next(got).ok());
}

TEST(EntryHasherTest, PlacesDoNotCountAndAllElseDoes) {
  EntryHasher hasher;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    RandomEntries random(seed);
    const TensorInfo entry = random.Next();
    const ContentHash hash = hasher.Hash(entry);
    TensorInfo other = entry;
    other.key.run = "another";
    other.parts.front().place.offset += 1;
    EXPECT_EQ(hasher.Hash(other), hash);
    const std::vector<void (*)(TensorInfo&)> changes = {
        [](TensorInfo& t) { ++t.key.rank; },
        [](TensorInfo& t) { t.key.device += "0"; },
        [](TensorInfo& t) { ++t.key.token; },
        [](TensorInfo& t) { t.key.op += "x"; },
        [](TensorInfo& t) { ++t.key.call; },
        [](TensorInfo& t) { t.key.io = Io::kState; },
        [](TensorInfo& t) { t.key.index += "x"; },
        [](TensorInfo& t) { t.dtype = DType::kInt32; },
        [](TensorInfo& t) { t.shape.push_back(1); },
        [](TensorInfo& t) { ++t.sequence; },
        [](TensorInfo& t) { t.summary.sum = 0.25; },
        [](TensorInfo& t) { ++t.parts.back().hash.high; },
        [](TensorInfo& t) { t.has_bytes = !t.has_bytes; },
        [](TensorInfo& t) { t.is_claimed = !t.is_claimed; },
        [](TensorInfo& t) { t.placement += "0+3/1:R"; },
        [](TensorInfo& t) { t.stack += "x"; },
        [](TensorInfo& t) { t.value += "x"; },
    };
    for (const auto& change : changes) {
      TensorInfo changed = entry;
      change(changed);
      EXPECT_NE(hasher.Hash(changed), hash);
    }
  }
}

}  // namespace
}  // namespace msitd::storage
