// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/compare/view/naive_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

using Shape = std::vector<int64_t>;

size_t Below(std::mt19937& random, size_t end) { return random() % end; }

// Divides `count` into up to four factors.
Shape RandomFactors(int64_t count, std::mt19937& random) {
  Shape out;
  while (out.size() < 3 && Below(random, 4) != 0) {
    std::vector<int64_t> divisors;
    for (int64_t i = 1; i <= count; ++i) {
      if (count % i == 0) divisors.push_back(i);
    }
    out.push_back(divisors[Below(random, divisors.size())]);
    count /= out.back();
  }
  out.push_back(count);
  return out;
}

class Maker {
 public:
  Maker(const NaiveArray& array, const NaiveArray& leaf, std::mt19937& random)
      : array_(array), leaf_(leaf), random_(random) {}

  void Step() {
    switch (Below(random_, 9)) {
      case 0:
        return Permute();
      case 1:
        return Reshape();
      case 2:
        return Slice();
      case 3:
        return Split();
      case 4:
        return Rows();
      case 5:
        return Heads();
      case 6:
        return RopePairs();
      case 7:
        return Concat();
      default:
        return Transpose();
    }
  }

  RandomView Finish() && {
    if (text_.empty()) {
      const size_t last = array_.shape.size() - 1;
      Add(fmt::format("transpose({},{})", last, last));
    }
    return {text_, array_};
  }

 private:
  void Add(const std::string& step) {
    if (!text_.empty()) text_ += '.';
    text_ += step;
  }

  size_t Rank() const { return array_.shape.size(); }

  std::string DimText(size_t dim) {
    return std::to_string(
        static_cast<int64_t>(dim) -
        (Below(random_, 2) == 0 ? 0 : static_cast<int64_t>(Rank())));
  }

  void PermuteBy(const std::vector<size_t>& order) {
    Shape shape;
    for (const size_t dim : order) shape.push_back(array_.shape[dim]);
    array_ = array_.Pick(shape, [&](const Shape& at) {
      Shape from(at.size());
      for (size_t i = 0; i < order.size(); ++i) from[order[i]] = at[i];
      return from;
    });
  }

  void Permute() {
    std::vector<size_t> order(Rank());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<std::string> texts;
    for (const size_t dim : order) texts.push_back(DimText(dim));
    Add(fmt::format("permute({})", fmt::join(texts, ",")));
    PermuteBy(order);
  }

  void Transpose() {
    const size_t a = Below(random_, Rank());
    const size_t b = Below(random_, Rank());
    Add(fmt::format("transpose({},{})", DimText(a), DimText(b)));
    std::vector<size_t> order(Rank());
    std::iota(order.begin(), order.end(), size_t{0});
    std::swap(order[a], order[b]);
    PermuteBy(order);
  }

  void Reshape() {
    const auto count = static_cast<int64_t>(array_.values.size());
    if (count == 0) return;
    const Shape shape = RandomFactors(count, random_);
    Shape written = shape;
    if (Below(random_, 2) == 0) written[Below(random_, written.size())] = -1;
    Add(fmt::format("reshape({})", fmt::join(written, ",")));
    array_.shape = shape;
  }

  void Slice() {
    const size_t dim = Below(random_, Rank());
    const int64_t size = array_.shape[dim];
    if (size == 0) return;
    const auto begin = static_cast<int64_t>(Below(random_, size));
    const int64_t end =
        begin + 1 + static_cast<int64_t>(Below(random_, size - begin));
    const std::string begin_text =
        begin == 0 && Below(random_, 2) == 0 ? "" : std::to_string(begin);
    const std::string end_text =
        end == size ? ""
                    : std::to_string(Below(random_, 2) == 0 ? end : end - size);
    Add(fmt::format("slice({},{}:{})", DimText(dim), begin_text, end_text));
    Cut(dim, begin, end);
  }

  void Cut(size_t dim, int64_t begin, int64_t end) {
    Shape shape = array_.shape;
    shape[dim] = end - begin;
    array_ = array_.Pick(shape, [&](const Shape& at) {
      Shape from = at;
      from[dim] += begin;
      return from;
    });
  }

  void Split() {
    const size_t dim = Below(random_, Rank());
    const int64_t size = array_.shape[dim];
    const std::vector<int64_t> sections = {1 + int64_t(Below(random_, 2)),
                                           1 + int64_t(Below(random_, 2))};
    const int64_t total = sections[0] + sections[1];
    const auto groups = static_cast<int64_t>(1 + Below(random_, 2));
    if (size == 0 || size % (total * groups) != 0) return;
    const size_t part = Below(random_, 2);
    Add(fmt::format("split({},{}:{},{}{})", DimText(dim), sections[0],
                    sections[1], part, groups == 1 ? "" : ",2"));
    const int64_t share = size / (total * groups);
    const int64_t length = sections[part] * share;
    const int64_t begin = part == 0 ? 0 : sections[0] * share;
    Shape shape = array_.shape;
    shape[dim] = groups * length;
    array_ = array_.Pick(shape, [&](const Shape& at) {
      Shape from = at;
      from[dim] = at[dim] / length * share * total + begin + at[dim] % length;
      return from;
    });
  }

