// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/digest.h"

#include <algorithm>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "protos/chunk/chunk.h"
#include "protos/compute/kernel/kernels.h"
#include "protos/compute/number/element.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

TEST(DigestPartTest, HasTheSummaryAndTheHashOfTheWhole) {
  for (const size_t size :
       {0, 16, 240, 256, 4096, 65520, 65536, 65552, 131072, 1000000}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kInt8,
                              DType::kFloat64, DType::kComplex128}) {
      const DType component = ComponentOf(dtype);
      const auto bytes = MakeElements(component, Pattern::kMixed,
                                      size / ElementBytes(component), size);
      const Digest digest = DigestPart(bytes, dtype);
      EXPECT_EQ(digest.hash, chunk::HashBytes(bytes)) << size;
      EXPECT_EQ(digest.summary, Summarize(bytes, dtype)) << size;
    }
  }
}

TEST(DigestPartTest, HasOneHashOnEveryTarget) {
  for (const size_t size : {0, 1, 17, 200, 257, 1025, 100003}) {
    const auto bytes = MakeElements(DType::kUint8, Pattern::kAnyBits, size, 4);
    const ContentHash expected = chunk::HashBytes(bytes);
    for (const Kernels& kernels : SupportedKernels()) {
      PartHashState state;
      kernels.hash->start(state);
      const size_t cut = size / 3;
      kernels.hash->update(state, bytes.data(), cut);
      kernels.hash->update(state, bytes.data() + cut, size - cut);
      uint64_t halves[2];
      kernels.hash->finish(state, halves);
      EXPECT_EQ((ContentHash{halves[0], halves[1]}), expected)
          << kernels.name << " " << size;
    }
  }
}

// A daemon rejects digests that are impossible for any tensor.
TEST(DigestPartTest, IsPossibleWhateverTheElementsAre) {
  for (int number = 1; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const DType component = ComponentOf(dtype);
    const size_t components = IsComplex(dtype) ? 2 : 1;
    for (const Pattern pattern : kPatterns) {
      for (const size_t count : {0, 1, 2, 127, 128, 129, 5001}) {
        const auto bytes =
            MakeElements(component, pattern, count * components, count + 3);
        const Summary summary = DigestPart(bytes, dtype).summary;
        EXPECT_TRUE(IsPossible(summary, dtype, bytes.size()))
            << DTypeName(dtype) << " " << NameOf(pattern) << " " << count;
        EXPECT_FALSE(
            IsPossible(summary, dtype, bytes.size() + ElementBytes(dtype)));
      }
    }
  }
}

TEST(PartDigesterTest, GivesTheSameHoweverThePartIsCut) {
  for (int number = 1; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const auto bytes =
        MakeElements(ComponentOf(dtype), Pattern::kMixed, 40'000, 5);
    const std::span<const std::byte> all(bytes);
    for (const size_t step : {1, 3, 8, 40}) {
      PartDigester digester(dtype);
      const size_t piece = step * PartDigester::kPieceStep;
      for (size_t at = 0; at < all.size(); at += piece) {
        digester.Add(all.subspan(at, std::min(piece, all.size() - at)));
      }
      EXPECT_TRUE(HasEqualBits(digester.Finish(), DigestPart(bytes, dtype)))
          << DTypeName(dtype) << " " << step;
    }
  }
}

TEST(DigestPartDeathTest, APartOfAnElementIsABugOfTheCaller) {
  const std::vector<std::byte> bytes(7);
  EXPECT_DEATH(DigestPart(bytes, DType::kFloat32), "ElementBytes");
  EXPECT_DEATH(Summarize(bytes, DType::kUnspecified), "IsValid");
}

}  // namespace
}  // namespace msitd::compute
