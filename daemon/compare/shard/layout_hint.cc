// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/layout_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace msitd::compare {
namespace {

struct Cut {
  size_t dim = 0;
  int64_t count = 0;
};

// Returns how a tensor of shape `whole` is cut into pieces of shape `piece`, or
// nothing if it is not cut along exactly one dimension.
std::optional<Cut> CutOf(const std::vector<int64_t>& whole,
                         const std::vector<int64_t>& piece) {
  if (whole.size() != piece.size()) return std::nullopt;
  std::optional<Cut> out;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == piece[i]) continue;
    // A tensor without elements is not considered to be cut.
    const bool has_elements = piece[i] != 0 && whole[i] != 0;
    if (out.has_value() || !has_elements || whole[i] % piece[i] != 0) {
      return std::nullopt;
    }
    out = Cut{i, whole[i] / piece[i]};
  }
  return out;
}

// Returns the flag up to the layout. Returns an empty string for names with a
// single quote, which would end the quoted argument in a shell.
std::string PlaceOf(std::string_view flag, const TensorKey& key) {
  if (key.op.find('\'') != std::string::npos ||
      key.index.find('\'') != std::string::npos) {
    return "";
  }
  return fmt::format("{} '{}@{}/{}=", flag, key.op, IoName(key.io), key.index);
}

// Relative tolerances of sums, for all elements together and for one element.
// Sums that differ only by rounding are within them.
constexpr double kSumError = 1e-4;
constexpr double kElementError = 1e-2;

// Returns whether copies on all ranks must be equal, regardless of their sum.
// An accumulated gradient that was never reduced would add up to the gradient
// of a single rank, and a hint to add the copies would hide that error.
bool MustAgree(Io io) { return io == Io::kWeight || io == Io::kState; }

bool IsSum(const LogicalTensor& copies, const LogicalTensor& other) {
  const Summary& summary = other.summary;
  // Layouts apply before views, and have the names of recorded tensors.
  if (copies.view != nullptr || copies.assembly == nullptr ||
      copies.assembly->difference.empty() || !other.knows_summary ||
      summary.finite_count() != summary.count || summary.count == 0) {
    return false;
  }
  const double error =
      summary.l1 *
      std::max(kSumError,
               kElementError / std::sqrt(static_cast<double>(summary.count)));
  const auto is_near = [&](double sum) {
    return std::fabs(sum - summary.sum) <= error;
  };
  return is_near(copies.assembly->sum_of_copies) &&
         !is_near(copies.assembly->shards.front().summary.sum);
}

std::string HintFor(std::string_view flag, const LogicalTensor& piece,
                    const LogicalTensor& whole, RankCount ranks) {
  // Layouts apply before views, and have the names of recorded tensors.
  if (piece.view != nullptr) return "";
  if (piece.assembly != nullptr && piece.assembly->shards.size() > 1) return "";
  const std::optional<Cut> cut = CutOf(whole.shape, piece.shape);
  if (!cut.has_value() || ranks.count % cut->count != 0) return "";
  const std::string place = PlaceOf(flag, piece.key);
  if (place.empty()) return "";
  const bool is_last = cut->dim + 1 == piece.shape.size();
  return fmt::format("{}concat({}){}'", place,
                     is_last ? std::string("-1") : std::to_string(cut->dim),
                     cut->count == ranks.count
                         ? std::string()
                         : fmt::format("/{}", cut->count));
}

}  // namespace

std::string LayoutHint(const LogicalTensor& golden, const LogicalTensor& target,
                       const RankCounts& ranks) {
  std::string out = HintFor("--target-layout", target, golden, ranks.target);
  if (!out.empty()) return out;
  return HintFor("--golden-layout", golden, target, ranks.golden);
}

std::string SumHint(const LogicalTensor& golden, const LogicalTensor& target) {
  if (golden.shape != target.shape || MustAgree(golden.key.io)) return "";
  std::string out;
  if (IsSum(target, golden)) {
    out = PlaceOf("--target-layout", target.key);
  } else if (IsSum(golden, target)) {
    out = PlaceOf("--golden-layout", golden.key);
  }
  return out.empty() ? out : out + "sum'";
}

}  // namespace msitd::compare
