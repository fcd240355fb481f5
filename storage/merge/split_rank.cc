// SPDX-License-Identifier: Apache-2.0
#include "storage/merge/split_rank.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "protos/base/record_kind.h"
#include "protos/base/selector.h"
#include "protos/os/at_once.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// Number of ranks whose coordinates are listed by one request.
constexpr size_t kRanksPerRequest = 64;

static_assert(kRanksPerRequest <= Selector::kRanksMax);

bool AreSame(const TensorInfo& a, const TensorInfo& b) {
  return a.hash == b.hash && a.tensor_bytes == b.tensor_bytes &&
         a.dtype == b.dtype && a.shape == b.shape;
}

// The tokens of a device, by share.
struct ListedDevice {
  std::string name;
  std::map<size_t, std::vector<int64_t>> tokens;
};

using ListedRank = std::vector<ListedDevice>;

class SplitRankFinder {
 public:
  SplitRankFinder(std::string_view name, std::span<const RunShare> shares)
      : name_(name), shares_(shares) {}

  // Adds ranks to the result. `shares_of_rank` has kRanksPerRequest of them at
  // most.
  absl::Status Add(const std::map<int32_t, std::vector<size_t>>& shares_of_rank,
                   std::map<int32_t, SplitRank>& out) {
    std::map<int32_t, ListedRank> listed;
    MSITD_RETURN_IF_ERROR(List(shares_of_rank, listed));
    for (auto& [rank, devices] : listed) {
      SplitRank& split = out[rank];
      for (ListedDevice& device : devices) {
        MSITD_RETURN_IF_ERROR(AddDevice(rank, device, split));
        device.tokens.clear();
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status List(
      const std::map<int32_t, std::vector<size_t>>& shares_of_rank,
      std::map<int32_t, ListedRank>& out) const {
    std::map<size_t, Selector> selectors;
    for (const auto& [rank, shares] : shares_of_rank) {
      for (const size_t share : shares) selectors[share].ranks.push_back(rank);
    }
    const std::vector<std::pair<size_t, Selector>> requests(selectors.begin(),
                                                            selectors.end());
    std::vector<absl::StatusOr<std::vector<Coordinate>>> answers(
        requests.size());
    const bool is_far =
        std::any_of(requests.begin(), requests.end(), [this](const auto& one) {
          return shares_[one.first].reader->is_far();
        });
    ForEachAtOnce(
        requests.size(), is_far ? kSharesAtOnceMax : 1, [&](size_t i) {
          const auto& [share, selector] = requests[i];
          answers[i] = shares_[share].reader->ListCoordinates(selector);
        });
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto& [share, selector] = requests[i];
      absl::Status status = answers[i].status();
      if (status.ok()) status = Take(share, selector, *answers[i], out);
      if (!status.ok()) return Annotate(status, shares_[share].place);
      answers[i] = std::vector<Coordinate>();
    }
    return absl::OkStatus();
  }

  // Adds the coordinates that a share lists.
  static absl::Status Take(size_t share, const Selector& selector,
                           const std::vector<Coordinate>& coordinates,
                           std::map<int32_t, ListedRank>& out) {
    const Coordinate* last = nullptr;
    std::vector<int64_t>* tokens = nullptr;
    for (const Coordinate& at : coordinates) {
      const bool is_of_last =
          last != nullptr && last->rank == at.rank && last->device == at.device;
      if (!is_of_last) tokens = &TokensOf(share, at, out[at.rank]);
      // A rank or device that ended before must not continue.
      const bool goes_on = is_of_last
                               ? last->token < at.token
                               : tokens->empty() && selector.HasRank(at.rank) &&
                                     (last == nullptr || last->rank <= at.rank);
      if (!goes_on) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "rank {}, token {} is listed out of order", at.rank,
                          at.token);
      }
      tokens->push_back(at.token);
      last = &at;
    }
    return absl::OkStatus();
  }

