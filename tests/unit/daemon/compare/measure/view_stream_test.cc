// SPDX-License-Identifier: Apache-2.0
// Tests of view_stream, gather_reader and leaf_reader.
#include "daemon/compare/measure/view_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/view/view_parser.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/compute/digest.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/compare/measure/stream_fixture.h"
#include "tests/unit/daemon/compare/view/naive_view.h"

namespace msitd::compare {
namespace {

using Shape = std::vector<int64_t>;

class ViewStreamTest : public StreamFixture {
 protected:
  RecordedTensor Record(DType dtype, Shape shape, int32_t rank = 0) {
    return RecordOne(dtype, std::move(shape), rank);
  }

  // Returns a view of leaves of these shapes and types. The test keeps the
  // plan.
  TensorSource ViewOf(std::string_view text, std::vector<TensorSource> leaves,
                      const std::vector<ViewLeaf>& shapes) {
    TensorSource out;
    out.side = "golden";
    out.run = *runs_.Open("g");
    out.leaves = std::move(leaves);
    auto plan = MakeViewPlan(*ParseView(text), shapes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    out.view = &plan_;
    return out;
  }

  TensorSource ViewOf(std::string_view text, const RecordedTensor& tensor) {
    return ViewOf(text, {SourceOf({tensor})}, {{tensor.shape, tensor.dtype}});
  }

  // Returns the bytes that the elements with these numbers have.
  static std::string Picked(const RecordedTensor& tensor,
                            const std::vector<uint64_t>& numbers) {
    const size_t width = ElementBytes(tensor.dtype);
    std::string out;
    for (const uint64_t number : numbers) {
      out.append(tensor.bytes, number * width, width);
    }
    return out;
  }

  ViewPlan plan_;
};

TEST_F(ViewStreamTest, RandomViewsOfAnyWidthAreRead) {
  const DType types[] = {DType::kInt8, DType::kBfloat16, DType::kFloat32,
                         DType::kInt64, DType::kComplex128};
  for (int i = 0; i < 500; ++i) {
    const DType dtype = types[random_() % std::size(types)];
    const Shape shape = RandomShape(random_);
    const RecordedTensor tensor = Record(dtype, shape);
    const RecordedTensor leaf = Record(dtype, shape);
    const uint64_t count = ElementCount(shape);
    const RandomView view =
        MakeRandomView(Numbered(shape), Numbered(shape, count), 5, random_);
    RecordedTensor both = tensor;
    both.bytes += leaf.bytes;
    const bool has_leaf = view.text.find("concat") != std::string::npos;
    std::vector<TensorSource> leaves = {SourceOf({tensor})};
    std::vector<ViewLeaf> shapes = {{shape, dtype}};
    if (has_leaf) {
      leaves.push_back(SourceOf({leaf}));
      shapes.push_back(shapes.front());
    }
    const TensorSource source = ViewOf(view.text, std::move(leaves), shapes);
    const auto bytes = Drain(source);
    ASSERT_TRUE(bytes.ok()) << view.text << ": " << bytes.status();
    ASSERT_EQ(*bytes, Picked(both, view.result.values)) << view.text;
  }
}

// Numbers of elements of a matrix, column by column.
std::vector<uint64_t> Transposed(uint64_t rows, uint64_t columns) {
  std::vector<uint64_t> out;
  for (uint64_t j = 0; j < columns; ++j) {
    for (uint64_t i = 0; i < rows; ++i) out.push_back(i * columns + j);
  }
  return out;
}

// Rows of these matrices cross the ends of parts.
TEST_F(ViewStreamTest, TensorsOfSeveralPartsAreRearranged) {
  const RecordedTensor wide = Record(DType::kFloat32, {1100, 1009});
  auto bytes = Drain(ViewOf("transpose(0,1)", wide));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(*bytes == Picked(wide, Transposed(1100, 1009)));
  // Two parts, each of which is read once.
  EXPECT_EQ(observer_.read_bytes, wide.bytes.size());

  observer_.read_bytes = 0;
  const RecordedTensor cube = Record(DType::kBfloat16, {2001, 3, 701});
  bytes = Drain(ViewOf("permute(1,0,2)", cube));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::vector<uint64_t> numbers;
  for (uint64_t b = 0; b < 3; ++b) {
    for (uint64_t s = 0; s < 2001; ++s) {
      for (uint64_t h = 0; h < 701; ++h) {
        numbers.push_back((s * 3 + b) * 701 + h);
      }
    }
  }
  EXPECT_TRUE(*bytes == Picked(cube, numbers));
  EXPECT_EQ(observer_.read_bytes, cube.bytes.size());
}

TEST_F(ViewStreamTest, PartsOutsideOfASliceAreNotRead) {
  const RecordedTensor tensor = Record(DType::kFloat32, {4096, 1024});
  const auto bytes = Drain(ViewOf("slice(0,1100:1200)", tensor));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(*bytes == tensor.bytes.substr(size_t{1100} * 4096, 100 * 4096));
  EXPECT_EQ(observer_.read_bytes, uint64_t{4} << 20);
}

TEST_F(ViewStreamTest, ASplitIsReadOnceAndSummarized) {
  const RecordedTensor tensor = Record(DType::kInt8, {3000, 3000});
  TensorSource source = ViewOf("split(-1,1:1:1,1)", tensor);
  source.is_summarized = true;
  const auto bytes = Drain(source);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::string expected;
  for (size_t row = 0; row < 3000; ++row) {
    expected += tensor.bytes.substr(row * 3000 + 1000, 1000);
  }
  EXPECT_TRUE(*bytes == expected);
  EXPECT_EQ(observer_.read_bytes, tensor.bytes.size());
  EXPECT_EQ(summary_, compute::Summarize(std::as_bytes(std::span(expected)),
                                         DType::kInt8));
}

TEST_F(ViewStreamTest, ShardsAreJoinedBeforeTheyAreViewed) {
  std::vector<RecordedTensor> shards;
  RecordedTensor whole;
  whole.dtype = DType::kFloat32;
  for (int32_t rank = 0; rank < 3; ++rank) {
    shards.push_back(Record(DType::kFloat32, {500, 1500}, rank));
    whole.bytes += shards.back().bytes;
  }
  const TensorSource source =
      ViewOf("transpose(0,1)", {SourceOf(shards, {.axes = {{0, 3}}})},
             {{{1500, 1500}, DType::kFloat32}});
  const auto bytes = Drain(source);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(*bytes == Picked(whole, Transposed(1500, 1500)));
}

TEST_F(ViewStreamTest, SumsOfShardsHaveTheTypeOfSums) {
  RecordedTensor first = Bfloats("sum", {1, 2, 3, 4, 5, 6});
  RecordedTensor second = Bfloats("sum", {10, 20, 30, 40, 50, 60});
  first.shape = second.shape = {2, 3};
  second.rank = 1;
  recorder_.Record(first);
  recorder_.Record(second);
  const auto source_of = [&](DType dtype) {
    return ViewOf("transpose(0,1)",
                  {SourceOf({first, second},
                            {.axes = {}, .term_count = 2, .is_sum = true})},
                  {{{2, 3}, dtype}});
  };
  const auto bytes = Drain(source_of(SumDType(DType::kBfloat16)));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, BytesOf<float>({11, 44, 22, 55, 33, 66}));
  // A plan for the type of the shards would use wrong positions.
  EXPECT_TRUE(absl::IsInternal(Drain(source_of(DType::kBfloat16)).status()));
}

TEST_F(ViewStreamTest, TermsAreAddedAsFloats) {
  RecordedTensor a = Bfloats("a", {1, 2, 3, 4});
  RecordedTensor b = Floats("b", {10, 20, 30, 40});
  a.shape = b.shape = {2, 2};
  recorder_.Record(a);
  recorder_.Record(b);
  const TensorSource source =
      ViewOf("sum(b).transpose(0,1)", {SourceOf({a}), SourceOf({b})},
             {{{2, 2}, DType::kBfloat16}, {{2, 2}, DType::kFloat32}});
  const auto bytes = Drain(source);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, BytesOf<float>({11, 33, 22, 44}));
}

TEST_F(ViewStreamTest, ElementsAreDequantized) {
  RecordedTensor q;
  q.op = "q";
  q.dtype = DType::kInt8;
  q.shape = {2, 3};
  q.bytes = BytesOf<int8_t>({10, 20, -30, 40, 50, 60});
  RecordedTensor scale = Floats("s", {0.5F, 2, 1, 0.25F});
  scale.shape = {2, 2};
  RecordedTensor zero = q;
  zero.op = "z";
  zero.shape = {2, 2};
  zero.bytes = BytesOf<int8_t>({0, 10, 40, 0});
  RecordedTensor global = Floats("g", {2});
  for (const auto* tensor : {&q, &scale, &zero, &global}) {
    recorder_.Record(*tensor);
  }
  const TensorSource source = ViewOf(
      "dequantize(s,z,1:2).dequantize(g).transpose(0,1)",
      {SourceOf({q}), SourceOf({scale}), SourceOf({zero}), SourceOf({global})},
      {{{2, 3}, DType::kInt8},
       {{2, 2}, DType::kFloat32},
       {{2, 2}, DType::kInt8},
       {{1}, DType::kFloat32}});
  const auto bytes = Drain(source);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, BytesOf<float>({10, 0, 20, 20, -160, 30}));
}

