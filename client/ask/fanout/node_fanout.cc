// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/node_fanout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/ask/fanout/comparison_names.h"
#include "client/ask/fanout/comparison_plan.h"
#include "client/ask/fanout/merge.h"
#include "client/ask/fanout/node.h"
#include "client/ask/fanout/rank_contents.h"
#include "client/ask/query/connection.h"
#include "client/ask/text/text.h"
#include "protos/base/rank_set_message.h"
#include "protos/os/at_once.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Messages for the user about one command.
constexpr size_t kToldMax = 100;
// The worker among the sources of a run.
constexpr std::string_view kLocal = "local";

bool IsCode(const Outcome& outcome, grpc::StatusCode code) {
  return outcome.exit_code == ExitCodeOf(code);
}

bool IsAbsent(const Outcome& outcome) {
  return IsCode(outcome, grpc::StatusCode::NOT_FOUND);
}

// Returns true for an error of the request or of this machine.
bool IsOfRequest(const Outcome& outcome) {
  return outcome.exit_code < kExitDaemonBase ||
         outcome.exit_code == kExitInterrupted ||
         IsCode(outcome, grpc::StatusCode::INVALID_ARGUMENT) ||
         IsCode(outcome, grpc::StatusCode::FAILED_PRECONDITION) ||
         IsCode(outcome, grpc::StatusCode::ALREADY_EXISTS) ||
         IsCode(outcome, grpc::StatusCode::OUT_OF_RANGE);
}

// The text of a field; empty if there is no such field.
std::string TextField(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() ||
      field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return "";
  }
  return message.GetReflection()->GetString(message, field);
}

// Returns nothing if the answer does not report ranks.
std::optional<RankSet> HeldOf(const Message& answer) {
  const FieldDescriptor* field =
      answer.GetDescriptor()->FindFieldByName("ranks_held");
  if (field == nullptr) return std::nullopt;
  google::protobuf::RepeatedPtrField<v1::RankRange> ranges;
  const auto& reflection = *answer.GetReflection();
  for (int i = 0; i < reflection.FieldSize(answer, field); ++i) {
    *ranges.Add() = static_cast<const v1::RankRange&>(
        reflection.GetRepeatedMessage(answer, field, i));
  }
  return RankSetOf(ranges);
}

std::unique_ptr<Message> Copy(const Message& message) {
  std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  return copy;
}

}  // namespace

NodeFanout::NodeFanout(std::vector<ConnectionOptions> nodes,
                       Interrupts& interrupts, Tell tell)
    : tell_(std::move(tell)) {
  for (ConnectionOptions& options : nodes) {
    std::string name = options.endpoint;
    nodes_.push_back(std::make_unique<Node>(std::move(name), std::move(options),
                                            interrupts));
  }
}

NodeFanout::~NodeFanout() = default;

bool NodeFanout::has_failed() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return node->has_failed(); });
}

std::string NodeFanout::ErrorOf(std::string_view node) const {
  for (const auto& known : nodes_) {
    if (known->name == node) return known->error;
  }
  return "";
}

bool NodeFanout::HasNode(std::string_view node) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [node](const auto& known) { return known->name == node; });
}

void NodeFanout::AskAgain() {
  for (const auto& node : nodes_) node->error.clear();
}

void NodeFanout::TellOnce(const std::string& line) {
  if (told_.size() >= kToldMax ||
      std::find(told_.begin(), told_.end(), line) != told_.end()) {
    return;
  }
  told_.push_back(line);
  tell_(line);
}

void NodeFanout::Fail(Node& node, const Outcome& outcome) {
  if (node.has_failed()) return;
  node.error = outcome.error;
  TellOnce(fmt::format("partial: no answer from {}: {}", Printable(node.name),
                       outcome.error));
}

std::vector<NodeFanout::Answer> NodeFanout::AskNodes(const NodeCall& call,
                                                     const Requests& requests,
                                                     const Message& prototype) {
  std::vector<Answer> answers;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (requests[i] == nullptr || nodes_[i]->has_failed()) continue;
    answers.push_back(
        {i, std::unique_ptr<Message>(prototype.New()), Outcome()});
  }
  ForEachAtOnce(answers.size(), answers.size(), [&](size_t i) {
    Answer& answer = answers[i];
    answer.outcome = call(nodes_[answer.node]->connection,
                          *requests[answer.node], *answer.message);
  });
  return answers;
}

