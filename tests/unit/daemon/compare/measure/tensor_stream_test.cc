// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/tensor_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "daemon/compare/shard/sample_places.h"
#include "protos/base/sample.h"
#include "protos/compute/digest.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/compare/measure/stream_fixture.h"

namespace msitd::compare {
namespace {

using Shape = std::vector<int64_t>;

uint64_t Product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1},
                         std::multiplies<>());
}

// Joins shards element by element, as a reference.
std::string NaiveConcat(const std::vector<RecordedTensor>& shards, size_t dim) {
  const uint64_t width = ElementBytes(shards[0].dtype);
  Shape whole = shards[0].shape;
  for (size_t i = 1; i < shards.size(); ++i) whole[dim] += shards[i].shape[dim];
  std::string out(Product(whole) * width, '\0');
  int64_t offset = 0;
  for (const RecordedTensor& shard : shards) {
    for (uint64_t element = 0; element < Product(shard.shape); ++element) {
      uint64_t rest = element;
      uint64_t at = 0;
      uint64_t stride = 1;
      for (size_t d = whole.size(); d-- > 0;) {
        uint64_t position = rest % shard.shape[d];
        rest /= shard.shape[d];
        if (d == dim) position += offset;
        at += position * stride;
        stride *= whole[d];
      }
      std::memcpy(&out[at * width], &shard.bytes[element * width], width);
    }
    offset += shard.shape[dim];
  }
  return out;
}

class TensorStreamTest : public StreamFixture {
 protected:
  // Records random shards of equal shapes, except for `sizes` along `dim`.
  std::vector<RecordedTensor> Record(DType dtype, Shape shape, size_t dim,
                                     const std::vector<int64_t>& sizes) {
    std::vector<RecordedTensor> out;
    for (const int64_t size : sizes) {
      shape[dim] = size;
      out.push_back(RecordOne(dtype, shape, static_cast<int32_t>(out.size())));
    }
    return out;
  }

  TensorSource ConcatOf(const std::vector<RecordedTensor>& shards, int dim) {
    return SourceOf(shards, {.axes = {{dim, shards.size()}}});
  }

  TensorSource SumOf(const std::vector<RecordedTensor>& shards) {
    return SourceOf(shards,
                    {.axes = {}, .term_count = shards.size(), .is_sum = true});
  }

