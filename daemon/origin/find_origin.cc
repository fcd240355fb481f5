// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/find_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "daemon/origin/chain.h"
#include "daemon/origin/rank_relations.h"
#include "protos/base/order_label.h"
#include "protos/status/status.h"

namespace msitd::origin {
namespace {

// Searches one run. Used once.
class Search {
 public:
  Search(storage::RunReader& run, const Condition& condition,
         storage::StopCheck stop)
      : run_(run),
        stop_(stop),
        trees_(run),
        padding_(run),
        requests_(run),
        judge_(condition, trees_, padding_) {}

  absl::StatusOr<OriginAnswer> Run() {
    MSITD_ASSIGN_OR_RETURN(info_, run_.GetInfo());
    MSITD_ASSIGN_OR_RETURN(out_.ranks, storage::FindRunRanks(run_, info_, {}));
    MSITD_RETURN_IF_ERROR(CountLost());
    MSITD_RETURN_IF_ERROR(ScanAll());
    if (first_tokens_.empty()) return std::move(out_);
    MSITD_RETURN_IF_ERROR(SearchRanks());
    return std::move(out_);
  }

 private:
  absl::Status CountLost();
  absl::Status ScanAll();
  absl::Status Count(const storage::TensorInfo& tensor);
  void StartCall(const TensorKey& key);
  void EndCall();
  void AddIgnored(IgnoreRule rule, uint64_t count, const TensorKey& first);
  void AddSymptoms(uint64_t count, const TensorKey& key);
  absl::Status SearchRanks();
  absl::StatusOr<RankOrigin> SearchRank(int32_t rank, int64_t token);
  absl::StatusOr<bool> LacksTokenBefore(int32_t rank, int64_t token);
  absl::Status Load(int32_t rank, int64_t token);
  absl::Status AddPlaces(RankRelations relations);
  absl::StatusOr<FoundOrigin> Describe(SymptomPlace place);
  void AddMissingRanks(RankOrigin& origin) const;
  void AddReached(const SymptomPlace& place);
  absl::Status AddOrigin(SymptomPlace place, std::vector<FoundOrigin>& list);

  storage::RunReader& run_;
  const storage::StopCheck stop_;
  storage::RunInfo info_;
  ModuleTrees trees_;
  PaddingRows padding_;
  query::TokenRequests requests_;
  SymptomJudge judge_;
  // The current call of the scan, its results, and its bad inputs. They are
  // judged when it ends.
  TensorKey call_;
  CallResults results_;
  uint64_t bad_input_count_ = 0;
  TensorKey bad_input_;
  // The first token with a symptom, by rank.
  std::map<int32_t, int64_t> first_tokens_;
  // The events that were loaded last.
  std::optional<RankEvents> events_;
  std::map<int32_t, storage::RankCoverage> coverage_;  // By rank.
  std::vector<ReachedRank> reached_;  // All of them, in any order.
  OriginAnswer out_;
};

absl::Status Search::CountLost() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RankCoverage> coverage,
                         run_.ListCoverage());
  for (const storage::RankCoverage& of : coverage) {
    out_.lost_count += of.total.dropped_count + of.total.truncated_count;
    coverage_[of.rank] = of;
  }
  return absl::OkStatus();
}

void Search::AddIgnored(IgnoreRule rule, uint64_t count,
                        const TensorKey& first) {
  IgnoredTensors& ignored = out_.ignored[static_cast<size_t>(rule)];
  if (ignored.count == 0) ignored.first = first;
  ignored.count += count;
}

void Search::AddSymptoms(uint64_t count, const TensorKey& key) {
  out_.symptom_count += count;
  const auto [found, is_new] = first_tokens_.try_emplace(key.rank, key.token);
  if (!is_new) found->second = std::min(found->second, key.token);
}

void Search::EndCall() {
  if (bad_input_count_ == 0) return;
  if (judge_.ignores_absorbed() && results_.AbsorbInputs()) {
    AddIgnored(IgnoreRule::kAbsorbed, bad_input_count_, bad_input_);
  } else {
    AddSymptoms(bad_input_count_, bad_input_);
  }
  bad_input_count_ = 0;
}