Outcome NodeFanout::Sift(const Requests& requests,
                         std::vector<Answer>& answers) {
  Outcome absent;
  Outcome failure;
  for (const Answer& answer : answers) {
    if (answer.outcome.ok()) continue;
    if (IsOfRequest(answer.outcome)) return answer.outcome;
    if (IsAbsent(answer.outcome)) {
      if (absent.ok()) absent = answer.outcome;
      continue;
    }
    failure = answer.outcome;
    Fail(*nodes_[answer.node], answer.outcome);
  }
  std::erase_if(answers,
                [](const Answer& answer) { return !answer.outcome.ok(); });
  if (!answers.empty()) {
    DropRepeated(requests, answers);
    return {};
  }
  if (!absent.ok()) return absent;
  if (!failure.ok()) return failure;
  return DaemonError(grpc::StatusCode::UNAVAILABLE, "",
                     "no node answers any more");
}

bool NodeFanout::AreOne(size_t node, size_t other) const {
  const std::string& id = nodes_[node]->connection.daemon_id();
  return node == other ||
         (!id.empty() && id == nodes_[other]->connection.daemon_id());
}

size_t NodeFanout::FirstOf(size_t node) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i]->has_failed() && AreOne(i, node)) return i;
  }
  return node;
}

void NodeFanout::DropRepeated(const Requests& requests,
                              std::vector<Answer>& answers) {
  std::map<std::pair<std::string, std::string>, size_t> first;
  std::erase_if(answers, [&](const Answer& answer) {
    const Node& node = *nodes_[answer.node];
    const std::string& id = node.connection.daemon_id();
    if (id.empty()) return false;
    const auto [at, is_new] = first.emplace(
        std::pair(id, requests[answer.node]->SerializeAsString()), answer.node);
    if (is_new) return false;
    TellOnce(Printable(
        fmt::format("note: {} and {} are the same daemon, which counts once",
                    node.name, nodes_[at->second]->name)));
    return true;
  });
}

std::string NodeFanout::NoteHeld(const Node& node, const Message& request,
                                 const Message& answer) {
  const std::optional<RankSet> held = HeldOf(answer);
  if (!held.has_value()) return "";
  std::string run = TextField(request, "run");
  if (run.empty()) run = TextField(answer, "name");
  auto& by_node = held_[run];
  by_node[node.name] = by_node[node.name].Union(*held);
  return run;
}

void NodeFanout::TellOfDoubles(const Node& node, const std::string& run) {
  // A node that reads the others reads each record once.
  if (run.empty() || worker_.has_value()) return;
  const auto& by_node = held_[run];
  const RankSet& held = by_node.at(node.name);
  for (const auto& [other, ranks] : by_node) {
    if (other == node.name) continue;
    const RankSet both = ranks.Intersection(held);
    if (both.empty()) continue;
    const auto [first, second] = std::minmax(other, node.name);
    TellOnce(Printable(fmt::format(
        "note: {} and {} both have rank{} {} of run {}: their common records "
        "count twice",
        first, second, both.count() == 1 ? "" : "s", both.Text(), run)));
  }
}

Outcome NodeFanout::RequestsByName(const Message& request, Requests& requests) {
  const FieldDescriptor* field =
      request.GetDescriptor()->FindFieldByName("comparison");
  std::vector<NodeComparison> names;
  MSITCTL_ASSIGN_OR_USAGE(names, SplitNames(TextField(request, "comparison")));
  for (const auto& [name, node] : names) {
    const auto found =
        std::find_if(nodes_.begin(), nodes_.end(),
                     [&node](const auto& at) { return at->name == node; });
    if (found == nodes_.end()) {
      return UsageError(
          fmt::format("{}: {} is not one of the nodes in use", name, node));
    }
    auto& slot = requests[static_cast<size_t>(found - nodes_.begin())];
    slot = Copy(request);
    slot->GetReflection()->SetString(slot.get(), field, name);
  }
  return {};
}

