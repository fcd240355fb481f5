// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "protos/os/unique_fd.h"
#include "storage/read/read_pool.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using msitd::testing::FaultEnv;

constexpr uint64_t kTensorBytes = 1500;
constexpr int kTokens = 4;
constexpr int kOps = 100;

// Reads small tensors of a run in an order that differs from that of the log.
class StoreBatchTest : public StoreTest {
 protected:
  void OpenFilled() {
    ASSERT_TRUE(TryOpen(env_).ok());
    ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
    for (int token = 0; token < kTokens; ++token) {
      std::vector<TestTensor> records;
      for (int op = 0; op < kOps; ++op) {
        records.push_back(Tensor(token, op));
        records.back().sequence = static_cast<uint64_t>(op);
      }
      ASSERT_TRUE(Append(records).ok());
    }
    for (int i = 0; i < kTokens * kOps; ++i) {
      const int at = i * 7 % (kTokens * kOps);
      tensors_.push_back(Tensor(at / kOps, at % kOps));
      const auto info = read_->GetTensor(tensors_.back().key);
      ASSERT_TRUE(info.ok()) << info.status();
      parts_.push_back(info->parts.at(0));
    }
  }

  static TestTensor Tensor(int token, int op) {
    return MakeTensor("r", token, "op." + std::to_string(op), kTensorBytes,
                      static_cast<uint32_t>(1 + token * kOps + op));
  }

  static void ExpectBytes(PartBatch& batch, size_t index,
                          const TestTensor& tensor) {
    const auto bytes = batch.Read(index);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(std::ranges::equal(*bytes, tensor.bytes)) << index;
  }

  // Damages a page on the disk, without the knowledge of the store.
  void Spoil(const PartInfo& part) {
    const UniqueFd file(::open(SegmentPath(1).c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(file.valid());
    const char bad = 'x';
    ASSERT_EQ(
        ::pwrite(file.get(), &bad, 1, static_cast<off_t>(part.place.offset)),
        1);
  }

  FaultEnv env_{Env::Posix()};
  std::vector<TestTensor> tensors_;
  std::vector<PartInfo> parts_;
  AlignedBuffer buffer_;
};

TEST_F(StoreBatchTest, FewReadsGiveThePartsOfManyToSeveralThreads) {
  OpenFilled();
  AlignedBuffer alone;
  ASSERT_TRUE(read_->ReadPart("r", parts_[0], alone).ok());  // Opens the file.
  env_.FailAt(0, {}, false);
  const auto batch = (*read_->Open("r"))->ReadParts(parts_, buffer_);
  ASSERT_EQ(batch->size(), parts_.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < parts_.size(); i += 3) {
        ExpectBytes(*batch, i, tensors_[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(env_.operation_count(), 2u);
}

TEST_F(StoreBatchTest, BadBytesAreALossOfTheirPartAlone) {
  OpenFilled();
  Spoil(parts_[5]);
  const auto batch = (*read_->Open("r"))->ReadParts(parts_, buffer_);
  for (size_t i = 0; i < batch->size(); ++i) {
    if (i == 5) {
      EXPECT_EQ(Reason(batch->Read(i).status()), "FRAME_CORRUPT");
    } else {
      ExpectBytes(*batch, i, tensors_[i]);
    }
  }
}

TEST_F(StoreBatchTest, ReadsThatFailAreTriedAgainForEachPart) {
  OpenFilled();
  env_.FailAt(1, absl::UnavailableError("broken"), true);
  {
    const auto batch = (*read_->Open("r"))->ReadParts(parts_, buffer_);
    const auto bytes = batch->Read(0);
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kUnavailable);
    env_.StopFailing();
    for (size_t i = 0; i < batch->size(); ++i) {
      ExpectBytes(*batch, i, tensors_[i]);
    }
  }
}

TEST_F(StoreBatchTest, BytesGivenUpBehindThePlanAreExpired) {
  OpenFilled();
  const auto batch = (*read_->Open("r"))->ReadParts(parts_, buffer_);
  ExpectBytes(*batch, 0, tensors_[0]);
  env_.AdvanceClock(Upkeep::kSealAgeMinNs);
  RetentionPolicy policy;
  policy.run.bytes_max = 1;
  RetentionStep step{.is_done = false};
  for (int i = 0; i < 100 && !step.is_done; ++i) {
    step = *store_->upkeep().Retain(policy);
  }
  EXPECT_EQ(Reason(batch->Read(0).status()), "TENSOR_EXPIRED");
  // The same applies to a plan with outdated places.
  AlignedBuffer buffer;
  const auto later = (*read_->Open("r"))->ReadParts(parts_, buffer);
  EXPECT_EQ(Reason(later->Read(1).status()), "TENSOR_EXPIRED");
}

TEST_F(StoreBatchTest, BytesThatMovedOnAreFound) {
  ASSERT_TRUE(TryOpen(env_).ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  for (int token = 0; token < 3; ++token) {
    tensors_.push_back(MakeTensor("r", token, "weight", 64 << 10, 1));
    ASSERT_TRUE(Append({tensors_.back()}).ok());
    const auto info = read_->GetTensor(tensors_.back().key);
    ASSERT_TRUE(info.ok()) << info.status();
    parts_.push_back(info->parts.at(0));
  }
  // Seals the segment.
  ASSERT_TRUE(store_->Close().ok());
  ASSERT_TRUE(TryOpen(env_).ok());
  ShareStep step{.is_done = false};
  uint64_t shared_bytes = 0;
  for (int i = 0; i < 100 && !step.is_done; ++i) {
    step = *store_->upkeep().Share();
    shared_bytes += step.shared_bytes;
  }
  ASSERT_GT(shared_bytes, 0u);
  AlignedBuffer alone;
  ASSERT_TRUE(read_->ReadPart("r", parts_[2], alone).ok());  // Opens the file.
  env_.FailAt(0, {}, false);
  const auto batch = (*read_->Open("r"))->ReadParts(parts_, buffer_);
  for (size_t i = 0; i < 3; ++i) ExpectBytes(*batch, i, tensors_[i]);
  // All of them share one place.
  EXPECT_EQ(env_.operation_count(), 1u);
}

TEST_F(StoreBatchTest, PartsThatDoNotFitAreLeftToTheNextBatch) {
  OpenFilled();
  const std::vector<PartInfo> many(kBatchPartsMax + 10, parts_[0]);
  const auto batch = (*read_->Open("r"))->ReadParts(many, buffer_);
  EXPECT_EQ(batch->size(), kBatchPartsMax);
  EXPECT_EQ((*read_->Open("r"))->ReadParts({}, buffer_)->size(), 0u);
}

}  // namespace
}  // namespace msitd::storage