  // Adds shards of type `T` in the type `Sum`.
  template <typename T, typename Sum>
  void ExpectSum(DType dtype, DType sum_dtype) {
    const auto shards =
        Record(dtype, {300'001}, 0, {300'001, 300'001, 300'001});
    std::vector<Sum> sum(300'001);
    for (const RecordedTensor& shard : shards) {
      std::vector<T> values(sum.size());
      std::memcpy(values.data(), shard.bytes.data(), shard.bytes.size());
      for (size_t i = 0; i < sum.size(); ++i) {
        const Sum value = static_cast<Sum>(values[i]);
        sum[i] = &shard == &shards.front() ? value : sum[i] + value;
      }
    }
    const auto bytes = Drain(SumOf(shards));
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(dtype_, sum_dtype);
    ASSERT_EQ(bytes->size(), sum.size() * sizeof(Sum));
    for (size_t i = 0; i < sum.size(); ++i) {
      Sum value;
      std::memcpy(&value, bytes->data() + i * sizeof(Sum), sizeof(Sum));
      // If several terms are NaN, the NaN of the result is unspecified.
      if (value != value && sum[i] != sum[i]) continue;
      ASSERT_EQ(value, sum[i]) << DTypeName(dtype) << " at " << i;
    }
    EXPECT_EQ(summary_.count, sum.size() * (IsComplex(dtype) ? 2 : 1));
  }
};

TEST_F(TensorStreamTest, ConcatIsThatOfElementsForEveryWidthAndDimension) {
  const Shape shape = {3, 4, 2, 5};
  for (const DType dtype : {DType::kBool, DType::kBfloat16, DType::kFloat32,
                            DType::kInt64, DType::kComplex128}) {
    for (size_t dim_count = 1; dim_count <= shape.size(); ++dim_count) {
      for (size_t dim = 0; dim < dim_count; ++dim) {
        for (const auto& sizes :
             std::vector<std::vector<int64_t>>{{1},
                                               {2, 2},
                                               {3, 1, 7},
                                               {0, 2, 0, 3},
                                               {1, 1, 1, 1, 1, 1, 1, 1}}) {
          const auto shards =
              Record(dtype, Shape(shape.begin(), shape.begin() + dim_count),
                     dim, sizes);
          const auto bytes = Drain(ConcatOf(shards, dim));
          ASSERT_TRUE(bytes.ok()) << bytes.status();
          EXPECT_EQ(*bytes, NaiveConcat(shards, dim))
              << DTypeName(dtype) << " " << dim_count << " dims, along " << dim;
        }
      }
    }
  }
}

TEST_F(TensorStreamTest, GridsAreJoinedAlongAllTheirDimensions) {
  // Blocks that are empty along either axis are skipped.
  const std::vector<int64_t> rows = {2, 0, 3};
  const std::vector<int64_t> columns = {1, 4, 0, 2};
  for (const auto& [row_dim, column_dim] :
       std::vector<std::pair<size_t, size_t>>{{0, 1}, {1, 2}, {0, 2}, {1, 3}}) {
    std::vector<RecordedTensor> shards;
    std::vector<RecordedTensor> joined_rows;
    for (const int64_t row : rows) {
      Shape shape = {2, 3, 2, 2};
      shape[row_dim] = row;
      const auto blocks = Record(DType::kInt16, shape, column_dim, columns);
      shards.insert(shards.end(), blocks.begin(), blocks.end());
      RecordedTensor joined = blocks.front();
      joined.bytes = NaiveConcat(blocks, column_dim);
      joined.shape[column_dim] = 7;
      joined_rows.push_back(std::move(joined));
    }
    const auto bytes = Drain(SourceOf(
        shards, {.axes = {{static_cast<int>(row_dim), rows.size()},
                          {static_cast<int>(column_dim), columns.size()}}}));
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, NaiveConcat(joined_rows, row_dim))
        << row_dim << " " << column_dim;
  }
}