  void Rows() {
    const int64_t size = array_.shape[0];
    if (size == 0) return;
    std::vector<int64_t> rows;
    std::vector<std::string> texts;
    for (size_t i = 0; i < 1 + Below(random_, 3); ++i) {
      const auto begin = static_cast<int64_t>(Below(random_, size));
      if (Below(random_, 2) == 0) {
        texts.push_back(std::to_string(begin));
        rows.push_back(begin);
        continue;
      }
      texts.push_back(fmt::format("{}:", begin));
      for (int64_t row = begin; row < size; ++row) rows.push_back(row);
    }
    Add(fmt::format("rows({})", fmt::join(texts, ",")));
    Shape shape = array_.shape;
    shape[0] = static_cast<int64_t>(rows.size());
    array_ = array_.Pick(shape, [&](const Shape& at) {
      Shape from = at;
      from[0] = rows[at[0]];
      return from;
    });
  }

  void Heads() {
    if (Rank() < 2 || Rank() > 4 || array_.shape.back() % 2 != 0) return;
    Add("heads(2)");
    Shape shape = array_.shape;
    const int64_t width = shape.back() / 2;
    const size_t r = Rank();
    const int64_t s = shape[r - 2];
    shape[r - 2] = 2;
    shape[r - 1] = s;
    shape.push_back(width);
    array_ = array_.Pick(shape, [&](const Shape& at) {
      Shape from(at.begin(), at.end() - 1);
      from[r - 2] = at[r - 1];
      from[r - 1] = at[r - 2] * width + at[r];
      return from;
    });
  }

  void RopePairs() {
    const size_t dim = Below(random_, Rank());
    const int64_t size = array_.shape[dim];
    if (size % 2 != 0) return;
    Add(fmt::format("rope_pairs({})", DimText(dim)));
    array_ = array_.Pick(array_.shape, [&](const Shape& at) {
      Shape from = at;
      const int64_t half = size / 2;
      from[dim] = at[dim] % half * 2 + at[dim] / half;
      return from;
    });
  }

  // Only before other steps have changed the shape.
  void Concat() {
    if (array_.shape != leaf_.shape || has_concat_) return;
    has_concat_ = true;
    const size_t dim = Below(random_, Rank());
    Add(fmt::format("concat({},k)", DimText(dim)));
    const NaiveArray first = array_;
    const int64_t size = first.shape[dim];
    NaiveArray out;
    out.shape = first.shape;
    out.shape[dim] *= 2;
    out.values.resize(first.values.size() * 2);
    std::iota(out.values.begin(), out.values.end(), uint64_t{0});
    const NaiveArray numbers = out;
    size_t next = 0;
    numbers.Pick(out.shape, [&](const Shape& at) {
      Shape from = at;
      const bool is_second = at[dim] >= size;
      if (is_second) from[dim] -= size;
      out.values[next++] = is_second ? leaf_.At(from) : first.At(from);
      return at;
    });
    array_ = out;
  }

  NaiveArray array_;
  const NaiveArray& leaf_;
  std::mt19937& random_;
  std::string text_;
  bool has_concat_ = false;
};

}  // namespace

NaiveArray NaiveArray::Pick(
    Shape new_shape, const std::function<Shape(const Shape&)>& from) const {
  NaiveArray out;
  out.shape = std::move(new_shape);
  const uint64_t count = ElementCount(out.shape);
  for (uint64_t i = 0; i < count; ++i) {
    Shape at(out.shape.size());
    uint64_t rest = i;
    for (size_t d = at.size(); d-- > 0;) {
      at[d] = static_cast<int64_t>(rest % out.shape[d]);
      rest /= out.shape[d];
    }
    out.values.push_back(At(from(at)));
  }
  return out;
}

uint64_t NaiveArray::At(const Shape& position) const {
  uint64_t number = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    number = number * shape[i] + position[i];
  }
  return values.at(number);
}

RandomView MakeRandomView(const NaiveArray& array, const NaiveArray& leaf,
                          int steps, std::mt19937& random) {
  Maker maker(array, leaf, random);
  for (int i = 0; i < steps; ++i) maker.Step();
  return std::move(maker).Finish();
}

NaiveArray Numbered(Shape shape, uint64_t first) {
  NaiveArray out;
  out.values.resize(ElementCount(shape));
  std::iota(out.values.begin(), out.values.end(), first);
  out.shape = std::move(shape);
  return out;
}

Shape RandomShape(std::mt19937& random) {
  Shape out(1 + random() % 4);
  for (int64_t& dim : out) dim = static_cast<int64_t>(1 + random() % 6);
  return out;
}

}  // namespace msitd::compare