Outcome NodeFanout::FindShares(const std::string& run, RunShares& out) {
  v1::GetRunRequest request;
  request.set_run(run);
  Requests requests;
  for (size_t i = 0; i < nodes_.size(); ++i) requests.push_back(Copy(request));
  std::vector<Answer> answers =
      AskNodes(Connection::NodeCallOf(&v1::RunService::Stub::GetRun), requests,
               v1::Run::default_instance());
  MSITCTL_RETURN_IF_FAILED(Sift(requests, answers));
  out = RunShares(nodes_.size());
  RankSet lacking;
  for (const Answer& answer : answers) {
    NoteHeld(*nodes_[answer.node], request, *answer.message);
    const auto& share = static_cast<const v1::Run&>(*answer.message);
    out.held[answer.node] = RankSetOf(share.ranks_held());
    out.has[answer.node] = true;
    out.ids[answer.node] = share.id();
    lacking = lacking.Union(RankSetOf(share.ranks_lacking()));
  }
  out.lacking = lacking.Minus(out.AllHeld());
  return {};
}

Outcome NodeFanout::PlanComparison(const Message& request, Requests& requests) {
  const auto& create = static_cast<const v1::CreateComparisonRequest&>(request);
  const v1::Comparison& asked = create.comparison();
  RunShares golden(0);
  RunShares target(0);
  MSITCTL_RETURN_IF_FAILED(FindShares(asked.golden_run(), golden));
  MSITCTL_RETURN_IF_FAILED(FindShares(asked.target_run(), target));
  PassOn(golden);
  MSITCTL_RETURN_IF_FAILED(FindSplits(asked.golden_run(), golden));
  MSITCTL_RETURN_IF_FAILED(FindSplits(asked.target_run(), target));
  std::vector<std::string> names;
  for (const auto& node : nodes_) names.push_back(node->name);
  NodeComparisons split;
  MSITCTL_RETURN_IF_FAILED(
      SplitComparison(create, names, golden, target, split));
  bool has_both = false;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    has_both = has_both || (golden.has[i] && target.has[i]);
    requests[i] = std::move(split.requests[i]);
  }
  if (!has_both) {
    return {kExitPartial,
            Printable(fmt::format(
                "nothing was compared: run {} is on {}, run {} on {}, and no "
                "node has both; {}",
                asked.golden_run(), HoldersOf(asked.golden_run()),
                asked.target_run(), HoldersOf(asked.target_run()), kAtAdvice))};
  }
  TellApart(asked.golden_run(), golden, asked.target_run(), target);
  TellApart(asked.target_run(), target, asked.golden_run(), golden);
  if (!AreRanksAlike(asked.matching())) {
    for (const auto& node : nodes_) {
      for (const std::string& run : {asked.golden_run(), asked.target_run()}) {
        if (held_[run].contains(node->name)) TellOfDoubles(*node, run);
      }
    }
  }
  TellOfSplits(asked, names, golden, target);
  TellOfAbsentRanks(asked, golden, target);
  is_uncovered_ =
      !split.golden_uncovered.empty() || !split.target_uncovered.empty();
  return {};
}

void NodeFanout::TellOfSplits(const v1::Comparison& asked,
                              const std::vector<std::string>& nodes,
                              const RunShares& golden,
                              const RunShares& target) {
  for (const auto& [run, shares] : {std::pair(&asked.golden_run(), &golden),
                                    std::pair(&asked.target_run(), &target)}) {
    if (shares->split.empty()) continue;
    TellOnce(
        Printable(fmt::format("partial: {}: not compared; {}",
                              SplitText(*run, *shares, nodes), kSplitAdvice)));
  }
}

void NodeFanout::TellOfAbsentRanks(const v1::Comparison& asked,
                                   const RunShares& golden,
                                   const RunShares& target) {
  const RankSet absent = RankSetOfEach(asked.filter().ranks())
                             .Minus(golden.AllHeld())
                             .Minus(target.AllHeld());
  if (absent.empty()) return;
  TellOnce(Printable(fmt::format("note: no node has rank{} {} of run {} or {}",
                                 absent.count() == 1 ? "" : "s", absent.Text(),
                                 asked.golden_run(), asked.target_run())));
}

