// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/fitted_assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/compare/shard/shard_joiner.h"
#include "protos/base/check.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;
using Shape = std::vector<int64_t>;

constexpr std::string_view kLayout = "fit";

// One possible interpretation of the shards of one side.
struct Way {
  Shape shape;             // Shape of the whole tensor.
  std::optional<int> dim;  // Pieces along this dimension, or copies if absent.
};

bool AwaitsFit(const LogicalTensor& tensor) {
  return tensor.assembly != nullptr && tensor.assembly->awaits_fit;
}

// Returns the shape of the pieces concatenated along `dim`, or nothing if they
// cannot be.
std::optional<Shape> JoinedShape(std::span<const TensorInfo> pieces, int dim) {
  const auto at = static_cast<size_t>(dim);
  Shape out = pieces.front().shape;
  for (const TensorInfo& piece : pieces.subspan(1)) {
    if (piece.shape.size() != out.size()) return std::nullopt;
    for (size_t i = 0; i < out.size(); ++i) {
      if (i != at && piece.shape[i] != out[i]) return std::nullopt;
    }
    if (__builtin_add_overflow(out[at], piece.shape[at], &out[at])) {
      return std::nullopt;
    }
  }
  return out;
}

// Returns the possible interpretations: copies first, then pieces along each
// dimension.
std::vector<Way> WaysOf(const LogicalTensor& tensor) {
  if (!AwaitsFit(tensor)) return {{tensor.shape, std::nullopt}};
  const std::span<const TensorInfo> shards = tensor.assembly->shards;
  const Shape& first = shards.front().shape;
  std::vector<Way> out;
  if (std::all_of(shards.begin(), shards.end(), [&](const TensorInfo& shard) {
        return shard.shape == first;
      })) {
    out.push_back({first, std::nullopt});
  }
  if (shards.size() == 1) return out;
  for (int dim = 0; dim < static_cast<int>(first.size()); ++dim) {
    std::optional<Shape> joined = JoinedShape(shards, dim);
    if (joined.has_value()) out.push_back({*std::move(joined), dim});
  }
  return out;
}

// Returns whether two shapes have their elements in the same order: their last
// dimensions are equal, and the dimensions before them have equal products.
// Tools often add or drop leading dimensions.
bool IsSame(const Shape& a, const Shape& b) {
  const size_t last = std::min(a.size(), b.size());
  const size_t equal = last == 0 ? 0 : last - 1;
  const auto count = [equal](const Shape& shape) {
    return ElementCount(std::span(shape).first(shape.size() - equal));
  };
  return std::equal(a.end() - static_cast<ptrdiff_t>(equal), a.end(),
                    b.end() - static_cast<ptrdiff_t>(equal)) &&
         count(a) == count(b);
}

bool AreCopies(std::span<const TensorInfo> shards) {
  return std::all_of(shards.begin(), shards.end(), [&](const auto& shard) {
    return CopyDifference(shard, shards.front()).empty();
  });
}

// Returns whether both sides have pieces that are cut in the same way. Their
// sizes do not distinguish them from copies. Each piece is then compared with
// the piece of the same rank, so that the dimension of the cut does not matter.
bool AreCutAlike(const LogicalTensor& golden, const LogicalTensor& target) {
  if (!AwaitsFit(golden) || !AwaitsFit(target)) return false;
  const auto& goldens = golden.assembly->shards;
  const auto& targets = target.assembly->shards;
  return goldens.size() == targets.size() && !golden.shape.empty() &&
         golden.assembly->ranks == target.assembly->ranks &&
         golden.shape == target.shape && !AreCopies(goldens);
}

struct Ways {
  Way golden;
  Way target;
};

std::optional<Ways> ChooseWays(const LogicalTensor& golden,
                               const LogicalTensor& target) {
  const std::vector<Way> goldens = WaysOf(golden);
  const std::vector<Way> targets = WaysOf(target);
  for (int joined_sides = 0; joined_sides <= 2; ++joined_sides) {
    for (const Way& a : goldens) {
      for (const Way& b : targets) {
        const int joined =
            (a.dim.has_value() ? 1 : 0) + (b.dim.has_value() ? 1 : 0);
        if (joined != joined_sides || !IsSame(a.shape, b.shape)) continue;
        if (joined == 0 && AreCutAlike(golden, target)) {
          return Ways{{a.shape, 0}, {b.shape, 0}};
        }
        return Ways{a, b};
      }
    }
  }
  return std::nullopt;
}

