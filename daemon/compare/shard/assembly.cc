// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/compare/shard/shard_joiner.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;

// A list of ranks in a message goes on with "..." behind so many ranges.
constexpr size_t kRangesShown = 8;

// Returns the ranks of `expected` that none of `ranks` is.
std::vector<storage::RankRange> MissingRanks(RankRange expected,
                                             std::span<const int32_t> ranks) {
  std::vector<storage::RankRange> out;
  int32_t next = expected.first;
  for (const int32_t rank : ranks) {
    if (next < rank) out.push_back({next, rank - 1});
    next = rank + 1;
  }
  if (next < expected.end()) out.push_back({next, expected.end() - 1});
  return out;
}

void Pick(int32_t rank, ShardJoiner& joiner) {
  std::vector<TensorInfo> picked;
  std::copy_if(joiner.shards().begin(), joiner.shards().end(),
               std::back_inserter(picked), [rank](const TensorInfo& shard) {
                 return shard.key.rank == rank;
               });
  if (picked.empty()) {
    const std::span<const int32_t> ranks = joiner.ranks();
    std::string others =
        fmt::format(", rank{} {} {}", ranks.size() == 1 ? "" : "s",
                    RanksText(ranks), ranks.size() == 1 ? "has" : "have");
    joiner.CheckMissing({{rank, rank}}, others);
    return;
  }
  joiner.Keep(std::move(picked));
  joiner.SetRanks({rank});
  if (joiner.CheckOverlap()) joiner.Join(ShardGrid());
}

void CompareCopies(ShardJoiner& joiner) {
  const TensorInfo& first = joiner.shards().front();
  double sum = 0;
  for (const TensorInfo& shard : joiner.shards()) {
    joiner.Differ(CopyDifference(shard, first));
    sum += shard.summary.sum;
  }
  joiner.SetSumOfCopies(sum);
}

void Replicate(ShardJoiner& joiner) {
  joiner.Keep({joiner.shards().front()});
  joiner.Join(ShardGrid());
}

void PutTogether(const Layout& layout, ShardJoiner& joiner) {
  const TensorInfo& first = joiner.shards().front();
  ShardGrid grid;
  switch (layout.kind) {
    case v1::Layout::CONCAT:
    case v1::Layout::ZIGZAG:
      if (!joiner.CheckDim(layout.dim)) return;
      grid.axes = {{.dim = layout.dim,
                    .count = joiner.shards().size(),
                    .sections = layout.sections,
                    .is_zigzag = layout.kind == v1::Layout::ZIGZAG}};
      if (layout.dim < 0) {
        grid.axes[0].dim += static_cast<int>(first.shape.size());
      }
      joiner.Join(std::move(grid));
      break;
    case v1::Layout::SUM:
      grid.is_sum = true;
      grid.term_count = joiner.shards().size();
      joiner.Join(std::move(grid));
      break;
    default:
      Replicate(joiner);
      break;
  }
}

}  // namespace

LogicalTensor Assemble(const Layout& layout, int32_t place, RankRange expected,
                       std::vector<TensorInfo> shards) {
  MSITD_CHECK(!shards.empty());
  ShardJoiner joiner(layout.Text(), place, std::move(shards));
  // Those that are there may differ whatever is missing.
  if (layout.kind == v1::Layout::REPLICATED) CompareCopies(joiner);
  if (layout.kind == v1::Layout::PICK) {
    Pick(expected.first + layout.rank, joiner);
  } else if (joiner.CheckOverlap() &&
             joiner.CheckMissing(MissingRanks(expected, joiner.ranks()))) {
    PutTogether(layout, joiner);
  }
  return std::move(joiner).Finish();
}

LogicalTensor AssembleCopies(int32_t place, size_t rank_count,
                             std::vector<TensorInfo> copies) {
  MSITD_CHECK(!copies.empty());
  Layout layout;
  layout.kind = v1::Layout::REPLICATED;
  ShardJoiner joiner(layout.Text(), place, std::move(copies));
  joiner.LeaveOpen();
  if (joiner.ranks().size() < rank_count) {
    joiner.Remark(fmt::format("copies on {} of {} ranks", joiner.ranks().size(),
                              rank_count));
  }
  CompareCopies(joiner);
  if (joiner.CheckOverlap()) Replicate(joiner);
  return std::move(joiner).Finish();
}

std::span<const storage::TensorInfo> ShardsOf(const LogicalTensor& tensor) {
  if (tensor.assembly != nullptr) return tensor.assembly->shards;
  const storage::TensorInfo& alone = tensor;
  return {&alone, 1};
}

bool HasAllShards(const LogicalTensor& tensor) {
  return tensor.assembly == nullptr ||
         tensor.assembly->problem == Assembly::Problem::kNone;
}

bool HasHash(const LogicalTensor& tensor) {
  return tensor.assembly == nullptr ||
         (tensor.assembly->shards.size() == 1 && !tensor.assembly->is_sum());
}

bool HashesAgree(const LogicalTensor& a, const LogicalTensor& b) {
  if (a.dtype != b.dtype) return false;
  if (HasHash(a) && HasHash(b)) return a.hash == b.hash;
  if (HasHash(a) || HasHash(b)) return false;
  const Assembly& left = *a.assembly;
  const Assembly& right = *b.assembly;
  // The summary of a sum, which a row needs, comes from its bytes.
  if (left.is_sum() || left.grid != right.grid) return false;
  return std::equal(left.shards.begin(), left.shards.end(),
                    right.shards.begin(), right.shards.end(),
                    [](const TensorInfo& one, const TensorInfo& other) {
                      return one.shape == other.shape && one.hash == other.hash;
                    });
}

std::string AssemblyText(const Assembly& assembly) {
  return fmt::format("{} of rank{} {}", assembly.layout,
                     assembly.ranks.size() == 1 ? "" : "s",
                     RanksText(assembly.ranks));
}

std::string RanksText(std::span<const int32_t> ranks) {
  return RanksText(storage::ToRanges(ranks));
}

std::string RanksText(std::span<const storage::RankRange> ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == kRangesShown) return out + ",...";
    if (i > 0) out += ',';
    out += fmt::format("{}", ranks[i].first);
    if (ranks[i].last > ranks[i].first) {
      out += fmt::format("-{}", ranks[i].last);
    }
  }
  return out;
}

}  // namespace msitd::compare
