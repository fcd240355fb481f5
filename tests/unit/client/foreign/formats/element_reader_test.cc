// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/element_reader.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "client/foreign/formats/format_limits.h"

namespace msitd::formats {
namespace {

// Reads the smallest pieces that the interface allows.
std::vector<int> ReadBytes(StoredTensor tensor) {
  EXPECT_TRUE(CheckPlace(tensor).ok());
  ElementReader reader(std::move(tensor));
  std::vector<int> all;
  std::byte piece[kReadBytesMin];
  for (;;) {
    const auto count = reader.Read(piece);
    EXPECT_TRUE(count.ok());
    if (!count.ok() || *count == 0) return all;
    for (size_t i = 0; i < *count; ++i)
      all.push_back(static_cast<int>(piece[i]));
  }
}

StoredTensor Stored(std::string bytes, DType dtype, std::vector<Axis> axes) {
  StoredTensor tensor;
  tensor.bytes = bytes.size();
  tensor.source = std::make_shared<MemorySource>(std::move(bytes));
  tensor.dtype = dtype;
  tensor.axes = std::move(axes);
  return tensor;
}

StoredTensor Packed(std::string bytes, DType dtype, Packing packing,
                    int64_t count) {
  StoredTensor tensor = Stored(std::move(bytes), dtype, RowMajorAxes({count}));
  tensor.packing = packing;
  return tensor;
}

TEST(ElementReaderTest, BlocksComeInOrder) {
  // A 2 x 5 tensor in blocks of 2 columns, (3, 2, 2). The last column is
  // padding.
  const StoredTensor tensor = Stored(
      std::string("\x00\x01\x05\x06\x02\x03\x07\x08\x04\x63\x09\x63", 12),
      DType::kUint8, {{2, 2}, {5, 4, 2, 1}});
  EXPECT_EQ(ReadBytes(tensor),
            (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ElementReaderTest, BlocksThatFollowEachOtherAreInOrder) {
  EXPECT_TRUE(IsRowMajor({{2, 6}, {6, 2, 2, 1}}));
  EXPECT_TRUE(IsRowMajor({{3, 1}, {1, 77}}));
  EXPECT_FALSE(IsRowMajor({{2, 2}, {6, 4, 2, 1}}));
  EXPECT_FALSE(IsRowMajor({{2, 1}, {2, 2}}));
}

TEST(ElementReaderTest, AnElementCanRepeat) {
  const StoredTensor tensor = Stored("abc", DType::kUint8, {{2, 0}, {2, 1}});
  EXPECT_EQ(ReadBytes(tensor), (std::vector<int>{'a', 'b', 'a', 'b'}));
}

TEST(ElementReaderTest, ARepetitionIsBounded) {
  const uint64_t large = kRepeatedBytesMax + 1;
  EXPECT_EQ(CheckPlace(Stored("abc", DType::kUint8, {{large, 0}})).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ElementReaderTest, PlacesOutsideAreRefused) {
  EXPECT_TRUE(CheckPlace(Stored("abcd", DType::kUint8, {{2, 3}})).ok());
  for (const std::vector<Axis>& axes :
       std::vector<std::vector<Axis>>{{{2, 4}},
                                      {{5, 1}},
                                      {{2, ~uint64_t{0}}},
                                      {{3, uint64_t{1} << 63}},
                                      {{2, 1}, {2, 3}}}) {
    EXPECT_EQ(CheckPlace(Stored("abcd", DType::kUint8, axes)).code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(ElementReaderTest, PackedElementsGetBytes) {
  EXPECT_EQ(
      ReadBytes(Packed("\x1f\x82", DType::kInt4, Packing::kLowestFirst, 4)),
      (std::vector<int>{0xff, 0x01, 0x02, 0xf8}));
  EXPECT_EQ(
      ReadBytes(Packed("\x1f", DType::kFloat4E2m1fn, Packing::kLowestFirst, 2)),
      (std::vector<int>{0x0f, 0x01}));
  EXPECT_EQ(
      ReadBytes(Packed("\xa0\x80", DType::kUint1, Packing::kHighestFirst, 9)),
      (std::vector<int>{1, 0, 1, 0, 0, 0, 0, 0, 1}));
  // The elements 000001 000010 000011 000100, from the lowest bit on.
  EXPECT_EQ(ReadBytes(Packed("\x81\x30\x10", DType::kFloat6E3m2fn,
                             Packing::kLowestFirst, 4)),
            (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(ReadBytes(Packed("\xe4", DType::kInt2, Packing::kLowestFirst, 4)),
            (std::vector<int>{0, 1, 0xfe, 0xff}));
}

TEST(ElementReaderTest, PackedElementsComeInAnyOrder) {
  // A 2 x 3 tensor in column-major order: 1 4 2 5 3 6.
  StoredTensor tensor = Stored("\x41\x52\x63", DType::kUint4, {{2, 1}, {3, 2}});
  tensor.packing = Packing::kLowestFirst;
  EXPECT_EQ(ReadBytes(tensor), (std::vector<int>{1, 2, 3, 4, 5, 6}));
}

// A source that generates a pattern without using memory.
class PatternSource final : public ByteSource {
 public:
  explicit PatternSource(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset,
                      std::span<std::byte> out) const override {
    for (std::byte& byte : out) byte = At(offset++);
    return absl::OkStatus();
  }
  static std::byte At(uint64_t offset) {
    return static_cast<std::byte>(offset * 0x9e3779b97f4a7c15u >> 56);
  }

 private:
  const uint64_t size_;
};

TEST(ElementReaderTest, ATensorThatIsNotHeldComesRight) {
  constexpr uint64_t kColumns = 64;
  constexpr uint64_t kRows = 2 * kHeldBytesMax / kColumns;
  StoredTensor tensor;
  tensor.source = std::make_shared<PatternSource>(kRows * kColumns);
  tensor.bytes = kRows * kColumns;
  tensor.dtype = DType::kUint8;
  tensor.axes = {{kRows, 1}, {kColumns, kRows}};
  ASSERT_TRUE(CheckPlace(tensor).ok());
  ElementReader reader(tensor);
  std::vector<std::byte> row(100 * kColumns + 1);
  const auto count = reader.Read(row);
  ASSERT_TRUE(count.ok());
  ASSERT_EQ(*count, row.size());
  size_t wrong = 0;
  for (uint64_t i = 0; i < row.size(); ++i) {
    const uint64_t place = i % kColumns * kRows + i / kColumns;
    if (row[i] != PatternSource::At(place)) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace msitd::formats