size_t MissingCount(const Assembly& assembly) {
  size_t out = 0;
  for (const RankRange& range : assembly.missing) {
    out += static_cast<size_t>(range.last - range.first) + 1;
  }
  return out;
}

LogicalTensor JoinPieces(const Assembly& waiting, int dim) {
  ShardJoiner joiner(fmt::format("concat({})", dim), waiting.group_number,
                     waiting.shards);
  const size_t count = waiting.shards.size();
  const size_t missing = MissingCount(waiting);
  if (missing > 0) {
    joiner.Remark(fmt::format("pieces on {} of {} ranks", waiting.ranks.size(),
                              waiting.ranks.size() + missing));
  }
  if (!joiner.CheckOverlap()) return std::move(joiner).Finish();
  if (waiting.shards.front().kind == RecordKind::kStatistics) {
    joiner.Fail(Assembly::Problem::kUnsupported,
                "statistics of shards are not put together");
  } else {
    joiner.Join({.axes = {{.dim = dim, .count = count}}});
  }
  return std::move(joiner).Finish();
}

LogicalTensor Unfit(const Assembly& waiting, bool needs_all) {
  ShardJoiner joiner(std::string(kLayout), waiting.group_number,
                     waiting.shards);
  if (!joiner.CheckOverlap()) return std::move(joiner).Finish();
  const TensorInfo& first = waiting.shards.front();
  for (const TensorInfo& shard : waiting.shards) {
    if (needs_all && shard.shape != first.shape) {
      joiner.Differ(CopyDifference(shard, first));
    }
  }
  if (!needs_all || joiner.CheckMissing(waiting.missing)) joiner.JoinFirst();
  return std::move(joiner).Finish();
}

// `way` is absent if no interpretation matches.
void Settle(const std::optional<Way>& way, LogicalTensor& tensor) {
  if (!AwaitsFit(tensor)) return;
  const std::shared_ptr<const Assembly> waiting = tensor.assembly;
  if (!way.has_value()) {
    tensor = Unfit(*waiting, /*needs_all=*/true);
  } else if (way->dim.has_value()) {
    tensor = JoinPieces(*waiting, *way->dim);
  } else {
    tensor = AssembleCopies(waiting->group_number,
                            waiting->ranks.size() + MissingCount(*waiting),
                            waiting->shards);
  }
}

}  // namespace

LogicalTensor AwaitFit(int32_t group_number, std::vector<RankRange> missing,
                       std::vector<TensorInfo> shards) {
  MSITD_CHECK(!shards.empty());
  Assembly out;
  out.layout = kLayout;
  out.group_number = group_number;
  out.missing = std::move(missing);
  out.awaits_fit = true;
  for (const TensorInfo& shard : shards) {
    if (out.ranks.empty() || out.ranks.back() != shard.key.rank) {
      out.ranks.push_back(shard.key.rank);
    }
  }
  LogicalTensor tensor{shards.front(), nullptr};
  out.shards = std::move(shards);
  tensor.assembly = std::make_shared<const Assembly>(std::move(out));
  return tensor;
}

void Fit(LogicalTensor& golden, LogicalTensor& target) {
  if (!AwaitsFit(golden) && !AwaitsFit(target)) return;
  const std::optional<Ways> ways = ChooseWays(golden, target);
  const auto way_of = [&ways](Way Ways::*side) {
    return ways.has_value() ? std::optional((*ways).*side) : std::nullopt;
  };
  Settle(way_of(&Ways::golden), golden);
  Settle(way_of(&Ways::target), target);
}

void FitAlone(LogicalTensor& tensor) {
  if (!AwaitsFit(tensor)) return;
  const std::shared_ptr<const Assembly> waiting = tensor.assembly;
  tensor = Unfit(*waiting, /*needs_all=*/false);
}

}  // namespace msitd::compare
