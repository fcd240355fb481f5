// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/layout_hint.h"

#include <fmt/format.h>

#include <optional>

namespace msitd::compare {
namespace {

struct Cut {
  size_t dim = 0;
  int64_t count = 0;
};

// How `whole` is cut into pieces of the shape of `piece`.
std::optional<Cut> CutOf(const std::vector<int64_t>& whole,
                         const std::vector<int64_t>& piece) {
  if (whole.size() != piece.size()) return std::nullopt;
  std::optional<Cut> out;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == piece[i]) continue;
    if (out.has_value() || piece[i] == 0 || whole[i] % piece[i] != 0) {
      return std::nullopt;
    }
    out = Cut{i, whole[i] / piece[i]};
  }
  return out;
}

std::string HintFor(std::string_view flag, const LogicalTensor& piece,
                    const LogicalTensor& whole, RankCount ranks) {
  if (piece.assembly != nullptr && piece.assembly->shards.size() > 1) return "";
  const std::optional<Cut> cut = CutOf(whole.shape, piece.shape);
  if (!cut.has_value() || ranks.count % cut->count != 0) return "";
  const TensorKey& key = piece.key;
  // Shells end the text there.
  if (key.op.find('\'') != std::string::npos ||
      key.index.find('\'') != std::string::npos) {
    return "";
  }
  const bool is_last = cut->dim + 1 == piece.shape.size();
  return fmt::format(
      "{} '{}@{}/{}=concat({}){}'", flag, key.op, IoName(key.io), key.index,
      is_last ? std::string("-1") : std::to_string(cut->dim),
      cut->count == ranks.count ? std::string()
                                : fmt::format("/{}", cut->count));
}

}  // namespace

std::string LayoutHint(const LogicalTensor& golden, const LogicalTensor& target,
                       const RankCounts& ranks) {
  std::string out = HintFor("--target-layout", target, golden, ranks.target);
  if (!out.empty()) return out;
  return HintFor("--golden-layout", golden, target, ranks.golden);
}

}  // namespace msitd::compare