void Search::StartCall(const TensorKey& key) {
  if (key.call == call_.call && key.op == call_.op &&
      key.token == call_.token && key.rank == call_.rank &&
      key.device == call_.device) {
    return;
  }
  EndCall();
  call_ = key;
  results_ = CallResults();
}

absl::Status Search::Count(const storage::TensorInfo& tensor) {
  ++out_.tensor_count;
  const TensorKey& key = tensor.key;
  StartCall(key);
  const auto known = first_tokens_.find(key.rank);
  const bool is_later =
      known != first_tokens_.end() && known->second < key.token;
  MSITD_ASSIGN_OR_RETURN(
      const Verdict verdict,
      judge_.Judge(tensor, /*knows_padding=*/!is_later, stop_));
  results_.Add(tensor, verdict.state);
  switch (verdict.state) {
    case State::kClean:
      break;
    case State::kUnknown:
      ++out_.unknown_count;
      break;
    case State::kIgnored:
      AddIgnored(verdict.rule, 1, key);
      break;
    case State::kSymptom:
      if (key.io != Io::kInput) {
        AddSymptoms(1, key);
      } else if (bad_input_count_++ == 0) {
        bad_input_ = key;
      }
      break;
  }
  return absl::OkStatus();
}

absl::Status Search::ScanAll() {
  Selector selector;
  selector.kinds = EveryRecordKind();
  std::erase_if(selector.kinds,
                [this](RecordKind kind) { return !judge_.Judges(kind); });
  MSITD_ASSIGN_OR_RETURN(const auto scan, run_.Scan(selector, ""));
  storage::TensorInfo tensor;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(tensor, stop_));
    if (!found) break;
    MSITD_RETURN_IF_ERROR(Count(tensor));
  }
  EndCall();
  out_.incomplete_count = scan->incomplete_count();
  return absl::OkStatus();
}

absl::StatusOr<bool> Search::LacksTokenBefore(int32_t rank, int64_t token) {
  if (token == 0) return false;
  Selector before;
  before.ranks = {rank};
  before.tokens = {{token - 1, token - 1}};
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::Coordinate> coordinates,
                         run_.ListCoordinates(before));
  return coordinates.empty();
}

absl::Status Search::Load(int32_t rank, int64_t token) {
  if (events_.has_value() && events_->rank() == rank) return absl::OkStatus();
  events_.reset();
  MSITD_ASSIGN_OR_RETURN(RankEvents events,
                         RankEvents::Load(run_, rank, token, judge_, stop_));
  events_ = std::move(events);
  return absl::OkStatus();
}

absl::StatusOr<RankOrigin> Search::SearchRank(int32_t rank, int64_t token) {
  MSITD_RETURN_IF_ERROR(Load(rank, token));
  const auto coverage = coverage_.find(rank);
  MSITD_ASSIGN_OR_RETURN(
      const RecordFacts facts,
      RecordFacts::Read(
          run_, info_, rank,
          coverage == coverage_.end() ? nullptr : &coverage->second, stop_));
  MSITD_ASSIGN_OR_RETURN(const ModuleTree* const tree, trees_.Of(rank, stop_));
  MSITD_ASSIGN_OR_RETURN(const bool lacks, LacksTokenBefore(rank, token));
  if (events_->FirstSymptom() == CallNesting::kNone) {
    return MakeStatus(absl::StatusCode::kUnavailable,
                      "the records of rank {} changed during the search", rank);
  }
  const RankContext context{run_, *tree, facts, lacks,
                            HasKnownOrder(info_.spec.labels)};
  return FindRankOrigin(*events_, context, stop_);
}

void Search::AddReached(const SymptomPlace& place) {
  const TensorKey& key = place.origin.tensor.key;
  for (const int32_t rank : place.ranks) {
    reached_.push_back(
        {rank, key.token,
         fmt::format("{} {}/{}", key.op, IoName(key.io), key.index)});
  }
}

