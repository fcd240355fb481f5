// SPDX-License-Identifier: Apache-2.0
#include "client/msit/tensor/tensor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "client/ask/report/table/cell.h"
#include "protos/base/rounding.h"

namespace msitd::msit_command {
namespace {

// The defaults of torch.set_printoptions.
constexpr size_t kEdgeItems = 3;
constexpr size_t kThreshold = 1000;
constexpr size_t kLineWidth = 80;

constexpr std::string_view kPrefix = "tensor(";

// The format of all numbers of one tensor.
class NumberFormat {
 public:
  // `shown` are the positions of the numbers that are printed.
  NumberFormat(const Tensor& tensor, const std::vector<double>& numbers,
               const std::vector<size_t>& shown)
      : tensor_(tensor),
        numbers_(numbers),
        is_float_(IsFloatingPoint(tensor.dtype)) {
    if (is_float_) ChooseStyle(shown);
    for (const size_t i : shown) {
      const bool sets_width =
          !is_float_ || (std::isfinite(numbers_[i]) && numbers_[i] != 0);
      if (sets_width) width_ = std::max(width_, Plain(i).size());
    }
  }

  size_t width() const { return width_; }

  std::string operator()(size_t i) const {
    const std::string plain = Plain(i);
    const size_t gap = width_ > plain.size() ? width_ - plain.size() : 0;
    return std::string(gap, ' ') + plain;
  }

 private:
  void ChooseStyle(const std::vector<size_t>& shown) {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const size_t i : shown) {
      const double size = std::fabs(numbers_[i]);
      if (!std::isfinite(size) || size == 0) continue;
      least = std::min(least, size);
      most = std::max(most, size);
      is_whole_ = is_whole_ && size == std::ceil(size);
    }
    if (most == 0) return;
    is_scientific_ =
        most / least > 1000 || most > 1e8 || (!is_whole_ && least < 1e-4);
  }

  std::string Plain(size_t i) const {
    const double number = numbers_[i];
    if (tensor_.dtype == DType::kBool) return number != 0 ? "True" : "False";
    if (!is_float_) return Integer(i);
    if (!std::isfinite(number)) return ask::PythonFloat(number);
    if (is_scientific_) return fmt::format("{:.4e}", number);
    if (is_whole_) return fmt::format("{:.0f}.", number);
    return fmt::format("{:.4f}", number);
  }

  // Integers of 64 bits may not fit into a double.
  std::string Integer(size_t i) const {
    const std::byte* element = tensor_.bytes.data() + i * sizeof(int64_t);
    if (tensor_.dtype == DType::kInt64) {
      int64_t number = 0;
      std::memcpy(&number, element, sizeof(number));
      return fmt::format("{}", number);
    }
    if (tensor_.dtype == DType::kUint64) {
      uint64_t number = 0;
      std::memcpy(&number, element, sizeof(number));
      return fmt::format("{}", number);
    }
    return fmt::format("{:.0f}", numbers_[i]);
  }

  const Tensor& tensor_;
  const std::vector<double>& numbers_;
  const bool is_float_;
  bool is_whole_ = true;
  bool is_scientific_ = false;
  size_t width_ = 1;
};

// Iterates over the dimensions of a tensor in the order in which torch prints
// them.
class Walk {
 public:
  explicit Walk(const Tensor& tensor, bool is_short)
      : shape_(tensor.shape),
        strides_(StridesOf(tensor.shape)),
        is_short_(is_short) {}

  // The positions of the elements that are printed.
  void Collect(size_t dim, size_t at, std::vector<size_t>& out) const {
    if (dim == shape_.size()) {
      out.push_back(at);
      return;
    }
    for (const size_t i : Indexes(dim)) {
      if (i == kGap) continue;
      Collect(dim + 1, at + i * static_cast<size_t>(strides_[dim]), out);
    }
  }

  std::string Print(const NumberFormat& format, size_t dim, size_t at,
                    size_t indent) const {
    if (dim == shape_.size()) return format(at);
    const bool is_last = dim + 1 == shape_.size();
    if (is_last) return PrintLine(format, dim, at, indent);
    std::string separator = ",";
    separator.append(shape_.size() - dim - 1, '\n');
    separator.append(indent + 1, ' ');
    std::string out = "[";
    for (const size_t i : Indexes(dim)) {
      if (out.size() > 1) out += separator;
      out += i == kGap ? "..."
                       : Print(format, dim + 1,
                               at + i * static_cast<size_t>(strides_[dim]),
                               indent + 1);
    }
    return out + "]";
  }

