// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/find_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "daemon/compare/match/run_losses.h"
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

  absl::StatusOr<OriginAnswer> Run(const compare::ActivitySource* activity) {
    MSITD_ASSIGN_OR_RETURN(info_, run_.GetInfo());
    MSITD_ASSIGN_OR_RETURN(out_.ranks, storage::FindRunRanks(run_, info_, {}));
    MSITD_RETURN_IF_ERROR(CountLost(activity));
    MSITD_RETURN_IF_ERROR(ScanAll());
    if (first_tokens_.empty()) return std::move(out_);
    MSITD_RETURN_IF_ERROR(SearchRanks());
    return std::move(out_);
  }

 private:
  absl::Status CountLost(const compare::ActivitySource* activity);
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
  absl::StatusOr<std::optional<uint64_t>> SequenceBefore(int32_t rank,
                                                         int64_t token);
  absl::StatusOr<RecordFacts> ReadFacts(int32_t rank);
  std::string EarlierDoubt(int32_t rank, int64_t token,
                           const RecordFacts& facts) const;
  absl::StatusOr<std::string> PeerDoubt(int32_t rank, int64_t token);
  absl::Status AddPeerGaps(RankOrigin& origin);
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
  // The first tokens with tensors that are not known to be clean, by rank: of
  // those that could not be judged, and of those that are ignored without a
  // rule that shows a mask.
  std::map<int32_t, int64_t> unknown_tokens_;
  std::map<int32_t, int64_t> doubtful_tokens_;
  // Results of PeerDoubt.
  std::map<int32_t, std::string> peer_doubts_;
  // The events that were loaded last.
  std::optional<RankEvents> events_;
  compare::LossesByRank losses_;
  std::vector<ReachedRank> reached_;  // All of them, in any order.
  OriginAnswer out_;
};

absl::Status Search::CountLost(const compare::ActivitySource* activity) {
  const auto is_any = [](int32_t) { return true; };
  MSITD_ASSIGN_OR_RETURN(losses_,
                         compare::FindLosses(run_, is_any, activity, stop_));
  const compare::RunLosses total = losses_.Total();
  // An unread place has one record or more.
  out_.lost_count = total.dropped_count + total.truncated_count +
                    total.lost_count + total.unread_place_count;
  return absl::OkStatus();
}

void AddToken(const TensorKey& key, std::map<int32_t, int64_t>& tokens) {
  const auto [found, is_new] = tokens.try_emplace(key.rank, key.token);
  if (!is_new) found->second = std::min(found->second, key.token);
}

bool HasTokenUpTo(const std::map<int32_t, int64_t>& tokens, int32_t rank,
                  int64_t last) {
  const auto found = tokens.find(rank);
  return found != tokens.end() && found->second <= last;
}

// Returns whether a rule ignores tensors that another one may not show to be
// healthy. Masks reach most calls of a model, so they are not doubtful.
bool IsDoubtful(IgnoreRule rule) {
  return rule == IgnoreRule::kMaskModule || rule == IgnoreRule::kUnwritten ||
         rule == IgnoreRule::kPadding || rule == IgnoreRule::kAbsorbed;
}

void Search::AddIgnored(IgnoreRule rule, uint64_t count,
                        const TensorKey& first) {
  if (IsDoubtful(rule)) AddToken(first, doubtful_tokens_);
  IgnoredTensors& ignored = out_.ignored[static_cast<size_t>(rule)];
  if (ignored.count == 0) ignored.first = first;
  ignored.count += count;
}

void Search::AddSymptoms(uint64_t count, const TensorKey& key) {
  out_.symptom_count += count;
  AddToken(key, first_tokens_);
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
      AddToken(key, unknown_tokens_);
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

absl::StatusOr<std::optional<uint64_t>> Search::SequenceBefore(int32_t rank,
                                                               int64_t token) {
  std::optional<uint64_t> last;
  if (token == 0) return last;
  Selector before;
  before.ranks = {rank};
  before.tokens = {{token - 1, token - 1}};
  before.kinds = EveryRecordKind();
  MSITD_ASSIGN_OR_RETURN(const auto scan, run_.Scan(before, ""));
  storage::TensorInfo record;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(record, stop_));
    if (!found) return last;
    last = std::max(last.value_or(0), record.sequence);
  }
}