// Rows of scales that cross the ends of parts are repeated.
TEST_F(ViewStreamTest, LargeScalesAreRepeated) {
  const RecordedTensor q = Record(DType::kInt8, {3000, 1025});
  RecordedTensor scale;
  scale.op = "scale";
  scale.shape = {1500, 1025};
  std::vector<float> scales(size_t{1500} * 1025);
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<float>(i % 1009);
  }
  scale.bytes = BytesOf(scales);
  recorder_.Record(scale);
  const TensorSource source =
      ViewOf("dequantize(s,2:1)", {SourceOf({q}), SourceOf({scale})},
             {{q.shape, DType::kInt8}, {scale.shape, DType::kFloat32}});
  const auto bytes = Drain(source);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::vector<float> expected(q.bytes.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<float>(static_cast<int8_t>(q.bytes[i])) *
                  scales[i / 1025 / 2 * 1025 + i % 1025];
  }
  EXPECT_TRUE(*bytes == BytesOf(expected));
}

TEST_F(ViewStreamTest, ASampleHasEveryNthElementOfTheView) {
  const RecordedTensor tensor = Record(DType::kFloat32, {300, 100});
  TensorSource source = ViewOf("transpose(0,1)", tensor);
  source.is_sampled = true;
  const auto bytes = Drain(source);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const std::vector<uint64_t> all = Transposed(300, 100);
  std::vector<uint64_t> some;
  for (size_t i = 0; i < all.size(); i += SampleStep(all.size())) {
    some.push_back(all[i]);
  }
  EXPECT_EQ(*bytes, Picked(tensor, some));
}

TEST_F(ViewStreamTest, AShapeThatIsNotThatOfTheTensorIsDataLoss) {
  const RecordedTensor tensor = Record(DType::kFloat32, {100});
  const TensorSource source = ViewOf("transpose(0,1)", {SourceOf({tensor})},
                                     {{{2000, 1000}, DType::kFloat32}});
  EXPECT_TRUE(absl::IsDataLoss(Drain(source).status()));
}

TEST_F(ViewStreamTest, ReadingCanBeCancelled) {
  const RecordedTensor tensor = Record(DType::kFloat32, {1100, 1000});
  const TensorSource source = ViewOf("transpose(0,1)", tensor);
  observer_.cancelled_at = 0;
  EXPECT_TRUE(absl::IsCancelled(Drain(source).status()));
}

}  // namespace
}  // namespace msitd::compare
