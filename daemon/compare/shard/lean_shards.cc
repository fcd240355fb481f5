// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/lean_shards.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "daemon/compare/shard/sample_places.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/compute/digest.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;

ContentHash DigestOf(std::span<const TensorInfo> shards) {
  std::vector<uint64_t> words;
  for (const TensorInfo& shard : shards) {
    words.push_back(shard.shape.size());
    words.insert(words.end(), shard.shape.begin(), shard.shape.end());
    words.push_back(shard.hash.low);
    words.push_back(shard.hash.high);
  }
  return compute::DigestPart(std::as_bytes(std::span(words)), DType::kUint8)
      .hash;
}

template <typename List>
std::shared_ptr<const List> Shared(
    List list, std::map<List, std::shared_ptr<const List>>& known) {
  const auto [found, is_new] = known.try_emplace(std::move(list));
  if (is_new) found->second = std::make_shared<const List>(found->first);
  return found->second;
}

// `assembly` still has all its shards.
LeanShards Describe(const Assembly& assembly, bool has_bytes) {
  LeanShards out;
  out.digest = DigestOf(assembly.shards);
  if (has_bytes) return out;
  out.have_bytes_or_samples =
      std::all_of(assembly.shards.begin(), assembly.shards.end(),
                  [](const TensorInfo& shard) {
                    return shard.has_bytes || shard.has_sample;
                  });
  out.has_sample = out.have_bytes_or_samples &&
                   HasJoinedSample(assembly.grid, assembly.shards);
  return out;
}

}  // namespace

void LeanTable::MakeLean(LogicalTensor& tensor) {
  if (tensor.assembly == nullptr) return;
  MSITD_CHECK(tensor.assembly.use_count() == 1);
  MSITD_CHECK(!tensor.assembly->awaits_fit);
  // The object is not const; see ShardJoiner::Finish.
  auto& assembly = const_cast<Assembly&>(*tensor.assembly);
  assembly.shared_ranks = Shared(std::exchange(assembly.ranks, {}), ranks_);
  if (assembly.shards.size() == 1) return;
  LeanShards lean = Describe(assembly, tensor.has_bytes);
  Places places;
  places.reserve(assembly.shards.size());
  for (const TensorInfo& shard : assembly.shards) {
    places.push_back({shard.key.rank, shard.key.device});
  }
  lean.places = Shared(std::move(places), places_);
  assembly.lean = std::move(lean);
  assembly.shards.resize(1);
  assembly.shards.shrink_to_fit();
}

ContentHash ShardDigest(const Assembly& assembly) {
  return assembly.lean.has_value() ? assembly.lean->digest
                                   : DigestOf(assembly.shards);
}

absl::StatusOr<std::vector<TensorInfo>> LoadShards(const LogicalTensor& tensor,
                                                   storage::RunReader& run,
                                                   storage::StopCheck stop) {
  MSITD_CHECK(tensor.assembly != nullptr && tensor.assembly->lean.has_value());
  const LeanShards& lean = *tensor.assembly->lean;
  const TensorKey& key = tensor.key;
  Selector selector;
  std::map<LeanShards::ShardKey, size_t> numbers;
  for (size_t i = 0; i < lean.places->size(); ++i) {
    const LeanShards::ShardKey& place = (*lean.places)[i];
    numbers.emplace(place, i);
    selector.ranks.push_back(place.rank);
  }
  selector.tokens = {{key.token, key.token}};
  // The op is used as a pattern here, which may also match other ops.
  selector.op_patterns = {key.op};
  selector.ios = {key.io};
  selector.kinds = {tensor.kind};
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         run.Scan(std::move(selector), ""));
  std::vector<TensorInfo> out(lean.places->size());
  size_t count = 0;
  TensorInfo shard;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(shard, stop));
    if (!more) break;
    if (shard.key.op != key.op || shard.key.call != key.call ||
        shard.key.io != key.io || shard.key.index != key.index) {
      continue;
    }
    const auto number = numbers.find({shard.key.rank, shard.key.device});
    if (number == numbers.end()) continue;
    out[number->second] = shard;
    ++count;
  }
  if (count != out.size()) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      "{} of its {} shards are not there any more",
                      out.size() - count, out.size());
  }
  if (DigestOf(out) != lean.digest) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "its shards are not those that it was made of");
  }
  return out;
}

}  // namespace msitd::compare