  static std::vector<int64_t>& TokensOf(size_t share, const Coordinate& at,
                                        ListedRank& devices) {
    auto device = std::find_if(
        devices.begin(), devices.end(),
        [&at](const ListedDevice& one) { return one.name == at.device; });
    if (device == devices.end()) {
      device = devices.insert(device, {at.device, {}});
    }
    return device->tokens[share];
  }

  absl::Status AddDevice(int32_t rank, const ListedDevice& listed,
                         SplitRank& split) {
    SplitDevice& device = split.devices.emplace_back();
    device.name = listed.name;
    for (const auto& [share, tokens] : listed.tokens) {
      device.spans.push_back({share, tokens.front(), tokens.back()});
    }
    for (const auto& [token, shares] : SharedTokensOf(listed)) {
      MSITD_RETURN_IF_ERROR(CheckShared({rank, listed.name, token}, shares,
                                        device.shared_tokens[token]));
    }
    return absl::OkStatus();
  }

  // Returns the tokens that several shares have, with these shares.
  static std::map<int64_t, std::vector<size_t>> SharedTokensOf(
      const ListedDevice& device) {
    std::vector<std::pair<int64_t, size_t>> all;
    for (const auto& [share, tokens] : device.tokens) {
      for (const int64_t token : tokens) all.emplace_back(token, share);
    }
    std::sort(all.begin(), all.end());
    std::map<int64_t, std::vector<size_t>> out;
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i].first != all[i - 1].first) continue;
      std::vector<size_t>& shares = out[all[i].first];
      if (shares.empty()) shares.push_back(all[i - 1].second);
      shares.push_back(all[i].second);
      // A coordinate with records in two places is an error, and documents have
      // a maximum, so no more tokens are needed.
      if (out.size() > kSharedCoordinatesMax) break;
    }
    return out;
  }

  // Checks that only one of the shares has records other than documents at a
  // coordinate, and finds the documents that a previous share has too.
  absl::Status CheckShared(const Coordinate& at,
                           const std::vector<size_t>& shares,
                           std::set<ShareDocument>& copies) {
    if (++shared_count_ > kSharedCoordinatesMax) {
      return WithReason(
          MakeStatus(absl::StatusCode::kResourceExhausted,
                     "run {} has documents of more than {} ranks and tokens in "
                     "several places",
                     name_, kSharedCoordinatesMax),
          ErrorReason::kFieldInvalid);
    }
    std::optional<size_t> holder;
    for (const size_t share : shares) {
      absl::StatusOr<bool> has_records = HasRecords(share, at);
      if (!has_records.ok()) {
        return Annotate(has_records.status(), shares_[share].place);
      }
      if (!*has_records) continue;
      if (holder.has_value()) {
        return WithReason(
            MakeStatus(absl::StatusCode::kFailedPrecondition,
                       "rank {} of run {} has records of token {} in both {} "
                       "and {}",
                       at.rank, name_, at.token, shares_[*holder].place,
                       shares_[share].place),
            ErrorReason::kFieldInvalid);
      }
      holder = share;
    }
    return FindCopies(at, shares, copies);
  }

  static Selector SelectorOf(const Coordinate& at) {
    Selector out;
    out.ranks = {at.rank};
    out.devices = {at.device};
    out.tokens = {{at.token, at.token}};
    return out;
  }

  // Whether a share has records at a coordinate that are not documents.
  // Incomplete records do not count: no scan returns them, and their number
  // makes a comparison partial.
  absl::StatusOr<bool> HasRecords(size_t share, const Coordinate& at) const {
    Selector selector = SelectorOf(at);
    for (int i = 0; i < kRecordKindCount; ++i) {
      const auto kind = static_cast<RecordKind>(i);
      if (kind != RecordKind::kDocument) selector.kinds.push_back(kind);
    }
    MSITD_ASSIGN_OR_RETURN(
        const auto scan, shares_[share].reader->Scan(std::move(selector), ""));
    TensorInfo record;
    return scan->Next(record);
  }

  absl::Status FindCopies(const Coordinate& at,
                          const std::vector<size_t>& shares,
                          std::set<ShareDocument>& copies) {
    struct First {
      size_t share;
      TensorInfo document;
    };
    std::map<ShareDocument, First> seen;
    for (const size_t share : shares) {
      Selector selector = SelectorOf(at);
      selector.kinds = {RecordKind::kDocument};
      auto scan = shares_[share].reader->Scan(std::move(selector), "");
      if (!scan.ok()) return Annotate(scan.status(), shares_[share].place);
      TensorInfo document;
      while (true) {
        const absl::StatusOr<bool> found = (*scan)->Next(document);
        if (!found.ok()) return Annotate(found.status(), shares_[share].place);
        if (!*found) break;
        if (++document_count_ > kSharedDocumentsMax) {
          return WithReason(
              MakeStatus(absl::StatusCode::kResourceExhausted,
                         "run {} has more than {} documents at ranks and "
                         "tokens in several places",
                         name_, kSharedDocumentsMax),
              ErrorReason::kFieldInvalid);
        }
        const auto [first, is_new] = seen.try_emplace(
            ShareDocumentOf(0, document.key), First{share, document});
        if (is_new) continue;
        if (first->second.share == share ||
            !AreSame(first->second.document, document)) {
          return WithReason(
              MakeStatus(absl::StatusCode::kFailedPrecondition,
                         "rank {} of run {} has different documents {} of "
                         "token {} in {} and {}",
                         at.rank, name_, document.key.op, at.token,
                         shares_[first->second.share].place,
                         shares_[share].place),
              ErrorReason::kFieldInvalid);
        }
        copies.insert(ShareDocumentOf(share, document.key));
      }
    }
    return absl::OkStatus();
  }

  const std::string_view name_;
  const std::span<const RunShare> shares_;
  size_t shared_count_ = 0;
  size_t document_count_ = 0;
};

}  // namespace

