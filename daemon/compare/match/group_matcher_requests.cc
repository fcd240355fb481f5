// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/match/group_matcher.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

absl::Status NoRequests(const std::string& run) {
  return MakeStatus(
      absl::StatusCode::kFailedPrecondition,
      "run {} has no rows of requests: to compare by request, record them with "
      "register_hook(requests=...) or Client.record_requests",
      run);
}

bool HasRequest(const RequestJoin::Requests& requests, const std::string& id) {
  return std::any_of(requests.begin(), requests.end(), [&](const auto& rank) {
    return std::any_of(
        rank.second.begin(), rank.second.end(),
        [&](const RequestHistory& request) { return request.id == id; });
  });
}

// Returns the tokens with a piece of any of the requests.
std::set<int64_t> TokensOf(const std::vector<RequestHistory>& requests) {
  std::set<int64_t> out;
  for (const RequestHistory& request : requests) {
    for (const RequestPiece& piece : request.pieces) out.insert(piece.token);
  }
  return out;
}

}  // namespace

RequestJoin::Requests GroupMatcher::RequestsByNumber(
    bool is_target, const RequestBook& book) const {
  RequestJoin::Requests out;
  for (const auto& [number, holders] : holders_) {
    // All ranks of a group process the same requests.
    for (const auto& [rank, last_token] :
         (is_target ? holders.target : holders.golden).last_tokens) {
      const auto found = book.ranks().find(rank);
      if (found == book.ranks().end()) continue;
      out.emplace(number, found->second);
      break;
    }
  }
  return out;
}

absl::Status GroupMatcher::JoinRequests(storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(has_caches_[0], TokenCaches::AnyIn(*golden_, stop));
  MSITD_ASSIGN_OR_RETURN(has_caches_[1], TokenCaches::AnyIn(*target_, stop));
  // All tokens determine the positions; the selected ones are compared.
  Selector golden_selector = GoldenSide().selector;
  golden_selector.tokens.clear();
  MSITD_ASSIGN_OR_RETURN(const RequestBook golden_book,
                         RequestBook::Read(*golden_, golden_selector, stop));
  MSITD_ASSIGN_OR_RETURN(const RequestBook target_book,
                         RequestBook::Read(*target_, {}, stop));
  RequestJoin::Requests golden = RequestsByNumber(false, golden_book);
  RequestJoin::Requests target = RequestsByNumber(true, target_book);
  if (golden.empty()) return NoRequests(golden_->name());
  if (target.empty()) return NoRequests(target_->name());
  for (const std::string& id : selector_.requests) {
    if (!HasRequest(golden, id)) {
      request_problems_.push_back(
          fmt::format("run {} has no rows of request {}", golden_->name(), id));
    }
  }
  for (const auto& [run, book] :
       {std::pair(golden_, &golden_book), std::pair(target_, &target_book)}) {
    if (book->unknown_count() == 0) continue;
    request_problems_.push_back(
        fmt::format("request documents of run {} without known rows: {}",
                    run->name(), book->unknown_count()));
  }
  MSITD_ASSIGN_OR_RETURN(
      request_join_,
      RequestJoin::Create(
          std::move(golden), std::move(target), selector_.requests,
          [selector = selector_](int64_t token) {
            return selector.HasToken(token);
          },
          stop));
  if (request_join_->tokens().empty()) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "run {} has no rows of the selected requests and tokens",
                      golden_->name());
  }

  GroupSet groups;
  for (const auto& [number, tokens] : groups_.ranks()) {
    const auto joined = request_join_->tokens().find(number);
    std::set<int64_t> compared;
    if (joined != request_join_->tokens().end()) {
      compared.insert(joined->second.begin(), joined->second.end());
    }
    // Tokens of other requests are not selected.
    if (selector_.requests.empty()) {
      const std::set<int64_t> known =
          request_join_->HasGolden(number)
              ? TokensOf(request_join_->GoldenRequestsOf(number))
              : std::set<int64_t>();
      TokenCursor cursor(tokens);
      while (const std::optional<int64_t> token = cursor.Next()) {
        if (known.contains(*token)) continue;
        if (tokens_without_requests_[number]++ == 0) compared.insert(*token);
      }
    }
    TokenRuns runs;
    for (const int64_t token : compared) runs.Append(token);
    if (!runs.empty()) groups.Add(number, std::move(runs));
  }
  groups_ = std::move(groups);
  return absl::OkStatus();
}

absl::StatusOr<TokenCaches> GroupMatcher::LoadCaches(
    bool is_target, const GroupKey& group, storage::StopCheck stop) const {
  if (!has_caches_[is_target ? 1 : 0]) return TokenCaches();
  const BothHolders& both = holders_.at(group.rank);
  Selector selector;
  for (const auto& [rank, last_token] :
       (is_target ? both.target : both.golden).last_tokens) {
    selector.ranks.push_back(rank);
  }
  if (selector.ranks.empty()) return TokenCaches();
  selector.tokens = {{group.token, group.token}};
  return TokenCaches::Read(is_target ? *target_ : *golden_, selector, stop);
}

std::deque<std::string> GroupMatcher::RequestProblems(
    const GroupKey& group) const {
  const bool is_first = std::all_of(
      groups_.ranks().begin(), groups_.ranks().end(), [&](const auto& rank) {
        const GroupKey first{rank.second.runs().front().first, rank.first};
        return group <= first;
      });
  return is_first ? request_problems_ : std::deque<std::string>();
}

uint64_t GroupMatcher::TokensWithoutRequests(int32_t golden_number) const {
  const auto found = tokens_without_requests_.find(golden_number);
  return found == tokens_without_requests_.end() ? 0 : found->second;
}

}  // namespace msitd::compare
