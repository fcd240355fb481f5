// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msitd::match {

// A view of a tensor that is built step by step, with the shape that results.
// View.view in msitd/v1/comparison_matching.proto has the meaning of the steps.
// A step that does not fit the shape returns false and does nothing.
class EngineView {
 public:
  explicit EngineView(std::vector<int64_t> shape) : shape_(std::move(shape)) {}

  const std::vector<int64_t>& shape() const { return shape_; }
  // Empty for the tensor itself.
  const std::string& text() const { return text_; }

  // Part `part` of a dimension; see `split`.
  bool Split(int dim, std::vector<int64_t> sizes, size_t part,
             int64_t groups = 1);
  bool Slice(int dim, int64_t begin, int64_t end);
  // The last position of a dimension.
  bool Last(int dim);
  bool Transpose(int a, int b);
  // Two neighboring dimensions as one.
  bool Flatten(int a, int b);
  // The sum with another tensor of the op.
  void Sum(std::string_view leaf);

 private:
  // Returns the number of a dimension; the rank of the shape if there is none.
  size_t DimOf(int dim) const;
  void Append(const std::string& step);

  std::vector<int64_t> shape_;
  std::string text_;
};

// A view that changes nothing. A tensor that is in several pairs needs a view
// in each of them.
inline constexpr std::string_view kWholeView = "slice(-1,:)";

}  // namespace msitd::match
