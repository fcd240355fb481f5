// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/shard_joiner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/dtype.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;

std::string ShapeOf(const TensorInfo& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ","));
}

// Returns an empty string if kinds and types are equal.
std::string TypeDifference(const TensorInfo& shard, const TensorInfo& first) {
  if (shard.kind != first.kind) {
    return fmt::format("rank {} has a {}, rank {} has a {}", first.key.rank,
                       RecordKindName(first.kind), shard.key.rank,
                       RecordKindName(shard.kind));
  }
  if (shard.dtype == first.dtype) return "";
  return fmt::format("rank {} has {}, rank {} has {}", first.key.rank,
                     DTypeName(first.dtype), shard.key.rank,
                     DTypeName(shard.dtype));
}

std::string ShapeDifference(const TensorInfo& shard, const TensorInfo& first) {
  return fmt::format("rank {} has shape {}, rank {} has {}", first.key.rank,
                     ShapeOf(first), shard.key.rank, ShapeOf(shard));
}

}  // namespace

ShardJoiner::ShardJoiner(std::string layout, int32_t group_number,
                         std::vector<TensorInfo> shards)
    : whole_{shards.front(), nullptr} {
  out_.layout = std::move(layout);
  out_.group_number = group_number;
  out_.shards = std::move(shards);
  for (const TensorInfo& shard : out_.shards) {
    if (out_.ranks.empty() || out_.ranks.back() != shard.key.rank) {
      out_.ranks.push_back(shard.key.rank);
    }
  }
}

bool ShardJoiner::Fail(Assembly::Problem problem, std::string text) {
  out_.problem = problem;
  out_.problem_text = std::move(text);
  return false;
}

bool ShardJoiner::CheckOverlap() {
  for (size_t i = 1; i < out_.shards.size(); ++i) {
    const TensorKey& a = out_.shards[i - 1].key;
    const TensorKey& b = out_.shards[i].key;
    if (a.rank != b.rank) continue;
    return Fail(Assembly::Problem::kShardsAmiss,
                fmt::format("shards overlap: rank {} has one on {} and one on "
                            "{}",
                            a.rank, a.device, b.device));
  }
  return true;
}

bool ShardJoiner::CheckMissing(std::vector<RankRange> missing,
                               std::string_view remark) {
  if (missing.empty()) return true;
  const bool is_one =
      missing.size() == 1 && missing.front().first == missing.front().last;
  std::string text =
      fmt::format("rank{} {} {} no such tensor{}", is_one ? "" : "s",
                  RankSet(missing).Text(), is_one ? "has" : "have", remark);
  out_.missing = std::move(missing);
  return Fail(Assembly::Problem::kShardsAmiss, std::move(text));
}

bool ShardJoiner::CheckDim(int dim) {
  const auto dims = static_cast<int>(out_.shards.front().shape.size());
  if (dim >= -dims && dim < dims) return true;
  return Fail(Assembly::Problem::kShardsUnfit,
              fmt::format("shape {} has no dimension {}",
                          ShapeOf(out_.shards.front()), dim));
}

void ShardJoiner::Keep(std::vector<TensorInfo> shards) {
  MSITD_CHECK(!shards.empty());
  out_.shards = std::move(shards);
  static_cast<TensorInfo&>(whole_) = out_.shards.front();
}

void ShardJoiner::Differ(std::string difference) {
  if (out_.difference.empty()) out_.difference = std::move(difference);
}

void ShardJoiner::CompareCopies() {
  std::vector<const TensorInfo*> copies;
  copies.reserve(out_.shards.size());
  for (const TensorInfo& shard : out_.shards) copies.push_back(&shard);
  CompareCopies(copies);
  if (out_.difference.empty() || copies.size() > kCopiesMax) return;
  for (const TensorInfo* const copy : copies) {
    out_.copies.push_back(
        {copy->key.rank, copy->dtype, copy->shape, copy->hash});
  }
}

void ShardJoiner::CompareCopies(const std::vector<const TensorInfo*>& copies) {
  const auto is_like = [](const TensorInfo& a, const TensorInfo& b) {
    return CopyDifference(a, b).empty();
  };
  const TensorInfo* most = copies.front();
  const auto are_like = [&](const TensorInfo& one) {
    return static_cast<size_t>(std::count_if(
        copies.begin(), copies.end(),
        [&](const TensorInfo* copy) { return is_like(*copy, one); }));
  };
  const size_t like_first = are_like(*most);
  if (like_first == copies.size()) return;
  // Boyer-Moore majority vote: a form that more than half of the copies have is
  // the candidate after a single pass.
  size_t lead = 0;
  for (const TensorInfo* const copy : copies) {
    if (lead == 0) most = copy;
    lead = is_like(*copy, *most) ? lead + 1 : lead - 1;
  }
  const bool is_most = are_like(*most) * 2 > copies.size();
  most = is_most ? *std::find_if(copies.begin(), copies.end(),
                                 [&](const TensorInfo* copy) {
                                   return is_like(*copy, *most);
                                 })
                 : copies.front();
  for (const TensorInfo* const copy : copies) {
    std::string difference = CopyDifference(*copy, *most);
    if (difference.empty()) continue;
    std::vector<int32_t>& odd = out_.odd_copies;
    const int32_t rank = copy->key.rank;
    const auto at = std::lower_bound(odd.begin(), odd.end(), rank);
    if (is_most && (at == odd.end() || *at != rank)) odd.insert(at, rank);
    Differ(std::move(difference));
  }
}

