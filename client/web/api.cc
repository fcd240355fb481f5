// SPDX-License-Identifier: Apache-2.0
#include "client/web/api.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "client/ask/query/exit_code.h"
#include "client/ask/text/json_text.h"
#include "client/web/comparison_page.h"
#include "client/web/group_json.h"
#include "client/web/method_table.h"
#include "client/web/row_json.h"
#include "client/web/row_stream.h"
#include "client/web/summary_json.h"
#include "client/web/value_page.h"

namespace msitd::web {
namespace {

using google::protobuf::Message;

constexpr std::string_view kJsonType = "application/json";
// Nesting in requests that are not parsed as messages only.
constexpr int kDepthMax = 8;

int HttpStatusOf(int exit_code) {
  if (exit_code == ask::kExitOk) return 200;
  if (exit_code < ask::kExitDaemonBase) return 400;
  using grpc::StatusCode;
  switch (static_cast<StatusCode>(exit_code - ask::kExitDaemonBase)) {
    case StatusCode::INVALID_ARGUMENT:
    case StatusCode::OUT_OF_RANGE:
      return 400;
    case StatusCode::UNAUTHENTICATED:
    case StatusCode::PERMISSION_DENIED:
      return 403;
    case StatusCode::NOT_FOUND:
      return 404;
    case StatusCode::ALREADY_EXISTS:
    case StatusCode::ABORTED:
    case StatusCode::FAILED_PRECONDITION:
      return 409;
    case StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case StatusCode::UNIMPLEMENTED:
      return 501;
    case StatusCode::UNAVAILABLE:
      return 503;
    case StatusCode::DEADLINE_EXCEEDED:
      return 504;
    default:
      return 500;
  }
}

// Parses the proto JSON of a request of a daemon.
ask::Outcome ParseMessage(const std::string& text, Message& out) {
  const auto status = google::protobuf::util::JsonStringToMessage(text, &out);
  if (status.ok()) return {};
  return ask::UsageError("the body is not " + out.GetTypeName() + ": " +
                         status.ToString());
}

// Removes a member from a JSON object and returns its text; empty if the object
// has no such text.
std::string RemoveMember(std::string_view name, std::string& body) {
  // Deeper values are left out: to write them, the library would recurse.
  const auto keep = [](int depth, auto /*event*/, auto& /*value*/) {
    return depth <= kDepthMax;
  };
  auto json = nlohmann::json::parse(body, keep, /*allow_exceptions=*/false);
  if (!json.is_object()) return "";
  const auto member = json.find(name);
  if (member == json.end() || !member->is_string()) return "";
  std::string text = member->get<std::string>();
  json.erase(member);
  body = json.dump();
  return text;
}

// One call, and its answer.
class ApiCall {
 public:
  ApiCall(PooledConnection& pooled, const HttpRequest& request,
          HttpReply& reply)
      : pooled_(pooled),
        connection_(pooled.connection()),
        request_(request),
        reply_(reply) {}

  ask::Outcome Run(std::string_view name) {
    if (name == "page.stream") return Stream();
    std::string json;
    ask::Outcome outcome = Ask(name, json);
    if (!outcome.ok()) return outcome;
    AddNodes(json);
    reply_.Send({200, kJsonType, json});
    return outcome;
  }

 private:
  ask::Outcome Ask(std::string_view name, std::string& json) {
    if (name == "page.comparisons") return ComparisonList(connection_, json);
    if (name == "page.comparison") {
      v1::GetComparisonRequest request;
      MSITCTL_RETURN_IF_FAILED(ParseMessage(request_.body, request));
      return ComparisonPage(connection_, request.comparison(), json);
    }
    if (name == "page.groups") {
      v1::SummarizeComparisonRowsRequest request;
      MSITCTL_RETURN_IF_FAILED(ParseMessage(request_.body, request));
      return GroupsPage(connection_, request, json);
    }
    if (name == "page.rows" || name == "page.row") {
      v1::ListComparisonRowsRequest request;
      std::string body = request_.body;
      const std::string node =
          name == "page.rows" ? RemoveMember("node", body) : "";
      MSITCTL_RETURN_IF_FAILED(ParseMessage(body, request));
      if (name == "page.rows") {
        return RowsPage(connection_, request, node, json);
      }
      if (request.rows_size() != 1) {
        return ask::UsageError("rows: page.row needs exactly one");
      }
      return RowPage(connection_, request.comparison(), request.rows(0), json);
    }
    if (name == "page.summaries") {
      SummaryRequest request;
      MSITCTL_RETURN_IF_FAILED(ParseSummaryRequest(request_.body, request));
      return SummariesPage(connection_, request, json);
    }
    if (name == "page.values" || name == "page.logits") {
      ValuesRequest request;
      MSITCTL_RETURN_IF_FAILED(ParseValuesRequest(request_.body, request));
      return name == "page.values" ? ValuesPage(connection_, request, json)
                                   : LogitsPage(connection_, request, json);
    }
    const WebMethod* const method = FindWebMethod(name);
    if (method == nullptr) {
      return ask::DaemonError(grpc::StatusCode::NOT_FOUND, "",
                              fmt::format("no call {}", name));
    }
    const std::unique_ptr<Message> request(method->request.New());
    const std::unique_ptr<Message> response(method->response.New());
    MSITCTL_RETURN_IF_FAILED(ParseMessage(request_.body, *request));
    RowNodes row_nodes;
    MSITCTL_RETURN_IF_FAILED(
        CallWebMethod(connection_, *method, *request, *response, row_nodes));
    json = ask::ToJson(*response, /*indented=*/false);
    json.pop_back();
    row_nodes.AppendTo(json);
    json += '}';
    return {};
  }

  // Adds the members of msitctl about several daemons to a JSON object.
  void AddNodes(std::string& json) const {
    if (pooled_.fanout() == nullptr || !json.ends_with('}')) return;
    json.pop_back();
    json += fmt::format("{}{}}}", json == "{" ? "" : ",",
                        pooled_.fanout()->JsonMembers());
  }

  ask::Outcome Stream() {
    RowStreamRequest request;
    MSITCTL_RETURN_IF_FAILED(ParseRowStreamRequest(request_.body, request));
    return StreamRows(connection_, request, reply_);
  }

  PooledConnection& pooled_;
  ask::Connection& connection_;
  const HttpRequest& request_;
  HttpReply& reply_;
};

}  // namespace

void Api::Answer(std::string_view name, const HttpRequest& request,
                 HttpReply& reply) {
  auto pooled = pool_.Take();
  const ask::Outcome outcome = ApiCall(*pooled, request, reply).Run(name);
  if (!outcome.ok()) {
    const std::string body =
        fmt::format("{{\"error\":{},\"reason\":{}}}", QuotedJson(outcome.error),
                    QuotedJson(outcome.reason));
    reply.Send({HttpStatusOf(outcome.exit_code), kJsonType, body});
  }
  pool_.Return(std::move(pooled), outcome);
}

}  // namespace msitd::web