void Search::AddMissingRanks(RankOrigin& origin) const {
  // The capture policy can exclude ranks, which are then not lacking.
  const auto world_size =
      static_cast<size_t>(std::max(0, info_.spec.world_size));
  if (out_.ranks.lacking.empty() && out_.ranks.held.size() >= world_size) {
    return;
  }
  if (!origin.may_be_received) return;
  origin.gaps.push_back("a rank that was not recorded may have sent it");
}

absl::StatusOr<FoundOrigin> Search::Describe(SymptomPlace place) {
  FoundOrigin found;
  found.ranks = std::move(place.ranks);
  found.origin = std::move(place.origin);
  const TensorKey& key = found.origin.tensor.key;
  MSITD_ASSIGN_OR_RETURN(const auto* const requests,
                         requests_.All(key.rank, key.token, stop_));
  found.requests = *requests;
  if (!found.origin.is_known()) return found;
  MSITD_RETURN_IF_ERROR(Load(key.rank, key.token));
  const Chain chain = FindChain(*events_, found.origin.event);
  for (const int32_t step : chain.steps) {
    found.chain.push_back(events_->KeyOf(step, run_.name()));
  }
  found.omitted_count = chain.omitted_count;
  found.omitted_after = chain.omitted_after;
  return found;
}

absl::Status Search::AddOrigin(SymptomPlace place,
                               std::vector<FoundOrigin>& list) {
  if (list.size() == kOriginsMax) {
    ++out_.omitted_count;
    return absl::OkStatus();
  }
  MSITD_ASSIGN_OR_RETURN(FoundOrigin found, Describe(std::move(place)));
  list.push_back(std::move(found));
  return absl::OkStatus();
}

absl::Status Search::AddPlaces(RankRelations relations) {
  for (const SymptomPlace& place : relations.followers) {
    AddReached(place);
  }
  if (relations.origins.empty()) {
    // All first symptoms may follow from each other.
    out_.result = OriginAnswer::Result::kNotKnown;
    for (SymptomPlace& place : relations.followers) {
      place.origin.gaps.push_back(
          "it may follow from another rank: the order of the ranks is not "
          "known");
      MSITD_RETURN_IF_ERROR(AddOrigin(std::move(place), out_.unknown));
    }
    return absl::OkStatus();
  }
  for (SymptomPlace& place : relations.origins) AddMissingRanks(place.origin);
  out_.result = relations.origins.front().origin.is_known()
                    ? OriginAnswer::Result::kFound
                    : OriginAnswer::Result::kNotKnown;
  for (SymptomPlace& place : relations.origins) {
    auto& list = place.origin.is_known() ? out_.origins : out_.unknown;
    MSITD_RETURN_IF_ERROR(AddOrigin(std::move(place), list));
  }
  return absl::OkStatus();
}

absl::Status Search::SearchRanks() {
  int64_t token = first_tokens_.begin()->second;
  for (const auto& [rank, first] : first_tokens_) {
    token = std::min(token, first);
  }
  std::vector<RankOrigin> origins;
  for (const auto& [rank, first] : first_tokens_) {
    if (first == token) {
      MSITD_ASSIGN_OR_RETURN(RankOrigin origin, SearchRank(rank, token));
      origins.push_back(std::move(origin));
    } else {
      reached_.push_back({rank, first, ""});
    }
  }
  MSITD_ASSIGN_OR_RETURN(RankRelations relations,
                         RelateRanks(run_, std::move(origins), stop_));
  MSITD_RETURN_IF_ERROR(AddPlaces(std::move(relations)));
  std::sort(reached_.begin(), reached_.end(),
            [](const ReachedRank& a, const ReachedRank& b) {
              return a.rank < b.rank;
            });
  out_.reached_count = reached_.size();
  if (reached_.size() > kReachedRanksMax) reached_.resize(kReachedRanksMax);
  out_.reached = std::move(reached_);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OriginAnswer> FindOrigin(storage::RunReader& run,
                                        const Condition& condition,
                                        storage::StopCheck stop) {
  return Search(run, condition, stop).Run();
}

}  // namespace msitd::origin