void ShardJoiner::AddUpCopies() {
  for (const TensorInfo& shard : out_.shards) {
    out_.sum_of_copies += shard.summary.sum;
  }
}

bool ShardJoiner::JoinFirst() {
  Keep({out_.shards.front()});
  return Join(ShardGrid());
}

bool ShardJoiner::Join(ShardGrid grid) {
  out_.grid = std::move(grid);
  MSITD_CHECK(out_.shards.size() ==
              out_.grid.term_count * out_.grid.shards_per_term());
  if (!CheckTypes() || !CheckSections()) return false;
  Concatenate();
  if (out_.problem != Assembly::Problem::kNone) return false;
  if (out_.grid.is_sum) AddUp();
  return true;
}

// Requires equal types and equal shapes. Along an axis of the grid, lengths may
// differ, but shards with the same index along this axis must have equal
// lengths.
bool ShardJoiner::CheckTypes() {
  const std::vector<TensorInfo>& shards = out_.shards;
  const TensorInfo& first = shards.front();
  for (size_t i = 0; i < shards.size(); ++i) {
    std::string difference = TypeDifference(shards[i], first);
    std::vector<int64_t> shape = shards[i].shape;
    size_t step = out_.grid.shards_per_term();
    for (const ShardGrid::Axis& axis : out_.grid.axes) {
      if (shape.size() != first.shape.size()) break;
      step /= axis.count;
      // The shard with the same index along this axis and index 0 along the
      // others.
      const TensorInfo& leader = shards[i / step % axis.count * step];
      if (difference.empty() && shape[axis.dim] != leader.shape[axis.dim]) {
        difference = ShapeDifference(shards[i], leader);
      }
      shape[axis.dim] = first.shape[axis.dim];
    }
    if (difference.empty() && shape != first.shape) {
      difference = ShapeDifference(shards[i], first);
    }
    if (difference.empty()) continue;
    return Fail(Assembly::Problem::kShardsUnfit, std::move(difference));
  }
  return true;
}

// Requires that each shard can be divided into its sections.
bool ShardJoiner::CheckSections() {
  size_t step = out_.grid.shards_per_term();
  for (const ShardGrid::Axis& axis : out_.grid.axes) {
    step /= axis.count;
    if (axis.sections.empty()) continue;
    const int64_t total =
        std::accumulate(axis.sections.begin(), axis.sections.end(), int64_t{0});
    for (size_t i = 0; i < axis.count; ++i) {
      const TensorInfo& shard = out_.shards[i * step];
      if (shard.shape[axis.dim] % total == 0) continue;
      return Fail(Assembly::Problem::kShardsUnfit,
                  fmt::format("rank {} has shape {}: {} is no multiple of the "
                              "{} that the sections have together",
                              shard.key.rank, ShapeOf(shard),
                              shard.shape[axis.dim], total));
    }
  }
  return true;
}

void ShardJoiner::Concatenate() {
  const size_t count = out_.grid.shards_per_term();
  for (size_t i = 1; i < count; ++i) {
    const TensorInfo& shard = out_.shards[i];
    whole_.tensor_bytes += shard.tensor_bytes;
    whole_.summary = Merge(whole_.summary, shard.summary);
    whole_.has_bytes = whole_.has_bytes && shard.has_bytes;
  }
  size_t step = count;
  for (const ShardGrid::Axis& axis : out_.grid.axes) {
    step /= axis.count;
    int64_t& length = whole_.shape[axis.dim];
    for (size_t i = 1; i < axis.count; ++i) {
      // Dimensions of tensors without elements can have any length.
      if (__builtin_add_overflow(length, out_.shards[i * step].shape[axis.dim],
                                 &length)) {
        Fail(Assembly::Problem::kShardsUnfit,
             fmt::format("dimension {} is longer than 2^63 - 1", axis.dim));
        return;
      }
    }
  }
  if (count > 1) whole_.hash = ContentHash();
}

void ShardJoiner::AddUp() {
  for (const TensorInfo& shard : out_.shards) {
    whole_.has_bytes = whole_.has_bytes && shard.has_bytes;
  }
  whole_.summary = Summary();
  whole_.knows_summary = false;
  whole_.hash = ContentHash();
}

LogicalTensor ShardJoiner::Finish() && {
  if (out_.problem != Assembly::Problem::kNone) {
    out_.shards.resize(1);
    out_.grid = ShardGrid();
    static_cast<TensorInfo&>(whole_) = out_.shards.front();
    whole_.knows_summary = false;
  }
  // The assembly is not const, because LeanTable may change it before it is
  // shared.
  whole_.assembly = std::make_shared<Assembly>(std::move(out_));
  return std::move(whole_);
}

std::string CopyDifference(const TensorInfo& shard, const TensorInfo& first) {
  std::string out = TypeDifference(shard, first);
  if (!out.empty()) return out;
  if (shard.shape != first.shape) return ShapeDifference(shard, first);
  if (shard.hash == first.hash) return out;
  return fmt::format("rank {} has other bytes than rank {}: hash {} against {}",
                     shard.key.rank, first.key.rank, HashText(shard.hash),
                     HashText(first.hash));
}

}  // namespace msitd::compare