void NodeFanout::TellOfSpreadRows(const std::vector<NodeAnswer>& parts,
                                  const v1::Comparison& all) {
  if (all.for_want_of_ranks_count() == 0) return;
  const RankSet golden = RankSetOf(all.golden_ranks().ranks_held());
  const RankSet target = RankSetOf(all.target_ranks().ranks_held());
  const bool are_spread =
      std::any_of(parts.begin(), parts.end(), [&](const NodeAnswer& part) {
        const auto& one = static_cast<const v1::Comparison&>(*part.message);
        return !RankSetOf(one.golden_ranks().ranks_lacking())
                    .Intersection(golden)
                    .empty() ||
               !RankSetOf(one.target_ranks().ranks_lacking())
                    .Intersection(target)
                    .empty();
      });
  if (!are_spread) return;
  TellOnce(fmt::format(
      "partial: rows that need ranks of several nodes were not compared; {}",
      kAtAdvice));
}

void NodeFanout::TellApart(const std::string& run, const RunShares& shares,
                           const std::string& other_run,
                           const RunShares& others) {
  RankSet together;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    together = together.Union(shares.held[i].Intersection(others.held[i]));
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const RankSet apart = shares.held[i].Minus(others.held[i]).Minus(together);
    // Ranks that do not exist in the other run are in the rows of nodes with
    // both runs.
    if (apart.empty() ||
        (others.has[i] && apart.Intersection(others.AllHeld()).empty())) {
      continue;
    }
    TellOnce(Printable(fmt::format(
        "partial: rank{} {} of run {} on {}, apart from run {}: not compared",
        apart.count() == 1 ? "" : "s", apart.Text(), run, nodes_[i]->name,
        other_run)));
  }
}

Outcome NodeFanout::WorkAt(std::string_view node) {
  const auto found =
      std::find_if(nodes_.begin(), nodes_.end(),
                   [node](const auto& known) { return known->name == node; });
  if (found == nodes_.end()) {
    return UsageError(
        fmt::format("--at {} is not one of the endpoints", Printable(node)));
  }
  worker_ = static_cast<size_t>(found - nodes_.begin());
  return {};
}

std::string NodeFanout::SourceOf(const RunShares& shares) const {
  std::vector<std::string_view> sources;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (shares.has[i]) {
      sources.push_back(AreOne(i, *worker_) ? kLocal : nodes_[i]->name);
    }
  }
  const bool is_local = sources.size() == 1 && sources.front() == kLocal;
  return is_local ? "" : fmt::format("{}", fmt::join(sources, ","));
}

std::string NodeFanout::IdsOf(const RunShares& shares) {
  std::vector<std::string_view> ids;
  for (size_t i = 0; i < shares.ids.size(); ++i) {
    if (!shares.has[i]) continue;
    // An older daemon returns no id.
    if (shares.ids[i].empty()) return "";
    ids.push_back(shares.ids[i]);
  }
  return fmt::format("{}", fmt::join(ids, ","));
}

Outcome NodeFanout::PlanAtOneNode(const Message& request, Requests& requests) {
  auto copy = std::make_unique<v1::CreateComparisonRequest>();
  copy->CopyFrom(request);
  v1::Comparison& comparison = *copy->mutable_comparison();
  RunShares shares(0);
  MSITCTL_RETURN_IF_FAILED(FindShares(comparison.golden_run(), shares));
  comparison.set_golden_source(SourceOf(shares));
  comparison.set_golden_run_id(IdsOf(shares));
  MSITCTL_RETURN_IF_FAILED(FindShares(comparison.target_run(), shares));
  comparison.set_target_source(SourceOf(shares));
  comparison.set_target_run_id(IdsOf(shares));
  requests[*worker_] = std::move(copy);
  return {};
}

Outcome NodeFanout::PlanReduction(const Message& request, Requests& requests) {
  auto copy = std::make_unique<v1::SummarizeTensorsRequest>();
  copy->CopyFrom(request);
  RunShares shares(0);
  MSITCTL_RETURN_IF_FAILED(FindShares(copy->run(), shares));
  copy->set_source(SourceOf(shares));
  requests[*worker_] = std::move(copy);
  return {};
}

Outcome NodeFanout::PlanOrigin(const Message& request, Requests& requests) {
  auto copy = std::make_unique<v1::FindOriginRequest>();
  copy->CopyFrom(request);
  RunShares shares(0);
  MSITCTL_RETURN_IF_FAILED(FindShares(copy->run(), shares));
  const auto first = std::find(shares.has.begin(), shares.has.end(), true);
  if (!worker_.has_value()) {
    worker_ = first == shares.has.end()
                  ? 0
                  : static_cast<size_t>(first - shares.has.begin());
  }
  copy->set_source(SourceOf(shares));
  requests[*worker_] = std::move(copy);
  return {};
}

