// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_reader.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "protos/base/limits.h"
#include "protos/base/sample.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::query {
namespace {

constexpr int kParts = 3;

class TensorReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tensor_.bytes = std::string(kParts * kPartBytes, 'x');
    tensor_.shape = {static_cast<int64_t>(tensor_.bytes.size() / 4)};
    recorder_.Record(tensor_);
  }

  // Reads everything, until `stop` has been called `limit` times.
  absl::Status Read(ReadWhat what, int limit) {
    auto reader =
        TensorReader::Open(store_, recorder_.KeyOf(tensor_), {}, what);
    if (!reader.ok()) return reader.status();
    questions_ = 0;
    const auto stop = [&]() -> absl::Status {
      return ++questions_ == limit ? absl::CancelledError("gone")
                                   : absl::OkStatus();
    };
    bytes_ = 0;
    TensorReader::Piece piece;
    while (true) {
      const auto found = reader->Next(stop, piece);
      if (!found.ok()) return found.status();
      if (!*found) return absl::OkStatus();
      bytes_ += piece.data.size();
    }
  }

  testing::FakeStore store_;
  compare::RunRecorder recorder_{store_, "r"};
  compare::RecordedTensor tensor_;
  int questions_ = 0;
  size_t bytes_ = 0;
};

TEST_F(TensorReaderTest, ASampleOfManyPartsStopsBetweenThem) {
  ASSERT_TRUE(Read(ReadWhat::kSample, 0).ok());
  EXPECT_EQ(bytes_, SampleCount(kParts * kPartBytes / 4) * 4);
  const uint64_t before = store_.read_part_count();
  EXPECT_TRUE(absl::IsCancelled(Read(ReadWhat::kSample, 2)));
  EXPECT_EQ(bytes_, 0u);
  EXPECT_EQ(store_.read_part_count() - before, 1u);
}

TEST_F(TensorReaderTest, ATensorStopsBeforeEachPiece) {
  ASSERT_TRUE(Read(ReadWhat::kTensor, 0).ok());
  EXPECT_EQ(bytes_, kParts * kPartBytes);
  const uint64_t before = store_.read_part_count();
  EXPECT_TRUE(absl::IsCancelled(Read(ReadWhat::kTensor, 3)));
  EXPECT_EQ(bytes_, 2 * TensorReader::kPieceBytesMax);
  EXPECT_EQ(store_.read_part_count() - before, 1u);
}

}  // namespace
}  // namespace msitd::query
