// SPDX-License-Identifier: Apache-2.0
#include "client/web/row_stream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/ask/query/daemon_metrics.h"
#include "client/ask/text/conclusion.h"
#include "client/ask/text/policy_text.h"
#include "client/web/row_json.h"
#include "protos/bounds/bound_share.h"

namespace msitd::web {
namespace {

// A stream of the daemon is ended and resumed after this time, so that a client
// that has gone is noticed.
constexpr std::chrono::seconds kStreamTime{5};
// The delay before a daemon that was not available is called again.
constexpr std::chrono::milliseconds kRetryDelay{300};
// Consecutive attempts to reach it: about half a minute, in which a daemon
// restarts.
constexpr int kRetriesMax = 100;

class RowStreamer {
 public:
  RowStreamer(ask::Connection& connection, const RowStreamRequest& request,
              std::vector<v1::Metric> metrics, HttpReply& reply)
      : connection_(connection),
        request_(request),
        metrics_(std::move(metrics)),
        reply_(reply),
        next_row_(request.first_row) {}

  void Run() {
    int failure_count = 0;
    while (true) {
      const grpc::Status status = ReadStream();
      if (is_gone_ || connection_.interrupts().interrupted()) return;
      if (status.ok()) return;
      const bool is_lost = status.error_code() == grpc::StatusCode::UNAVAILABLE;
      const bool goes_on =
          status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
          (is_lost && ++failure_count <= kRetriesMax);
      if (!goes_on) {
        Send(fmt::format("{{\"error\":{}}}",
                         QuotedJson(connection_.OutcomeOf(status).error)));
        return;
      }
      if (!is_lost) failure_count = 0;
      Send("");
      if (is_gone_) return;
      if (is_lost && connection_.interrupts().WaitFor(kRetryDelay)) return;
    }
  }

 private:
  grpc::Status ReadStream() {
    v1::StreamComparisonRowsRequest request;
    request.set_comparison(request_.comparison);
    request.set_first_row(next_row_);
    grpc::ClientContext context;
    context.set_deadline(ask::Connection::Clock::now() + kStreamTime);
    const ask::Interrupts::Hold hold(connection_.interrupts(), &context);
    const auto reader =
        connection_.stub<v1::ComparisonService::Stub>().StreamComparisonRows(
            &context, request);
    v1::StreamComparisonRowsResponse response;
    bool has_ended = false;
    while (reader->Read(&response)) {
      has_ended = ask::IsOver(response.comparison());
      SendRows(response);
      if (is_gone_) context.TryCancel();
    }
    grpc::Status status = reader->Finish();
    if (status.ok() && !has_ended) {
      // A daemon that stops ends its streams.
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ended");
    }
    return status;
  }

  void SendRows(const v1::StreamComparisonRowsResponse& response) {
    const v1::Comparison& comparison = response.comparison();
    const Bounds bounds(comparison, metrics_);
    std::vector<std::string> rows;
    for (const v1::ComparisonRow& row : response.rows()) {
      next_row_ = row.row() + 1;
      const auto& verdicts = request_.verdicts;
      if (verdicts.empty() || std::find(verdicts.begin(), verdicts.end(),
                                        row.verdict()) != verdicts.end()) {
        rows.push_back(RowJson(row, bounds));
      }
    }
    Send(fmt::format(
        R"({{"rows":[{}],"next_row":{},"state":{},"counts":[{},{},{},{}],)"
        R"("total_count":{},"first_divergence":{}}})",
        fmt::join(rows, ","), next_row_,
        QuotedJson(ask::WordOf(v1::Comparison::State_Name(comparison.state()))),
        comparison.pass_count(), comparison.fail_count(),
        comparison.unmatched_count(), comparison.skipped_count(),
        comparison.total_count(),
        comparison.has_first_divergence() ? comparison.first_divergence().row()
                                          : -1));
  }

  void Send(std::string line) {
    line += '\n';
    if (!reply_.Write(line)) is_gone_ = true;
  }

  ask::Connection& connection_;
  const RowStreamRequest& request_;
  const std::vector<v1::Metric> metrics_;
  HttpReply& reply_;
  int64_t next_row_;
  bool is_gone_ = false;
};

}  // namespace

ask::Outcome ParseRowStreamRequest(const std::string& text,
                                   RowStreamRequest& out) {
  const auto json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto bad = [] {
    return ask::UsageError(
        "the body is not {\"comparison\": NAME, \"first_row\": NUMBER, "
        "\"verdicts\": [VERDICT, ...]}");
  };
  if (!json.is_object()) return bad();
  for (const auto& [key, value] : json.items()) {
    if (key == "comparison" && value.is_string()) {
      out.comparison = value.get<std::string>();
    } else if (key == "first_row" && value.is_number_unsigned()) {
      out.first_row = value.get<int64_t>();
    } else if (key == "verdicts" && value.is_array()) {
      for (const nlohmann::json& word : value) {
        v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
        if (!word.is_string() ||
            !v1::Verdict_Parse(word.get<std::string>(), &verdict)) {
          return bad();
        }
        out.verdicts.push_back(verdict);
      }
    } else {
      return bad();
    }
  }
  return out.comparison.empty() ? bad() : ask::Outcome();
}

ask::Outcome StreamRows(ask::Connection& connection,
                        const RowStreamRequest& request, HttpReply& reply) {
  if (connection.fanout() != nullptr) {
    return ask::DaemonError(grpc::StatusCode::UNIMPLEMENTED, "",
                            "rows of several daemons are not streamed");
  }
  std::vector<v1::Metric> metrics;
  MSITCTL_RETURN_IF_FAILED(ask::GetMetrics(connection, metrics));
  v1::Comparison comparison;
  MSITCTL_RETURN_IF_FAILED(
      connection.AskByName(&v1::ComparisonService::Stub::GetComparison,
                           request.comparison, comparison));
  if (!reply.Begin("application/x-ndjson")) return {};
  RowStreamer(connection, request, std::move(metrics), reply).Run();
  return {};
}

}  // namespace msitd::web
