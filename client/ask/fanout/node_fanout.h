// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/query/fanout.h"
#include "protos/base/rank_set.h"

namespace msitd::v1 {
class Comparison;
}  // namespace msitd::v1

namespace msitd::ask {

struct ConnectionOptions;
class Interrupts;
struct NodeAnswer;
struct RunShares;

// A set of daemons that behaves like a single one.
//
// All nodes are called in parallel, each with its own deadline. A node that
// does not answer, answers late or returns an invalid answer is reported once
// and excluded from then on: see has_failed. A node that lacks the run is
// simply not part of the answer. An error in the request is returned as the
// answer. If several addresses belong to one daemon, the first one is used.
// Thread-compatible.
class NodeFanout : public Fanout {
 public:
  // Receives a line for the user, without a line end.
  using Tell = std::function<void(const std::string& line)>;

  // One or more nodes. `timeout` of their options is that of the command,
  // `call_timeout` that of a node. Borrows `interrupts`.
  NodeFanout(std::vector<ConnectionOptions> nodes, Interrupts& interrupts,
             Tell tell);
  ~NodeFanout() override;

  Outcome Ask(const NodeCall& call, const Message& request,
              Message& response) override;
  Outcome ForEachRow(const List& list, Message& response) override;

  // Calls every node and passes on the answers, in the order of the nodes.
  Outcome AskEach(
      const NodeCall& call, const Message& request, const Message& prototype,
      const std::function<void(const std::string& node, const Message&)>& take);

  // From now on, one node compares and reduces. It reads the data of the other
  // nodes. Returns an error if the list has no such node.
  Outcome WorkAt(std::string_view node);

  bool has_failed() const;
  // Why a node has failed; empty if it has not.
  std::string ErrorOf(std::string_view node) const;
  // Allows calls to nodes that have failed.
  void AskAgain();

  const std::string& row_node() const override { return row_node_; }
  bool HasNode(std::string_view node) const override;
  // Returns the nodes that hold a part of a run, separated by commas.
  std::string HoldersOf(const std::string& run) const;

  // Members of a JSON object: which nodes answered, `nodes_failed` with the
  // reasons, and by run which ranks each node holds. No braces.
  std::string JsonMembers() const;

 private:
  struct Node;
  struct Answer;
  class Rows;

  // Null for a node that is not called.
  using Requests = std::vector<std::unique_ptr<Message>>;

  Outcome MakeRequests(const Message& request, Requests& requests);
  Outcome RequestsByName(const Message& request, Requests& requests);
  Outcome PlanComparison(const Message& request, Requests& requests);
  Outcome PlanAtOneNode(const Message& request, Requests& requests);
  Outcome PlanReduction(const Message& request, Requests& requests);
  // One node searches; without WorkAt, the first one that holds the run.
  Outcome PlanOrigin(const Message& request, Requests& requests);
  // Returns the nodes that have a run, in the form that the node at `worker_`
  // reads, and the ids of their shares.
  std::string SourceOf(const RunShares& shares) const;
  static std::string IdsOf(const RunShares& shares);
  Outcome FindShares(const std::string& run, RunShares& out);
  // Finds the ranks of which nodes hold different records.
  Outcome FindSplits(const std::string& run, RunShares& shares);
  // Returns the ranks of a run by node, as far as the nodes have reported them.
  // Queries the nodes if they have not. Empty for a run that no longer exists.
  std::vector<RankSet> KnownRanks(const std::string& run);
  // Reports ranks of a run that lie on nodes that cannot compare them.
  void TellApart(const std::string& run, const RunShares& shares,
                 const std::string& other_run, const RunShares& others);
  // Reports ranks of both runs that no node can compare.
  void TellOfSplits(const v1::Comparison& asked,
                    const std::vector<std::string>& nodes,
                    const RunShares& golden, const RunShares& target);
  // Reports ranks that were asked for and that no node has.
  void TellOfAbsentRanks(const v1::Comparison& asked, const RunShares& golden,
                         const RunShares& target);
  // Reports rows that no node could compare because their ranks are on several.
  void TellOfSpreadRows(const std::vector<NodeAnswer>& parts,
                        const v1::Comparison& all);

  // Replaces a daemon that has failed since by its next address.
  void PassOn(RunShares& shares) const;

  std::vector<Answer> AskNodes(const NodeCall& call, const Requests& requests,
                               const Message& prototype);
  // Selects the answers that are used. Returns an error if there are none.
  Outcome Sift(const Requests& requests, std::vector<Answer>& answers);
  // If several answers to the same question are from one daemon, reached at
  // different addresses, keeps one of them.
  void DropRepeated(const Requests& requests, std::vector<Answer>& answers);
  // True if both are addresses of one daemon, as far as they have answered.
  bool AreOne(size_t node, size_t other) const;
  // Returns the first node with the same daemon that has not failed; `node` if
  // there is none.
  size_t FirstOf(size_t node) const;
  // Takes the row that one daemon would list next; null after the last one.
  Outcome TakeLeast(const List& list,
                    const std::vector<std::unique_ptr<Rows>>& lists, bool joins,
                    std::unique_ptr<Message>& out);
  void Fail(Node& node, const Outcome& outcome);
  // Remembers which ranks of a run a node holds. Returns the run; empty if the
  // answer does not report ranks.
  std::string NoteHeld(const Node& node, const Message& request,
                       const Message& answer);
  // Reports the ranks of a run that both this node and another one hold.
  void TellOfDoubles(const Node& node, const std::string& run);
  void TellOnce(const std::string& line);

  std::vector<std::unique_ptr<Node>> nodes_;
  const Tell tell_;
  std::optional<size_t> worker_;  // See WorkAt.
  // True if requested ranks of a comparison are in no request.
  bool is_uncovered_ = false;
  std::string row_node_;
  std::vector<std::string> told_;
  // By run and node.
  std::map<std::string, std::map<std::string, RankSet>> held_;
};

}  // namespace msitd::ask
