// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "client/ask/fanout/comparison_names.h"
#include "client/ask/fanout/merge.h"
#include "client/ask/fanout/node.h"
#include "client/ask/fanout/node_fanout.h"
#include "client/ask/query/paging.h"
#include "protos/base/rank_set.h"
#include "protos/os/thread.h"

namespace msitd::ask {
namespace {

using google::protobuf::Message;

std::string TokenOf(const Message& page) {
  return page.GetReflection()->GetString(
      page, page.GetDescriptor()->FindFieldByName("next_page_token"));
}

}  // namespace

// The rows of one node: the current page, while the next one is being
// requested.
class NodeFanout::Rows {
 public:
  // `first` is the first page.
  Rows(Node& node, const NodeCall& call, const List& list,
       std::unique_ptr<Message> request, std::unique_ptr<Message> first)
      : node_(node),
        call_(call),
        rows_(first->GetDescriptor()->FindFieldByName(list.field)),
        request_(std::move(request)),
        page_(std::move(first)) {
    AskForNext();
  }
  Rows(Rows&&) = delete;
  ~Rows() {
    if (thread_.joinable()) thread_.join();
  }

  Node& node() { return node_; }
  const Message& page() const { return *page_; }

  // Returns null at the end and after an error. Calls `on_page` with each page
  // that arrives.
  template <typename OnPage>
  const Message* Peek(Outcome& outcome, const OnPage& on_page) {
    while (at_ == page_->GetReflection()->FieldSize(*page_, rows_)) {
      if (next_ == nullptr) return nullptr;
      if (thread_.joinable()) thread_.join();
      if (!outcome_.ok()) {
        outcome = outcome_;
        next_.reset();
        return nullptr;
      }
      page_ = std::move(next_);
      at_ = 0;
      // The first pages contained the ranks that all nodes together lack.
      for (const char* name : {"ranks_lacking", "partial"}) {
        const auto* field = page_->GetDescriptor()->FindFieldByName(name);
        if (field == nullptr) continue;
        page_->GetReflection()->ClearField(page_.get(), field);
      }
      on_page(*page_);
      AskForNext();
    }
    return &page_->GetReflection()->GetRepeatedMessage(*page_, rows_, at_);
  }
  void Pop() { ++at_; }

 private:
  void AskForNext() {
    const std::string token = TokenOf(*page_);
    if (token.empty()) return;
    next_.reset(page_->New());
    const auto* field =
        request_->GetDescriptor()->FindFieldByName("page_token");
    const auto& reflection = *request_->GetReflection();
    if (reflection.GetString(*request_, field) == token) {
      outcome_ = DaemonError(grpc::StatusCode::INTERNAL, "",
                             "the daemon returned the same page token twice");
      return;
    }
    reflection.SetString(request_.get(), field, token);
    const auto ask = [this] {
      outcome_ = call_(node_.connection, *request_, *next_);
    };
    thread_ = StartSpareThread("node", ask);
    if (!thread_.joinable()) ask();
  }

  Node& node_;
  const NodeCall& call_;
  const google::protobuf::FieldDescriptor* const rows_;
  std::unique_ptr<Message> request_;
  std::unique_ptr<Message> page_;
  int at_ = 0;
  std::unique_ptr<Message> next_;
  Outcome outcome_;
  std::thread thread_;
};

Outcome NodeFanout::ForEachRow(const List& list, Message& response) {
  if (!CanMerge(*response.GetDescriptor())) {
    return UsageError(
        fmt::format("{} supports a single daemon only: use --endpoint",
                    response.GetDescriptor()->name()));
  }
  Requests requests;
  MSITCTL_RETURN_IF_FAILED(MakeRequests(list.request, requests));
  for (const auto& request : requests) {
    if (request == nullptr) continue;
    request->GetReflection()->SetInt32(
        request.get(), request->GetDescriptor()->FindFieldByName("page_size"),
        static_cast<int32_t>(list.limit == 0
                                 ? kPageRowsMax
                                 : std::min(list.limit, kPageRowsMax)));
  }
  std::vector<Answer> answers = AskNodes(list.call, requests, response);
  MSITCTL_RETURN_IF_FAILED(Sift(requests, answers));

  // The coverage of the answer, before the first row.
  std::vector<NodeAnswer> firsts;
  for (const Answer& answer : answers) {
    const Node& node = *nodes_[answer.node];
    TellOfDoubles(node, NoteHeld(node, list.request, *answer.message));
    firsts.push_back({answer.message.get(), node.name});
  }
  std::vector<std::string> notes;
  Merge(std::move(firsts), response, notes);
  const auto* const rows_field =
      response.GetDescriptor()->FindFieldByName(list.field);
  response.GetReflection()->ClearField(&response, rows_field);
  // The value would be that of one node.
  response.GetReflection()->ClearField(
      &response, response.GetDescriptor()->FindFieldByName("next_page_token"));
  list.see(response);

  std::vector<std::unique_ptr<Rows>> lists;
  for (Answer& answer : answers) {
    lists.push_back(std::make_unique<Rows>(
        *nodes_[answer.node], list.call, list, std::move(requests[answer.node]),
        std::move(answer.message)));
  }
  const bool joins = AreJoined(*rows_field->message_type());
  for (int64_t count = 0; list.limit == 0 || count < list.limit; ++count) {
    std::unique_ptr<Message> row;
    MSITCTL_RETURN_IF_FAILED(TakeLeast(list, lists, joins, row));
    if (row == nullptr || !list.take(*row)) return {};
  }
  return {};
}

Outcome NodeFanout::TakeLeast(const List& list,
                              const std::vector<std::unique_ptr<Rows>>& lists,
                              bool joins, std::unique_ptr<Message>& out) {
  std::vector<Rows*> least;
  const Message* first = nullptr;
  for (const auto& rows : lists) {
    Outcome outcome;
    const Message* row =
        rows->Peek(outcome, [&](const Message& page) { list.see(page); });
    if (outcome.exit_code == kExitInterrupted) return outcome;
    if (!outcome.ok()) Fail(rows->node(), outcome);
    if (row == nullptr) continue;
    const int order = first == nullptr ? -1 : CompareRows(*row, *first);
    if (order < 0) {
      least.assign(1, rows.get());
      first = row;
    } else if (order == 0 && joins) {
      least.push_back(rows.get());
    }
  }
  if (first == nullptr) return {};
  row_node_ = least.front()->node().name;
  out.reset(first->New());
  std::vector<NodeAnswer> parts;
  for (Rows* rows : least) {
    Outcome ignored;
    const Message* row = rows->Peek(ignored, [](const Message&) {});
    if (joins) {
      TellOfDoubles(rows->node(), NoteHeld(rows->node(), *out, *row));
    }
    parts.push_back({row, rows->node().name});
  }
  if (joins) {
    std::vector<std::string> notes;
    Merge(std::move(parts), *out, notes);
    for (const std::string& note : notes) TellOnce("note: " + note);
  } else {
    out->CopyFrom(*first);
  }
  if (out->GetDescriptor() == v1::Comparison::descriptor()) {
    auto& comparison = static_cast<v1::Comparison&>(*out);
    comparison.set_name(JoinNames({{comparison.name(), row_node_}}));
  }
  for (Rows* rows : least) rows->Pop();
  return {};
}

}  // namespace msitd::ask