 private:
  static constexpr size_t kGap = std::numeric_limits<size_t>::max();

  std::vector<size_t> Indexes(size_t dim) const {
    const auto extent = static_cast<size_t>(shape_[dim]);
    std::vector<size_t> out;
    const bool has_gap = is_short_ && extent > 2 * kEdgeItems;
    for (size_t i = 0; i < extent; ++i) {
      if (has_gap && i == kEdgeItems) {
        out.push_back(kGap);
        i = extent - kEdgeItems;
      }
      out.push_back(i);
    }
    return out;
  }

  std::string PrintLine(const NumberFormat& format, size_t dim, size_t at,
                        size_t indent) const {
    const size_t cell = format.width() + 2;
    const size_t room = kLineWidth > indent ? kLineWidth - indent : 0;
    const size_t per_line = std::max<size_t>(1, room / cell);
    std::string out = "[";
    size_t count = 0;
    for (const size_t i : Indexes(dim)) {
      if (count > 0) {
        out +=
            count % per_line == 0 ? ",\n" + std::string(indent + 1, ' ') : ", ";
      }
      out += i == kGap ? " ..."
                       : format(at + i * static_cast<size_t>(strides_[dim]));
      ++count;
    }
    return out + "]";
  }

  const std::vector<int64_t>& shape_;
  const std::vector<int64_t> strides_;
  const bool is_short_;
};

}  // namespace

std::string TensorText(const Tensor& tensor,
                       const std::vector<double>& numbers) {
  std::string out(kPrefix);
  std::vector<std::string> suffixes;
  if (numbers.empty()) {
    out += "[]";
    if (tensor.shape.size() != 1) {
      const std::string size = SizeText(tensor.shape);
      // "torch.Size([0, 2])" is printed as (0, 2).
      suffixes.push_back("size=(" + size.substr(12, size.size() - 14) + ")");
    }
  } else {
    const Walk walk(tensor, numbers.size() > kThreshold);
    std::vector<size_t> shown;
    walk.Collect(0, 0, shown);
    const NumberFormat format(tensor, numbers, shown);
    out += walk.Print(format, 0, 0, kPrefix.size());
  }
  const bool has_default_type =
      tensor.dtype == DType::kFloat32 ||
      (!numbers.empty() &&
       (tensor.dtype == DType::kInt64 || tensor.dtype == DType::kBool));
  if (!has_default_type) {
    suffixes.push_back(fmt::format("dtype=torch.{}", DTypeName(tensor.dtype)));
  }
  // Like torch, counts two characters more than the line has.
  size_t line_width = out.size() - out.rfind('\n') + 1;
  for (const std::string& suffix : suffixes) {
    if (line_width + suffix.size() + 2 > kLineWidth) {
      out += ",\n" + std::string(kPrefix.size(), ' ') + suffix;
      line_width = kPrefix.size() + suffix.size();
    } else {
      out += ", " + suffix;
      line_width += suffix.size() + 2;
    }
  }
  return out + ")";
}

std::string StatisticsGrid(const Tensor& tensor,
                           const std::vector<double>& numbers) {
  const DType type =
      IsFloatingPoint(tensor.dtype) ? tensor.dtype : DType::kFloat32;
  double least = numbers[0];
  double most = numbers[0];
  double sum = 0;
  for (const double number : numbers) {
    if (std::isnan(number) || number < least) least = number;
    if (std::isnan(number) || number > most) most = number;
    sum += number;
  }
  const auto count = static_cast<double>(numbers.size());
  const double mean = sum / count;
  double squares = 0;
  for (const double number : numbers) {
    squares += (number - mean) * (number - mean);
    if (std::isnan(number)) least = most = number;
  }
  const double variance = squares / (count - 1);
  const std::array<std::string_view, 5> names = {"min", "max", "mean", "std",
                                                 "var"};
  const std::array<double, 5> values = {least, most, mean, std::sqrt(variance),
                                        variance};
  std::string rule = "+";
  std::string head = "|";
  std::string body = "|";
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string value = ask::PythonFloat(RoundTo(type, values[i]));
    const size_t width = std::max(names[i].size(), value.size());
    rule += std::string(width + 2, '-') + "+";
    head += fmt::format(" {:<{}} |", names[i], width);
    body += fmt::format(" {:<{}} |", value, width);
  }
  return fmt::format("{0}\n{1}\n{0}\n{2}\n{0}", rule, head, body);
}

}  // namespace msitd::msit_command