TEST_F(TensorStreamTest, GridsOfThreeDimensionsAreJoined) {
  std::vector<RecordedTensor> shards;
  std::vector<RecordedTensor> planes;
  for (int i = 0; i < 2; ++i) {
    std::vector<RecordedTensor> rows;
    for (int j = 0; j < 2; ++j) {
      const auto blocks = Record(DType::kFloat32, {3, 2, 1}, 2, {1, 2});
      shards.insert(shards.end(), blocks.begin(), blocks.end());
      RecordedTensor row = blocks.front();
      row.bytes = NaiveConcat(blocks, 2);
      row.shape[2] = 3;
      rows.push_back(std::move(row));
    }
    RecordedTensor plane = rows.front();
    plane.bytes = NaiveConcat(rows, 1);
    plane.shape[1] = 4;
    planes.push_back(std::move(plane));
  }
  const auto bytes =
      Drain(SourceOf(shards, {.axes = {{0, 2}, {1, 2}, {2, 2}}}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, NaiveConcat(planes, 0));
}

TEST_F(TensorStreamTest, SumsOfJoinedShardsAreSums) {
  std::vector<RecordedTensor> shards;
  std::vector<std::string> terms;
  for (int term = 0; term < 2; ++term) {
    const auto blocks = Record(DType::kInt32, {500, 3}, 1, {2, 1});
    shards.insert(shards.end(), blocks.begin(), blocks.end());
    terms.push_back(NaiveConcat(blocks, 1));
  }
  const auto bytes = Drain(
      SourceOf(shards, {.axes = {{1, 2}}, .term_count = 2, .is_sum = true}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(dtype_, DType::kInt64);
  ASSERT_EQ(bytes->size(), 1500 * sizeof(int64_t));
  for (size_t i = 0; i < 1500; ++i) {
    int32_t a = 0;
    int32_t b = 0;
    int64_t sum = 0;
    std::memcpy(&a, terms[0].data() + i * sizeof(a), sizeof(a));
    std::memcpy(&b, terms[1].data() + i * sizeof(b), sizeof(b));
    std::memcpy(&sum, bytes->data() + i * sizeof(sum), sizeof(sum));
    ASSERT_EQ(sum, static_cast<int64_t>(a) + b) << i;
  }
}

TEST_F(TensorStreamTest, ShardsOfSeveralPartsAreJoinedAlongEveryDimension) {
  for (const int dim : {0, 1, 2}) {
    const auto shards =
        Record(DType::kBfloat16, {103, 101, 307}, dim, {149, 211});
    ASSERT_GT(shards[1].bytes.size(), kPartBytes);
    observer_.read_bytes = 0;
    const auto bytes = Drain(ConcatOf(shards, dim));
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(*bytes == NaiveConcat(shards, dim)) << dim;
    EXPECT_EQ(observer_.read_bytes, bytes->size()) << "each part once";
  }
}

TEST_F(TensorStreamTest, MoreShardsThanPartsFitAreJoinedThroughSmallWindows) {
  const size_t count = kAssemblyWindowBytesMax / kPartBytes * 2;
  const auto shards = Record(DType::kInt8, {2, 1, 1}, 1,
                             std::vector<int64_t>(count, 1'500'000));
  const auto bytes = Drain(ConcatOf(shards, 1));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::string expected;
  for (const int row : {0, 1}) {
    for (const RecordedTensor& shard : shards) {
      expected += shard.bytes.substr(row * 1'500'000, 1'500'000);
    }
  }
  EXPECT_TRUE(*bytes == expected);
  EXPECT_LE(buffers_.windows.size(), kAssemblyWindowBytesMax);
}

TEST_F(TensorStreamTest, TheSampleIsThatOfWhatIsPutTogether) {
  const auto expect_sample = [this](TensorSource source) {
    const auto whole = Drain(source);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_TRUE(HasJoinedSample(source.grid, source.shards));
    source.is_sampled = true;
    const auto sample = Drain(source);
    ASSERT_TRUE(sample.ok()) << sample.status();
    const size_t width = ElementBytes(dtype_);
    std::string expected;
    for (size_t at = 0; at < whole->size() / width;
         at += SampleStep(whole->size() / width)) {
      expected += whole->substr(at * width, width);
    }
    EXPECT_EQ(*sample, expected);
    EXPECT_EQ(summary_.count, expected.size() / width);
  };
  for (const size_t dim : {0, 1, 2}) {
    expect_sample(
        ConcatOf(Record(DType::kInt32, {11, 13, 17}, dim, {5, 0, 40, 9}), dim));
  }
  // Tensors of several parts, and a sum of such tensors.
  expect_sample(ConcatOf(
      Record(DType::kInt64, {3, 1 << 19}, 1, {1 << 19, 7, 1 << 18}), 1));
  auto terms = Record(DType::kInt8, {64, 100}, 1, {50, 30, 50, 30});
  expect_sample(
      SourceOf(terms, {.axes = {{1, 2}}, .term_count = 2, .is_sum = true}));
}

TEST_F(TensorStreamTest, ASampleHasToBeAmongThoseOfTheShards) {
  TensorSource source =
      ConcatOf(Record(DType::kInt8, {2048}, 0, {2048, 2048}), 0);
  const auto kept = [&source](bool has_bytes, bool has_sample) {
    source.shards[1].has_bytes = has_bytes;
    source.shards[1].has_sample = has_sample;
    return HasJoinedSample(source.grid, source.shards);
  };
  EXPECT_TRUE(kept(true, false));
  EXPECT_TRUE(kept(false, true));
  EXPECT_FALSE(kept(false, false));
  // Still every fourth element, but the first sampled element of the second
  // shard has number 1.
  source = ConcatOf(Record(DType::kInt8, {2048}, 0, {2047, 2048}), 0);
  EXPECT_TRUE(kept(true, false));
  EXPECT_FALSE(kept(false, true));
}

TEST_F(TensorStreamTest, TooManyShardsInTurnAreRefused) {
  const std::vector<int64_t> sizes(kInterleavedShardsMax + 1, 1);
  const auto shards = Record(DType::kInt8, {2, 1}, 1, sizes);
  EXPECT_TRUE(absl::IsResourceExhausted(Drain(ConcatOf(shards, 1)).status()));
  EXPECT_TRUE(Drain(ConcatOf(shards, 0)).ok());
}

TEST_F(TensorStreamTest, SumsAddInTheOrderOfRanks) {
  ExpectSum<float, float>(DType::kFloat32, DType::kFloat32);
  ExpectSum<double, double>(DType::kFloat64, DType::kFloat64);
  ExpectSum<int8_t, int64_t>(DType::kInt8, DType::kInt64);
  ExpectSum<uint32_t, int64_t>(DType::kUint32, DType::kInt64);
  ExpectSum<std::complex<float>, std::complex<float>>(DType::kComplex64,
                                                      DType::kComplex64);
  ExpectSum<std::complex<double>, std::complex<double>>(DType::kComplex128,
                                                        DType::kComplex128);
}

// Returns one shard of a sum, with all its elements.
template <typename Int>
RecordedTensor Integers(std::string op, DType dtype, std::vector<Int> values) {
  RecordedTensor out;
  out.op = std::move(op);
  out.dtype = dtype;
  out.shape = {static_cast<int64_t>(values.size())};
  out.bytes.resize(values.size() * sizeof(Int));
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

TEST_F(TensorStreamTest, SumsOfIntegersAreExact) {
  constexpr int64_t kBig = int64_t{1} << 53;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto a = Integers<int64_t>("a", DType::kInt64, {kBig, kMax, -kMax});
  const auto b = Integers<int64_t>("b", DType::kInt64, {1, kMax, -1});
  const auto c = Integers<int64_t>("c", DType::kInt64, {0, -kMax, 0});
  for (const auto& shard : {a, b, c}) recorder_.Record(shard);
  const auto bytes = Drain(SumOf({a, b, c}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(dtype_, DType::kInt64);
  // Intermediate sums may exceed the range.
  EXPECT_EQ(*bytes, BytesOf(std::vector<int64_t>{kBig + 1, kMax, -kMax - 1}));
}

TEST_F(TensorStreamTest, SumsOfUnsignedIntegersStayUnsigned) {
  constexpr uint64_t kBig = uint64_t{1} << 63;
  const auto a = Integers<uint64_t>("a", DType::kUint64, {kBig, kBig});
  const auto b = Integers<uint64_t>("b", DType::kUint64, {1, kBig - 1});
  for (const auto& shard : {a, b}) recorder_.Record(shard);
  const auto bytes = Drain(SumOf({a, b}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(dtype_, DType::kUint64);
  EXPECT_EQ(*bytes, BytesOf(std::vector<uint64_t>{kBig + 1, ~uint64_t{0}}));
}

TEST_F(TensorStreamTest, ASumThatIsTooLargeIsSaid) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto a = Integers<int64_t>("a", DType::kInt64, {1, kMax});
  const auto b = Integers<int64_t>("b", DType::kInt64, {1, 1});
  for (const auto& shard : {a, b}) recorder_.Record(shard);
  const absl::Status status = Drain(SumOf({a, b})).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("golden tensor: the sum of its shards is "
                                   "beyond int64 at element 1"));
}

TEST_F(TensorStreamTest, SumsOfHalvesAreFloats) {
  RecordedTensor a = Bfloats("a", {1, -2, 0.5F});
  RecordedTensor b = Bfloats("b", {0.0078125F, 2, 256});
  recorder_.Record(a);
  recorder_.Record(b);
  const auto bytes = Drain(SumOf({a, b}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, BytesOf(std::vector<float>{1.0078125F, 0, 256.5F}));
  EXPECT_EQ(summary_.max, 256.5);
}

TEST_F(TensorStreamTest, ACorruptShardIsNamed) {
  const auto shards = Record(DType::kInt8, {2, 3}, 1, {3, 3});
  store_.Corrupt(recorder_.KeyOf(shards[1]), 0);
  const auto bytes = Drain(ConcatOf(shards, 1));
  EXPECT_TRUE(absl::IsDataLoss(bytes.status()));
  EXPECT_THAT(std::string(Message(bytes.status())),
              ::testing::StartsWith("golden tensor, rank 1: "));
}

TEST_F(TensorStreamTest, CancelEndsWithinAPiece) {
  const auto shards = Record(DType::kInt8, {2, 3}, 1, {3, 3});
  observer_.cancelled_at = 2;
  EXPECT_TRUE(absl::IsCancelled(Drain(ConcatOf(shards, 1)).status()));
}

}  // namespace
}  // namespace msitd::compare
