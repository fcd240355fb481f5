// SPDX-License-Identifier: Apache-2.0
#include "storage/merge/merged_run_reader.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/resource_name.h"
#include "protos/os/at_once.h"
#include "protos/status/status.h"
#include "storage/face/run_sums.h"
#include "storage/merge/merged_scan.h"
#include "storage/merge/share_place.h"
#include "storage/merge/split_rank.h"

namespace msitd::storage {
namespace {

static_assert(kMergedPlacesMax <= uint64_t{1} << (64 - kShareShift));

// Parts of one share, stored with their locations within the share.
class ShareBatch final : public PartBatch {
 public:
  ShareBatch(RunReader& reader, std::vector<PartInfo> parts,
             AlignedBuffer& buffer)
      : parts_(std::move(parts)), batch_(reader.ReadParts(parts_, buffer)) {}

  size_t size() const override { return batch_->size(); }
  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override {
    return batch_->Read(index);
  }

 private:
  const std::vector<PartInfo> parts_;
  const std::unique_ptr<PartBatch> batch_;
};

bool AreFar(const std::vector<RunShare>& shares) {
  return std::any_of(shares.begin(), shares.end(), [](const RunShare& share) {
    return share.reader->is_far();
  });
}

// Returns the results of `ask` for each share, which are queried concurrently
// if any share is far. Errors: that of the first share that fails, with its
// place.
template <typename T, typename Ask>
absl::StatusOr<std::vector<T>> OfEach(const std::vector<RunShare>& shares,
                                      const Ask& ask) {
  std::vector<absl::StatusOr<T>> answers(shares.size());
  ForEachAtOnce(shares.size(), AreFar(shares) ? kSharesAtOnceMax : 1,
                [&](size_t i) { answers[i] = ask(*shares[i].reader); });
  std::vector<T> out;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (!answers[i].ok()) {
      return Annotate(answers[i].status(), shares[i].place);
    }
    out.push_back(*std::move(answers[i]));
  }
  return out;
}

class MergedRunReader final : public RunReader {
 public:
  // `share_of` has all ranks. The share of split ranks is not used.
  MergedRunReader(std::string name, std::vector<RunShare> shares,
                  std::map<int32_t, size_t> share_of,
                  std::map<int32_t, SplitRank> split_ranks)
      : name_(std::move(name)),
        shares_(std::move(shares)),
        share_of_(std::move(share_of)),
        split_ranks_(std::move(split_ranks)) {}

  const std::string& name() const override { return name_; }

  bool is_far() const override { return AreFar(shares_); }

  absl::StatusOr<RunInfo> GetInfo() override {
    MSITD_ASSIGN_OR_RETURN(
        std::vector<RunInfo> infos,
        OfEach<RunInfo>(shares_, [](RunReader& run) { return run.GetInfo(); }));
    RunInfo out = std::move(infos.front());
    for (RunInfo& info : std::span(infos).subspan(1)) {
      out.spec.world_size = std::max(out.spec.world_size, info.spec.world_size);
      out.spec.labels.merge(info.spec.labels);
      out.sealed &= info.sealed;
      out.create_time_ns = std::min(out.create_time_ns, info.create_time_ns);
      out.seal_time_ns = std::max(out.seal_time_ns, info.seal_time_ns);
      out.counters = Sum(out.counters, info.counters);
    }
    if (!out.sealed) out.seal_time_ns = 0;
    return out;
  }

  absl::StatusOr<std::vector<RankCoverage>> ListCoverage() override {
    MSITD_ASSIGN_OR_RETURN(const auto all, OfEach<std::vector<RankCoverage>>(
                                               shares_, [](RunReader& run) {
                                                 return run.ListCoverage();
                                               }));
    std::map<int32_t, RankCoverage> by_rank;
    for (const std::vector<RankCoverage>& coverage : all) {
      for (const RankCoverage& added : coverage) {
        RankCoverage& rank = by_rank[added.rank];
        rank.rank = added.rank;
        rank.stream_count += added.stream_count;
        rank.total = Sum(rank.total, added.total);
        rank.repeats = Sum(rank.repeats, added.repeats);
      }
    }
    std::vector<RankCoverage> out;
    out.reserve(by_rank.size());
    for (const auto& [rank, coverage] : by_rank) out.push_back(coverage);
    return out;
  }

  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    std::vector<int32_t> ranks;
    ranks.reserve(share_of_.size());
    for (const auto& [rank, share] : share_of_) ranks.push_back(rank);
    return ranks;
  }

  absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      const Selector& selector) override {
    MSITD_ASSIGN_OR_RETURN(auto all, OfEach<std::vector<Coordinate>>(
                                         shares_, [&selector](RunReader& run) {
                                           return run.ListCoordinates(selector);
                                         }));
    std::vector<Coordinate> out;
    for (std::vector<Coordinate>& added : all) {
      out.insert(out.end(), std::make_move_iterator(added.begin()),
                 std::make_move_iterator(added.end()));
      added = std::vector<Coordinate>();
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Coordinate& a, const Coordinate& b) {
                       return a.rank < b.rank;
                     });
    if (!split_ranks_.empty()) SortSplitRanks(out);
    return out;
  }

  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    MSITD_ASSIGN_OR_RETURN(auto lists, OfEach<std::vector<std::string>>(
                                           shares_, [](RunReader& run) {
                                             return run.ListPlacements();
                                           }));
    std::set<std::string> all;
    for (std::vector<std::string>& added : lists) {
      all.insert(std::make_move_iterator(added.begin()),
                 std::make_move_iterator(added.end()));
    }
    if (all.size() > kRunPlacementsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "run {} has more than {} placements", name_,
                        kRunPlacementsMax);
    }
    return std::vector<std::string>(all.begin(), all.end());
  }

  absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      Selector selector, std::string_view position) override {
    std::vector<RankStretch> stretches = StretchesOf(selector);
    return MergedScan::Begin(shares_, std::move(stretches), std::move(selector),
                             position);
  }

  absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) override {
    const auto share = share_of_.find(key.rank);
    if (share == share_of_.end()) {
      return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                                   "run {} has no rank {}", name_, key.rank),
                        ErrorReason::kTensorNotFound);
    }
    const auto split = split_ranks_.find(key.rank);
    return split == split_ranks_.end() ? GetTensorAt(share->second, key)
                                       : GetTensorOf(split->second, key);
  }

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartInfo& part, AlignedBuffer& buffer) override {
    MSITD_RETURN_IF_ERROR(CheckShare(part));
    return shares_[ShareOf(part)].reader->ReadPart(ToSharePlace(part), buffer);
  }

  std::unique_ptr<PartBatch> ReadParts(std::span<const PartInfo> parts,
                                       AlignedBuffer& buffer) override {
    const size_t share = parts.empty() ? 0 : ShareOf(parts.front());
    std::vector<PartInfo> first;
    for (const PartInfo& part : parts) {
      if (ShareOf(part) != share || first.size() == kBatchPartsMax) break;
      first.push_back(ToSharePlace(part));
    }
    MSITD_CHECK(share < shares_.size());
    return std::make_unique<ShareBatch>(*shares_[share].reader,
                                        std::move(first), buffer);
  }

  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) override {
    const size_t share = ShareOf(tensor.parts.at(part));
    MSITD_RETURN_IF_ERROR(CheckShare(tensor.parts[part]));
    TensorInfo there = tensor;
    for (PartInfo& p : there.parts) p = ToSharePlace(p);
    return shares_[share].reader->ReadSample(there, part, buffer);
  }

  std::unique_ptr<PartBatch> ReadSamples(std::span<const SamplePart> samples,
                                         AlignedBuffer& buffer) override {
    const size_t share = samples.empty() ? 0 : ShareOf(samples.front().part);
    MSITD_CHECK(share < shares_.size());
    std::vector<SamplePart> first;
    for (const SamplePart& sample : samples) {
      if (ShareOf(sample.part) != share || first.size() == kBatchPartsMax) {
        break;
      }
      first.push_back(sample);
      first.back().part = ToSharePlace(sample.part);
    }
    return shares_[share].reader->ReadSamples(first, buffer);
  }

 private:
  absl::StatusOr<TensorInfo> GetTensorAt(size_t share, const TensorKey& key) {
    absl::StatusOr<TensorInfo> tensor = shares_[share].reader->GetTensor(key);
    if (!tensor.ok()) return Annotate(tensor.status(), shares_[share].place);
    MSITD_RETURN_IF_ERROR(ToMergedPlaces(share, *tensor));
    return tensor;
  }

  // Queries the shares that may have the token of the key.
  absl::StatusOr<TensorInfo> GetTensorOf(const SplitRank& split,
                                         const TensorKey& key) {
    if (const SplitDevice* const device = split.Find(key.device)) {
      for (const TokenSpan& span : device->spans) {
        if (key.token < span.first || key.token > span.last) continue;
        absl::StatusOr<TensorInfo> tensor = GetTensorAt(span.share, key);
        if (!HasReason(tensor.status(), ErrorReason::kTensorNotFound)) {
          return tensor;
        }
      }
    }
    return WithReason(
        MakeStatus(absl::StatusCode::kNotFound, "there is no tensor {}",
                   FormatTensorName(name_, key)),
        ErrorReason::kTensorNotFound);
  }

  // Sorts the coordinates of split ranks among `coordinates`, which are sorted
  // by rank, and removes those that several shares have listed.
  void SortSplitRanks(std::vector<Coordinate>& coordinates) const {
    for (const auto& [rank, split] : split_ranks_) {
      const auto [begin, end] = std::equal_range(
          coordinates.begin(), coordinates.end(), Coordinate{rank, "", 0},
          [](const Coordinate& a, const Coordinate& b) {
            return a.rank < b.rank;
          });
      split.Sort(std::span(begin, end));
    }
    coordinates.erase(std::unique(coordinates.begin(), coordinates.end()),
                      coordinates.end());
  }

  absl::Status CheckShare(const PartInfo& part) const {
    if (ShareOf(part) < shares_.size()) return absl::OkStatus();
    return MakeStatus(absl::StatusCode::kInternal,
                      "a part lies in place {} of {}", ShareOf(part),
                      shares_.size());
  }

  // The list of ranks of a selector never exceeds its maximum length.
  std::vector<RankStretch> StretchesOf(const Selector& selector) const {
    std::vector<RankStretch> out;
    for (const auto& [rank, share] : share_of_) {
      if (!selector.HasRank(rank)) continue;
      const auto split = split_ranks_.find(rank);
      if (split != split_ranks_.end()) {
        out.push_back({share, {rank}, &split->second});
        continue;
      }
      if (out.empty() || out.back().split != nullptr ||
          out.back().share != share ||
          out.back().ranks.size() == Selector::kRanksMax) {
        out.push_back({share, {}});
      }
      out.back().ranks.push_back(rank);
    }
    return out;
  }

  const std::string name_;
  const std::vector<RunShare> shares_;
  const std::map<int32_t, size_t> share_of_;  // By rank.
  const std::map<int32_t, SplitRank> split_ranks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunReader>> MergeRun(
    std::string name, std::vector<RunShare> shares) {
  if (shares.empty() || shares.size() > kMergedPlacesMax) {
    return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                 "run {} lies in {} places, of 1 to {}", name,
                                 shares.size(), kMergedPlacesMax),
                      ErrorReason::kFieldInvalid);
  }
  MSITD_ASSIGN_OR_RETURN(
      const auto all, OfEach<std::vector<int32_t>>(shares, [](RunReader& run) {
        return run.ListRanks();
      }));
  std::map<int32_t, size_t> share_of;
  std::map<int32_t, std::vector<size_t>> shares_of_split;
  for (size_t i = 0; i < shares.size(); ++i) {
    for (const int32_t rank : all[i]) {
      const auto [at, is_new] = share_of.emplace(rank, i);
      if (is_new) continue;
      std::vector<size_t>& holders = shares_of_split[rank];
      if (holders.empty()) holders.push_back(at->second);
      holders.push_back(i);
    }
  }
  MSITD_ASSIGN_OR_RETURN(auto split_ranks,
                         FindSplitRanks(name, shares, shares_of_split));
  return std::make_unique<MergedRunReader>(std::move(name), std::move(shares),
                                           std::move(share_of),
                                           std::move(split_ranks));
}

}  // namespace msitd::storage
