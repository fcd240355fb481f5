// SPDX-License-Identifier: Apache-2.0
// Which ranks of a run the nodes hold, and of which they hold different
// records.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/fanout/comparison_plan.h"
#include "client/ask/fanout/node.h"
#include "client/ask/fanout/node_fanout.h"
#include "client/ask/fanout/rank_contents.h"
#include "client/ask/query/connection.h"
#include "client/ask/text/text.h"
#include "protos/base/rank_set.h"

namespace msitd::ask {

Outcome NodeFanout::FindSplits(const std::string& run, RunShares& shares) {
  RankSet seen;
  RankSet repeated;
  for (const RankSet& held : shares.held) {
    repeated = repeated.Union(seen.Intersection(held));
    seen = seen.Union(held);
  }
  if (repeated.empty()) return {};
  Requests requests(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const RankSet asked = shares.held[i].Intersection(repeated);
    if (asked.empty()) continue;
    auto request = std::make_unique<v1::ListDigestsRequest>();
    request->set_run(run);
    request->set_run_id(shares.ids[i]);
    const std::vector<int32_t> ranks = asked.Ranks(kContentRanksMax);
    request->mutable_filter()->mutable_ranks()->Assign(ranks.begin(),
                                                       ranks.end());
    requests[i] = std::move(request);
  }
  std::vector<Answer> answers =
      AskNodes(MakeRankContentsCall(), requests,
               v1::ListDigestsResponse::default_instance());
  RankContents contents;
  for (const Answer& answer : answers) {
    if (answer.outcome.exit_code == kExitInterrupted) return answer.outcome;
    if (!answer.outcome.ok()) {
      TellOnce(Printable(fmt::format(
          "note: {} did not report hashes of run {}, so its records count as "
          "different: {}",
          nodes_[answer.node]->name, run, answer.outcome.error)));
    }
    contents.Add(
        shares.held[answer.node].Intersection(repeated),
        answer.outcome.ok()
            ? static_cast<const v1::ListDigestsResponse&>(*answer.message)
            : v1::ListDigestsResponse::default_instance());
  }
  shares.split = contents.Different();
  if (shares.split.empty()) return {};
  for (size_t i = 0; i < nodes_.size(); ++i) {
    requests[i].reset();
    if (!shares.has[i]) continue;
    auto request = std::make_unique<v1::DescribeRunRequest>();
    request->set_run(run);
    request->set_run_id(shares.ids[i]);
    request->set_detail(v1::DescribeRunRequest::PLACEMENTS);
    requests[i] = std::move(request);
  }
  answers = AskNodes(MakePlacementsCall(), requests,
                     v1::DescribeRunResponse::default_instance());
  for (const Answer& answer : answers) {
    if (answer.outcome.exit_code == kExitInterrupted) return answer.outcome;
    const auto& about =
        static_cast<const v1::DescribeRunResponse&>(*answer.message);
    if (!answer.outcome.ok() || !about.placements().empty()) {
      shares.has_placements = true;
    }
  }
  return {};
}

std::vector<RankSet> NodeFanout::KnownRanks(const std::string& run) {
  std::vector<RankSet> out(nodes_.size());
  if (!held_.contains(run)) {
    RunShares shares(nodes_.size());
    if (FindShares(run, shares).ok()) out = std::move(shares.held);
    return out;
  }
  const auto& by_node = held_[run];
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto found = by_node.find(nodes_[i]->name);
    if (found != by_node.end()) out[i] = found->second;
  }
  return out;
}

void NodeFanout::PassOn(RunShares& shares) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const size_t at = FirstOf(i);
    if (at == i || !shares.has[i] || shares.has[at]) continue;
    shares.held[at] = std::exchange(shares.held[i], RankSet());
    shares.ids[at] = std::exchange(shares.ids[i], "");
    shares.has[at] = true;
    shares.has[i] = false;
  }
}

}  // namespace msitd::ask
