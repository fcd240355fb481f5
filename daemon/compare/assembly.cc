// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/dtype.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;

// A list of ranks in a message goes on with "..." behind so many ranges.
constexpr size_t kRangesShown = 8;

std::string ShapeOf(const TensorInfo& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ","));
}

// Returns the ranks of `expected` that none of `ranks` is; enough for a
// message.
std::vector<int32_t> MissingRanks(RankRange expected,
                                  std::span<const int32_t> ranks) {
  std::vector<int32_t> out;
  size_t next = 0;
  for (int32_t rank = expected.first; rank < expected.end(); ++rank) {
    if (next < ranks.size() && ranks[next] == rank) {
      ++next;
    } else {
      out.push_back(rank);
      // Enough for a message, however large the run is.
      if (out.size() > 1024) return out;
    }
  }
  return out;
}

std::string HashText(const ContentHash& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

// Empty if both are the same but for the bytes.
std::string TypeDifference(const TensorInfo& shard, const TensorInfo& first) {
  if (shard.dtype == first.dtype) return "";
  return fmt::format("rank {} has {}, rank {} has {}", first.key.rank,
                     DTypeName(first.dtype), shard.key.rank,
                     DTypeName(shard.dtype));
}

std::string ShapeDifference(const TensorInfo& shard, const TensorInfo& first) {
  return fmt::format("rank {} has shape {}, rank {} has {}", first.key.rank,
                     ShapeOf(first), shard.key.rank, ShapeOf(shard));
}

class Assembler {
 public:
  Assembler(const Layout& layout, int32_t place, RankRange expected,
            std::vector<TensorInfo> shards)
      : expected_(expected), whole_{shards.front(), nullptr} {
    out_.layout = layout;
    out_.place = place;
    out_.shards = std::move(shards);
    for (const TensorInfo& shard : out_.shards) {
      if (out_.ranks.empty() || out_.ranks.back() != shard.key.rank) {
        out_.ranks.push_back(shard.key.rank);
      }
    }
  }

  LogicalTensor Finish() && {
    if (out_.layout.kind == v1::Layout::PICK) {
      Pick();
    } else if (CheckPresence()) {
      PutTogether();
    }
    if (out_.problem != Assembly::Problem::kNone) {
      out_.shards.resize(1);
      whole_.knows_summary = false;
    }
    whole_.assembly = std::make_shared<const Assembly>(std::move(out_));
    return std::move(whole_);
  }

 private:
  void Fail(Assembly::Problem problem, std::string text) {
    out_.problem = problem;
    out_.problem_text = std::move(text);
  }

  void PutTogether() {
    switch (out_.layout.kind) {
      case v1::Layout::CONCAT:
        if (CheckDim() && CheckTypes()) Concat();
        break;
      case v1::Layout::SUM:
        if (CheckTypes()) Sum();
        break;
      default:
        Replicate();
        break;
    }
  }

  // Every rank of the group has the tensor, and has it once.
  bool CheckPresence() {
    if (!CheckOverlap()) return false;
    const std::vector<int32_t> missing = MissingRanks(expected_, out_.ranks);
    if (missing.empty()) return true;
    Fail(Assembly::Problem::kShardsAmiss,
         fmt::format("rank{} {} {} no such tensor",
                     missing.size() == 1 ? "" : "s", RanksText(missing),
                     missing.size() == 1 ? "has" : "have"));
    return false;
  }

  bool CheckOverlap() {
    for (size_t i = 1; i < out_.shards.size(); ++i) {
      const TensorKey& a = out_.shards[i - 1].key;
      const TensorKey& b = out_.shards[i].key;
      if (a.rank != b.rank) continue;
      Fail(Assembly::Problem::kShardsAmiss,
           fmt::format("shards overlap: rank {} has one on {} and one on {}",
                       a.rank, a.device, b.device));
      return false;
    }
    return true;
  }

  void Pick() {
    const int32_t rank = expected_.first + out_.layout.rank;
    std::erase_if(out_.shards, [rank](const TensorInfo& shard) {
      return shard.key.rank != rank;
    });
    if (out_.shards.empty()) {
      out_.shards.push_back(whole_);
      Fail(Assembly::Problem::kShardsAmiss,
           fmt::format("rank {} has no such tensor, rank{} {} {}", rank,
                       out_.ranks.size() == 1 ? "" : "s", RanksText(out_.ranks),
                       out_.ranks.size() == 1 ? "has" : "have"));
      return;
    }
    out_.ranks = {rank};
    if (!CheckOverlap()) return;
    static_cast<TensorInfo&>(whole_) = out_.shards.front();
  }

  void Replicate() {
    const TensorInfo& first = out_.shards.front();
    for (const TensorInfo& shard : out_.shards) {
      out_.difference = TypeDifference(shard, first);
      if (!out_.difference.empty()) break;
      if (shard.shape != first.shape) {
        out_.difference = ShapeDifference(shard, first);
        break;
      }
      if (shard.hash != first.hash) {
        out_.difference = fmt::format(
            "rank {} has other bytes than rank {}: hash {} against "
            "{}",
            shard.key.rank, first.key.rank, HashText(shard.hash),
            HashText(first.hash));
        break;
      }
    }
    out_.shards.resize(1);
  }

  // Makes `dim` count from the first.
  bool CheckDim() {
    const auto dims = static_cast<int>(out_.shards.front().shape.size());
    out_.dim = out_.layout.dim < 0 ? out_.layout.dim + dims : out_.layout.dim;
    if (out_.dim >= 0 && out_.dim < dims) return true;
    Fail(Assembly::Problem::kShardsUnfit,
         fmt::format("shape {} has no dimension {}",
                     ShapeOf(out_.shards.front()), out_.layout.dim));
    return false;
  }

  // Types are equal, and so are shapes but for `dim` of kConcat.
  bool CheckTypes() {
    const TensorInfo& first = out_.shards.front();
    for (const TensorInfo& shard : out_.shards) {
      std::string difference = TypeDifference(shard, first);
      std::vector<int64_t> shape = shard.shape;
      if (!out_.is_sum() && shape.size() == first.shape.size()) {
        shape[out_.dim] = first.shape[out_.dim];
      }
      if (difference.empty() && shape != first.shape) {
        difference = ShapeDifference(shard, first);
      }
      if (difference.empty()) continue;
      Fail(Assembly::Problem::kShardsUnfit, std::move(difference));
      return false;
    }
    return true;
  }

  void Concat() {
    for (size_t i = 1; i < out_.shards.size(); ++i) {
      const TensorInfo& shard = out_.shards[i];
      // Of tensors without elements a dimension may be anything.
      if (__builtin_add_overflow(whole_.shape[out_.dim], shard.shape[out_.dim],
                                 &whole_.shape[out_.dim])) {
        Fail(Assembly::Problem::kShardsUnfit,
             fmt::format("dimension {} is longer than 2^63 - 1", out_.dim));
        return;
      }
      whole_.tensor_bytes += shard.tensor_bytes;
      whole_.summary = Merge(whole_.summary, shard.summary);
      whole_.has_bytes = whole_.has_bytes && shard.has_bytes;
    }
    if (out_.shards.size() > 1) whole_.hash = ContentHash();
  }

  void Sum() {
    for (const TensorInfo& shard : out_.shards) {
      whole_.has_bytes = whole_.has_bytes && shard.has_bytes;
    }
    whole_.summary = Summary();
    whole_.knows_summary = false;
    whole_.hash = ContentHash();
  }

  const RankRange expected_;
  LogicalTensor whole_;
  Assembly out_;
};

}  // namespace

LogicalTensor Assemble(const Layout& layout, int32_t place, RankRange expected,
                       std::vector<TensorInfo> shards) {
  MSITD_CHECK(!shards.empty());
  return Assembler(layout, place, expected, std::move(shards)).Finish();
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
  if (left.is_sum() || right.is_sum() || left.dim != right.dim) return false;
  return std::equal(left.shards.begin(), left.shards.end(),
                    right.shards.begin(), right.shards.end(),
                    [](const TensorInfo& one, const TensorInfo& other) {
                      return one.shape == other.shape && one.hash == other.hash;
                    });
}

std::string AssemblyText(const Assembly& assembly) {
  return fmt::format("{} of rank{} {}", assembly.layout.Text(),
                     assembly.ranks.size() == 1 ? "" : "s",
                     RanksText(assembly.ranks));
}

std::string RanksText(std::span<const int32_t> ranks) {
  std::string out;
  size_t ranges = 0;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (ranges++ == kRangesShown) return out + ",...";
    if (!out.empty()) out += ',';
    out += fmt::format("{}", ranks[begin]);
    if (end - begin > 1) out += fmt::format("-{}", ranks[end - 1]);
    begin = end;
  }
  return out;
}

}  // namespace msitd::compare
