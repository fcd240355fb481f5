// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"
#include "protos/base/dtype.h"

// Tables of integers, such as the slots of a cache, in which some elements are
// wrong. Integers agree exactly or not at all, so a few of them are enough.
namespace msitd::compare::explain {
namespace {

// A table with fewer different values has equal elements by chance.
constexpr size_t kValuesMin = 8;
// As many elements with the same offset are not equal by chance.
constexpr size_t kSameOffsetsMin = 3;

std::vector<size_t> DifferencesOf(const Examination& pair) {
  std::vector<size_t> out;
  for (size_t i = 0; i < pair.size(); ++i) {
    if (pair.golden()[i] != pair.target()[i]) out.push_back(i);
  }
  return out;
}

std::string IndexText(const std::vector<int64_t>& shape, size_t element) {
  std::string out;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<size_t>(shape[i]);
    out = fmt::format("{}{}{}", element % size, out.empty() ? "" : ",", out);
    element /= size;
  }
  return fmt::format("[{}]", out);
}

// Returns `[0,5]`, or `4 elements, the first at [0,0],`.
std::string ElementsText(const Examination& pair,
                         const std::vector<size_t>& elements) {
  const std::string first = IndexText(pair.shape(), elements.front());
  return elements.size() == 1 ? fmt::format("element {}", first)
                              : fmt::format("{} elements, the first at {}",
                                            elements.size(), first);
}

void TestOffset(Examination& pair, const std::vector<size_t>& elements) {
  if (elements.size() < kSameOffsetsMin) return;
  const auto offset_at = [&](size_t i) {
    return pair.target()[i] - pair.golden()[i];
  };
  const double offset = offset_at(elements.front());
  if (!std::all_of(elements.begin(), elements.end(),
                   [&](size_t i) { return offset_at(i) == offset; })) {
    return;
  }
  pair.Offer({Kind::kOffset,
              fmt::format("golden + {:.6g} in {}", offset,
                          ElementsText(pair, elements)),
              {offset},
              1.5,
              0,
              0});
}

// Tests whether each wrong element has the value that another index of the
// first dimension, such as another request, has at the same place.
void TestOtherRow(Examination& pair, const std::vector<size_t>& elements) {
  const Slices rows = SlicesOf(pair.shape(), 0);
  if (pair.shape().size() < 2 || rows.count < 2) return;
  const std::set<double> values(pair.golden().begin(), pair.golden().end());
  if (values.size() < kValuesMin) return;
  std::vector<size_t> sources;
  for (const size_t i : elements) {
    const size_t place = i % rows.inner;
    for (size_t row = 0; row < rows.count; ++row) {
      const size_t other = row * rows.inner + place;
      if (pair.golden()[other] != pair.target()[i]) continue;
      sources.push_back(other);
      break;
    }
  }
  if (sources.size() != elements.size()) return;
  pair.Offer({Kind::kOrder,
              fmt::format("{} {} the value of {} of golden, another index of "
                          "dimension 0",
                          ElementsText(pair, elements),
                          elements.size() == 1 ? "has" : "have",
                          IndexText(pair.shape(), sources.front())),
              {},
              1.5,
              0,
              0});
}

// Tests whether a table of different integers has the same ones in another
// order.
void TestPermutation(Examination& pair, const std::vector<size_t>& elements) {
  const std::set<double> golden(pair.golden().begin(), pair.golden().end());
  const std::set<double> target(pair.target().begin(), pair.target().end());
  if (golden.size() != pair.size() || golden != target) return;
  const size_t first = elements.front();
  const auto at = std::find(pair.golden().begin(), pair.golden().end(),
                            pair.target()[first]);
  pair.Offer(
      {Kind::kOrder,
       fmt::format("{} elements in another order: {} has the value "
                   "of {} of golden",
                   elements.size(), IndexText(pair.shape(), first),
                   IndexText(pair.shape(),
                             static_cast<size_t>(at - pair.golden().begin()))),
       {},
       2,
       0,
       0});
}

}  // namespace

void TestIntegerTables(Examination& pair) {
  const DType type = pair.op().dtype;
  if (InfoOf(type).digits != 0 || type == DType::kBool) return;
  const std::vector<size_t> elements = DifferencesOf(pair);
  if (elements.empty()) return;
  TestPermutation(pair, elements);
  if (2 * elements.size() > pair.size()) return;
  TestOffset(pair, elements);
  TestOtherRow(pair, elements);
}

}  // namespace msitd::compare::explain
