// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/cache_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Shape = std::vector<int64_t>;

std::vector<uint64_t> ElementsOf(const Gather& gather) {
  std::vector<uint64_t> out(gather.element_count());
  gather.VisitRuns(0, out.size(), [&](const GatherRun& run) {
    uint64_t at = run.to;
    for (uint64_t i = 0; i < run.count; ++i) {
      for (uint64_t j = 0; j < run.length; ++j) {
        out[at++] = run.from + i * run.stride + j;
      }
    }
  });
  return out;
}

absl::StatusOr<Gather> Cut(const Shape& shape, std::string_view text,
                           int64_t count) {
  return CutCache(Gather::OfLeaf(0, shape), ParseCachePlaces(text), count);
}

std::string ProblemOf(const Shape& shape, std::string_view text,
                      int64_t count) {
  const auto cut = Cut(shape, text, count);
  return cut.ok() ? "" : std::string(Message(cut.status()));
}

// Returns the number of an element.
uint64_t At(const Shape& shape, const Shape& position) {
  uint64_t out = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    out = out * static_cast<uint64_t>(shape[i]) +
          static_cast<uint64_t>(position[i]);
  }
  return out;
}

TEST(CacheViewTest, ColumnsOfARowAreCutOut) {
  const Shape shape = {2, 3, 8, 2};  // [b,n,L,d]
  const auto cut = Cut(shape, "row 1 dims 0,2: 2:4,6:8", 3);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(cut->shape(), ElementsAre(3, 3, 2));
  const std::vector<uint64_t> elements = ElementsOf(*cut);
  EXPECT_EQ(elements[0], At(shape, {1, 0, 2, 0}));
  EXPECT_EQ(elements[6], At(shape, {1, 0, 3, 0}));
  EXPECT_EQ(elements[12], At(shape, {1, 0, 6, 0}));
  EXPECT_EQ(elements[17], At(shape, {1, 2, 6, 1}));
}

// Caches of the same positions have the same form, wherever their dimensions
// are.
TEST(CacheViewTest, PagesAreInTheOrderOfPositions) {
  constexpr int64_t kPages = 7;
  constexpr int64_t kSize = 4;
  constexpr int64_t kHeads = 3;
  constexpr int64_t kWidth = 2;
  struct Form {
    Shape shape;
    std::string dims;
    // Returns the position of an element.
    Shape (*at)(int64_t page, int64_t slot, int64_t head, int64_t i);
  };
  const Form forms[] = {
      {{kPages, kSize, kHeads, kWidth},
       "0,1",
       [](int64_t p, int64_t s, int64_t n, int64_t i) {
         return Shape{p, s, n, i};
       }},
      {{kPages, kHeads, kSize, kWidth},
       "0,2",
       [](int64_t p, int64_t s, int64_t n, int64_t i) {
         return Shape{p, n, s, i};
       }},
      {{1, kPages, kSize, kHeads, kWidth},
       "1,2",
       [](int64_t p, int64_t s, int64_t n, int64_t i) {
         return Shape{0, p, s, n, i};
       }},
  };
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> pages(kPages);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    const int64_t count = 1 + static_cast<int64_t>(random() % 28);
    for (const Form& form : forms) {
      std::string text = "pages of 4 dims " + form.dims + ": ";
      for (const int64_t page : pages) text += std::to_string(page) + ',';
      text.pop_back();
      const auto cut = Cut(form.shape, text, count);
      ASSERT_TRUE(cut.ok()) << cut.status();
      ASSERT_THAT(cut->shape(), ElementsAre(count, kHeads, kWidth));
      const std::vector<uint64_t> elements = ElementsOf(*cut);
      size_t next = 0;
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t n = 0; n < kHeads; ++n) {
          for (int64_t j = 0; j < kWidth; ++j) {
            const int64_t page = pages[static_cast<size_t>(i / kSize)];
            ASSERT_EQ(elements[next++],
                      At(form.shape, form.at(page, i % kSize, n, j)));
          }
        }
      }
    }
  }
}

TEST(CacheViewTest, SinglePositionsAreSlots) {
  const auto cut = Cut({10, 2}, "pages of 1 dims 0: 7,2:4", 3);
  ASSERT_TRUE(cut.ok());
  EXPECT_THAT(ElementsOf(*cut), ElementsAre(14, 15, 4, 5, 6, 7));
}

TEST(CacheViewTest, PlacesThatDoNotFitAreReasons) {
  const Shape pages = {4, 2, 3};
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,1: 3,0", 4), "");
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,1: 3,4", 4),
            "its places include page 4 of 4");
  // Pages beyond the last position do not matter.
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,1: 3,4", 2), "");
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,1: 0:1099511627776", 8), "");
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,1: 0:1099511627776", 9),
            "its places include page 4 of 4");
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,1: 3", 4),
            "the places of 2 of 4 positions were recorded");
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,1: 3+5", 4),
            "the places of 2 of 4 positions were recorded");
  EXPECT_EQ(ProblemOf(pages, "pages of 3 dims 0,1: 3", 1),
            "its pages have 2 positions, and not 3");
  EXPECT_EQ(ProblemOf(pages, "pages of 2 dims 0,3: 3", 1),
            "[4,2,3] lacks the dimensions of its places");
  EXPECT_EQ(ProblemOf(pages, "row 4 dims 0,1: 0", 1),
            "the request is in row 4 of 4");
  EXPECT_EQ(ProblemOf(pages, "row 3 dims 0,1: 1:3", 2),
            "its places include column 2 of 2");
}

TEST(CacheViewTest, TensorsOfOneShapeShareACut) {
  CacheCuts cuts;
  const auto places = std::make_shared<const CachePlaces>(
      ParseCachePlaces("pages of 2 dims 0,1: 3,0"));
  const auto* const first = &cuts.Get({4, 2, 3}, places, 3);
  EXPECT_EQ(first, &cuts.Get({4, 2, 3}, places, 3));
  EXPECT_NE(first, &cuts.Get({4, 2, 3}, places, 2));
  EXPECT_NE(first, &cuts.Get({5, 2, 3}, places, 3));
}

TEST(CacheViewTest, ThousandsOfPagesAreRead) {
  constexpr int64_t kCount = static_cast<int64_t>(kCacheRangesMax);
  std::string text = "pages of 1 dims 0: ";
  for (int64_t i = kCount; i-- > 0;) text += std::to_string(2 * i) + ',';
  text.pop_back();
  const auto cut = Cut({2 * kCount, 1}, text, kCount);
  ASSERT_TRUE(cut.ok()) << cut.status();
  const std::vector<uint64_t> elements = ElementsOf(*cut);
  EXPECT_EQ(elements.front(), static_cast<uint64_t>(2 * (kCount - 1)));
  EXPECT_EQ(elements.back(), 0u);
}

}  // namespace
}  // namespace msitd::compare