Outcome NodeFanout::MakeRequests(const Message& request, Requests& requests) {
  requests.resize(nodes_.size());
  const auto* const type = request.GetDescriptor();
  if (type == v1::CreateComparisonRequest::descriptor()) {
    return worker_.has_value() ? PlanAtOneNode(request, requests)
                               : PlanComparison(request, requests);
  }
  if (type == v1::SummarizeTensorsRequest::descriptor() &&
      worker_.has_value()) {
    return PlanReduction(request, requests);
  }
  if (type == v1::FindOriginRequest::descriptor()) {
    return PlanOrigin(request, requests);
  }
  if (type->FindFieldByName("comparison") != nullptr) {
    return RequestsByName(request, requests);
  }
  for (auto& slot : requests) slot = Copy(request);
  return {};
}

Outcome NodeFanout::Ask(const NodeCall& call, const Message& request,
                        Message& response) {
  if (!CanMerge(*response.GetDescriptor())) {
    return UsageError(
        fmt::format("{} supports a single daemon only: use --endpoint",
                    response.GetDescriptor()->name()));
  }
  Requests requests;
  MSITCTL_RETURN_IF_FAILED(MakeRequests(request, requests));
  std::vector<Answer> answers = AskNodes(call, requests, response);
  MSITCTL_RETURN_IF_FAILED(Sift(requests, answers));
  std::vector<NodeAnswer> parts;
  for (const Answer& answer : answers) {
    const Node& node = *nodes_[answer.node];
    TellOfDoubles(node, NoteHeld(node, request, *answer.message));
    parts.push_back({answer.message.get(), node.name});
  }
  std::vector<RankSet> golden;
  std::vector<RankSet> target;
  if (response.GetDescriptor() == v1::Comparison::descriptor() &&
      NeedsHeldRanks(parts)) {
    const auto& first =
        static_cast<const v1::Comparison&>(*parts.front().message);
    golden = KnownRanks(first.golden_run());
    target = KnownRanks(first.target_run());
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].golden_held = &golden[answers[i].node];
      parts[i].target_held = &target[answers[i].node];
    }
  }
  std::vector<std::string> notes;
  Merge(parts, response, notes);
  for (const std::string& note : notes) TellOnce("note: " + note);
  if (response.GetDescriptor() != v1::Comparison::descriptor()) return {};
  auto& comparison = static_cast<v1::Comparison&>(response);
  TellOfSpreadRows(parts, comparison);
  if (has_failed() || is_uncovered_) {
    comparison.set_partial(true);
    comparison.set_may_diverge_before(comparison.has_first_divergence());
  }
  return {};
}

Outcome NodeFanout::AskEach(
    const NodeCall& call, const Message& request, const Message& prototype,
    const std::function<void(const std::string& node, const Message&)>& take) {
  Requests requests;
  MSITCTL_RETURN_IF_FAILED(MakeRequests(request, requests));
  std::vector<Answer> answers = AskNodes(call, requests, prototype);
  MSITCTL_RETURN_IF_FAILED(Sift(requests, answers));
  for (const Answer& answer : answers) {
    take(nodes_[answer.node]->name, *answer.message);
  }
  return {};
}

std::string NodeFanout::HoldersOf(const std::string& run) const {
  const auto found = held_.find(run);
  if (found == held_.end()) return "";
  std::string out;
  for (const auto& [node, ranks] : found->second) {
    out += (out.empty() ? "" : ",") + node;
  }
  return out;
}

std::string NodeFanout::JsonMembers() const {
  using Json = nlohmann::ordered_json;
  Json answered = Json::array();
  Json failed = Json::array();
  for (const auto& node : nodes_) {
    if (node->has_failed()) {
      failed.push_back({{"node", node->name}, {"error", node->error}});
    } else {
      answered.push_back(node->name);
    }
  }
  Json held = Json::object();
  for (const auto& [run, by_node] : held_) {
    for (const auto& [node, ranks] : by_node) held[run][node] = ranks.Text();
  }
  const auto text = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string out = "\"nodes\": " + text(answered);
  if (!failed.empty()) out += ",\n\"nodes_failed\": " + text(failed);
  if (!held.empty()) out += ",\n\"held_by\": " + text(held);
  return out;
}

}  // namespace msitd::ask