ShareDocument ShareDocumentOf(size_t share, const TensorKey& key) {
  return {share, key.op, key.call, key.io, key.index};
}

const SplitDevice* SplitRank::Find(std::string_view device) const {
  const auto found = std::find_if(
      devices.begin(), devices.end(),
      [device](const SplitDevice& one) { return one.name == device; });
  return found == devices.end() ? nullptr : &*found;
}

void SplitRank::Sort(std::span<Coordinate> coordinates) const {
  std::map<std::string_view, size_t> numbers;
  for (const SplitDevice& device : devices) {
    numbers.emplace(device.name, numbers.size());
  }
  const auto number_of = [&numbers](const Coordinate& at) {
    const auto found = numbers.find(at.device);
    return found == numbers.end() ? numbers.size() : found->second;
  };
  std::sort(coordinates.begin(), coordinates.end(),
            [&number_of](const Coordinate& a, const Coordinate& b) {
              // Most ranks have one device.
              if (a.device == b.device) return a.token < b.token;
              return std::tuple(number_of(a), std::string_view(a.device)) <
                     std::tuple(number_of(b), std::string_view(b.device));
            });
}

absl::StatusOr<std::map<int32_t, SplitRank>> FindSplitRanks(
    std::string_view name, std::span<const RunShare> shares,
    const std::map<int32_t, std::vector<size_t>>& shares_of_rank) {
  SplitRankFinder finder(name, shares);
  std::map<int32_t, SplitRank> out;
  std::map<int32_t, std::vector<size_t>> some;
  for (const auto& [rank, holders] : shares_of_rank) {
    if (holders.size() > kRankPlacesMax) {
      return WithReason(
          MakeStatus(absl::StatusCode::kResourceExhausted,
                     "rank {} of run {} lies in {} places, of at most {}", rank,
                     name, holders.size(), kRankPlacesMax),
          ErrorReason::kFieldInvalid);
    }
    some.emplace(rank, holders);
    if (some.size() < kRanksPerRequest) continue;
    MSITD_RETURN_IF_ERROR(finder.Add(some, out));
    some.clear();
  }
  if (!some.empty()) MSITD_RETURN_IF_ERROR(finder.Add(some, out));
  return out;
}

}  // namespace msitd::storage
