// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/view_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Kind = ViewStep::Kind;

struct StepName {
  std::string_view name;
  Kind kind;
};

constexpr StepName kStepNames[] = {
    {"permute", Kind::kPermute},
    {"transpose", Kind::kTranspose},
    {"reshape", Kind::kReshape},
    {"flatten", Kind::kFlatten},
    {"slice", Kind::kSlice},
    {"split", Kind::kSplit},
    {"rows", Kind::kRows},
    {"heads", Kind::kHeads},
    {"rope_pairs", Kind::kRopePairs},
    {"concat", Kind::kConcat},
    {"sum", Kind::kSum},
    {"dequantize", Kind::kDequantize},
    {"any_order", Kind::kAnyOrder},
};

bool IsNameByte(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

// Parses a view from left to right.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<ViewStep>> Parse() {
    if (text_.empty() || text_.size() > kViewBytesMax) {
      return Fail(fmt::format("a view of {} bytes, needs 1 to {}", text_.size(),
                              kViewBytesMax));
    }
    std::vector<ViewStep> out;
    while (true) {
      if (out.size() == kViewStepsMax) {
        return Fail(fmt::format("more than {} steps", kViewStepsMax));
      }
      const size_t begin = at_;
      MSITD_ASSIGN_OR_RETURN(ViewStep step, ParseStep());
      step.text = std::string(text_.substr(begin, at_ - begin));
      out.push_back(std::move(step));
      if (at_ == text_.size()) return out;
      if (!Consume('.')) return Fail("needs `.` or the end after a step");
      if (out.back().kind == Kind::kAnyOrder) {
        return Fail("any_order must be the last step");
      }
    }
  }

 private:
  absl::Status Fail(std::string_view why) const {
    return MakeStatus(absl::StatusCode::kInvalidArgument, "at {} of \"{}\": {}",
                      at_ + 1, text_.substr(0, kViewBytesMax), why);
  }

  bool Consume(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status Expect(char c) {
    if (Consume(c)) return absl::OkStatus();
    return Fail(fmt::format("needs `{}`", c));
  }

  absl::StatusOr<int64_t> Number() {
    int64_t out = 0;
    const char* const begin = text_.data() + at_;
    const auto [stop, error] =
        std::from_chars(begin, text_.data() + text_.size(), out);
    if (error != std::errc()) return Fail("needs a number");
    if (out < -kViewNumberMax || out > kViewNumberMax) {
      return Fail("the number is too large");
    }
    at_ += static_cast<size_t>(stop - begin);
    return out;
  }

  absl::Status Numbers(char separator, std::vector<int64_t>& out) {
    do {
      MSITD_ASSIGN_OR_RETURN(const int64_t number, Number());
      out.push_back(number);
    } while (Consume(separator));
    return absl::OkStatus();
  }

  // Parses `A:B`, both ends of which may be absent.
  absl::StatusOr<ViewRange> Range() {
    ViewRange out;
    if (at_ < text_.size() && text_[at_] != ':') {
      MSITD_ASSIGN_OR_RETURN(out.begin, Number());
    }
    MSITD_RETURN_IF_ERROR(Expect(':'));
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')') {
      MSITD_ASSIGN_OR_RETURN(out.end, Number());
    }
    return out;
  }

  absl::Status Rows(ViewStep& step) {
    do {
      const size_t begin = at_;
      auto range = Range();
      if (!range.ok()) {
        at_ = begin;
        MSITD_ASSIGN_OR_RETURN(const int64_t row, Number());
        range =
            ViewRange{row, row == -1 ? std::nullopt : std::optional(row + 1)};
      }
      step.ranges.push_back(*range);
    } while (Consume(','));
    return absl::OkStatus();
  }

  // Parses a LEAF, which may be in double quotes.
  absl::Status Leaf(ViewStep& step) {
    const bool is_quoted = Consume('"');
    const size_t begin = at_;
    const std::string_view ends = is_quoted ? "\"" : ",)";
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string_view name = text_.substr(begin, at_ - begin);
    LeafName leaf;
    if (const size_t mark = name.rfind('@'); mark != std::string_view::npos) {
      const std::string_view place = name.substr(mark + 1);
      const size_t slash = place.find('/');
      leaf.io = ParseIo(place.substr(0, slash));
      if (!leaf.io.has_value() || slash == std::string_view::npos ||
          place.size() - slash - 1 > kIndexBytesMax) {
        at_ = begin;
        return Fail("needs IO/INDEX after `@`, such as `@output/0`");
      }
      leaf.index = std::string(place.substr(slash + 1));
      name = name.substr(0, mark);
    }
    if ((name.empty() && !leaf.io.has_value()) || name.size() > kOpBytesMax) {
      at_ = begin;
      return Fail("needs the name of a tensor: OP, @IO/INDEX or OP@IO/INDEX");
    }
    leaf.op = std::string(name);
    if (is_quoted) MSITD_RETURN_IF_ERROR(Expect('"'));
    step.leaves.push_back(std::move(leaf));
    if (++leaf_count_ > kViewLeavesMax) {
      return Fail(fmt::format("more than {} tensors", kViewLeavesMax));
    }
    return absl::OkStatus();
  }

  absl::Status Leaves(ViewStep& step) {
    do {
      MSITD_RETURN_IF_ERROR(Leaf(step));
    } while (Consume(','));
    return absl::OkStatus();
  }

  // Returns whether the next argument consists of digits and colons.
  bool IsNextNumbers() const {
    const size_t end = std::min(text_.find_first_of(",)", at_), text_.size());
    const std::string_view next = text_.substr(at_, end - at_);
    return !next.empty() &&
           next.find_first_not_of("0123456789:") == std::string_view::npos;
  }

  // Parses `SCALE[,ZERO_POINT][,B:B:...]`.
  absl::Status Dequantize(ViewStep& step) {
    MSITD_RETURN_IF_ERROR(Leaf(step));
    if (!Consume(',')) return absl::OkStatus();
    if (!IsNextNumbers()) {
      MSITD_RETURN_IF_ERROR(Leaf(step));
      if (!Consume(',')) return absl::OkStatus();
    }
    return Numbers(':', step.numbers);
  }

  absl::Status Split(ViewStep& step) {
    MSITD_RETURN_IF_ERROR(Numbers(':', step.numbers));
    for (const int64_t section : step.numbers) {
      if (section < 1) return Fail("lengths of parts must be positive");
    }
    MSITD_RETURN_IF_ERROR(Expect(','));
    MSITD_ASSIGN_OR_RETURN(step.part, Number());
    if (step.part < 0 ||
        step.part >= static_cast<int64_t>(step.numbers.size())) {
      return Fail(fmt::format("{} is not one of the {} parts, from 0",
                              step.part, step.numbers.size()));
    }
    if (!Consume(',')) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(step.groups, Number());
    if (step.groups < 1) return Fail("the number of groups must be positive");
    return absl::OkStatus();
  }

  absl::Status Arguments(ViewStep& step) {
    switch (step.kind) {
      case Kind::kPermute:
      case Kind::kReshape:
        return Numbers(',', step.numbers);
      case Kind::kTranspose:
      case Kind::kFlatten:
        MSITD_RETURN_IF_ERROR(Numbers(',', step.numbers));
        return step.numbers.size() == 2 ? absl::OkStatus()
                                        : Fail("needs two dimensions");
      case Kind::kRows:
        return Rows(step);
      case Kind::kHeads: {
        MSITD_ASSIGN_OR_RETURN(step.part, Number());
        return step.part > 0 ? absl::OkStatus()
                             : Fail("the number of heads must be positive");
      }
      case Kind::kSum:
        return Leaves(step);
      case Kind::kDequantize:
        return Dequantize(step);
      default:
        break;
    }
    MSITD_ASSIGN_OR_RETURN(step.dim, Number());
    if (step.kind == Kind::kRopePairs || step.kind == Kind::kAnyOrder) {
      return absl::OkStatus();
    }
    MSITD_RETURN_IF_ERROR(Expect(','));
    if (step.kind == Kind::kConcat) return Leaves(step);
    if (step.kind == Kind::kSplit) return Split(step);
    MSITD_ASSIGN_OR_RETURN(const ViewRange range, Range());
    step.ranges.push_back(range);
    return absl::OkStatus();
  }

  absl::StatusOr<ViewStep> ParseStep() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameByte(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    const auto* const found =
        std::find_if(std::begin(kStepNames), std::end(kStepNames),
                     [name](const StepName& one) { return one.name == name; });
    if (found == std::end(kStepNames)) {
      at_ = begin;
      return Fail(
          "needs permute, transpose, reshape, flatten, slice, split, rows, "
          "heads, rope_pairs, concat, sum, dequantize or any_order");
    }
    ViewStep out;
    out.kind = found->kind;
    const bool has_arguments = Consume('(');
    if (out.kind == Kind::kFlatten && (!has_arguments || Consume(')'))) {
      out.numbers = {0, -1};
      return out;
    }
    if (!has_arguments) return Fail("needs `(`");
    MSITD_RETURN_IF_ERROR(Arguments(out));
    MSITD_RETURN_IF_ERROR(Expect(')'));
    return out;
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t leaf_count_ = 1;  // The tensor itself is the first one.
};

}  // namespace

absl::StatusOr<std::vector<ViewStep>> ParseView(std::string_view text) {
  return Parser(text).Parse();
}

}  // namespace msitd::compare