absl::StatusOr<RecordFacts> Search::ReadFacts(int32_t rank) {
  return RecordFacts::Read(run_, info_, rank, losses_, stop_);
}

std::string Search::EarlierDoubt(int32_t rank, int64_t token,
                                 const RecordFacts& facts) const {
  if (token == 0) return "";
  if (HasTokenUpTo(unknown_tokens_, rank, token - 1)) {
    return "some of its tensors could not be judged";
  }
  if (HasTokenUpTo(doubtful_tokens_, rank, token - 1)) {
    return "some of its tensors satisfy the condition and are ignored by a "
           "rule";
  }
  if (facts.may_lack_records()) return "some of its records may be lost";
  if (out_.incomplete_count > 0) {
    return "tensors of the run have missing parts";
  }
  return "";
}

// Returns why a rank without symptoms may have sent one; empty if it cannot
// have.
absl::StatusOr<std::string> Search::PeerDoubt(int32_t rank, int64_t token) {
  if (HasTokenUpTo(unknown_tokens_, rank, token)) {
    return fmt::format("tensors of rank {} could not be judged", rank);
  }
  Selector here;
  here.ranks = {rank};
  here.tokens = {{token, token}};
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::Coordinate> coordinates,
                         run_.ListCoordinates(here));
  if (coordinates.empty()) {
    return fmt::format("rank {} did not record token {}", rank, token);
  }
  MSITD_ASSIGN_OR_RETURN(const RecordFacts facts, ReadFacts(rank));
  if (facts.may_lack_records()) {
    return fmt::format("records of rank {} may be lost", rank);
  }
  if (facts.FiltersOps(token)) {
    return fmt::format("the capture policy excludes ops of rank {}", rank);
  }
  if (out_.incomplete_count > 0) {
    return std::string("tensors of the run have missing parts");
  }
  return std::string();
}

absl::Status Search::AddPeerGaps(RankOrigin& origin) {
  if (!origin.may_be_received || !origin.is_known()) return absl::OkStatus();
  const TensorKey& key = origin.tensor.key;
  for (const int32_t rank : out_.ranks.held) {
    if (rank == key.rank) continue;
    MSITD_RETURN_IF_ERROR(stop_());
    auto known = peer_doubts_.find(rank);
    if (known == peer_doubts_.end()) {
      MSITD_ASSIGN_OR_RETURN(std::string doubt, PeerDoubt(rank, key.token));
      known = peer_doubts_.emplace(rank, std::move(doubt)).first;
    }
    if (known->second.empty()) continue;
    origin.gaps.push_back(
        fmt::format("another rank may have sent the value: {}", known->second));
    return absl::OkStatus();
  }
  return absl::OkStatus();
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
  MSITD_ASSIGN_OR_RETURN(const RecordFacts facts, ReadFacts(rank));
  MSITD_ASSIGN_OR_RETURN(const ModuleTree* const tree, trees_.Of(rank, stop_));
  MSITD_ASSIGN_OR_RETURN(const bool lacks, LacksTokenBefore(rank, token));
  if (events_->FirstSymptom() == CallNesting::kNone) {
    return MakeStatus(absl::StatusCode::kUnavailable,
                      "the records of rank {} changed during the search", rank);
  }
  RankContext context{run_,
                      *tree,
                      facts,
                      lacks,
                      HasKnownOrder(info_.spec.labels),
                      EarlierDoubt(rank, token, facts)};
  if (facts.may_lack_records() || events_->incomplete_count() > 0) {
    MSITD_ASSIGN_OR_RETURN(context.sequence_before,
                           SequenceBefore(rank, token));
  }
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
  for (SymptomPlace& place : relations.origins) {
    AddMissingRanks(place.origin);
    MSITD_RETURN_IF_ERROR(AddPeerGaps(place.origin));
  }
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
                                        const compare::ActivitySource* activity,
                                        storage::StopCheck stop) {
  return Search(run, condition, stop).Run(activity);
}

}  // namespace msitd::origin
