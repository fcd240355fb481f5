// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <set>
#include <string>
#include <utility>

#include "client/ask/print/printer.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/msitctl/compare/comparison_printer.h"
#include "protos/base/tensor_key.h"

namespace msitd::msitctl {
namespace {

// Consecutive streams that may end with UNAVAILABLE and without a row.
constexpr int kFruitlessRowStreamsMax = 10;
constexpr std::chrono::milliseconds kRetryDelay(200);

std::string PlaceText(const v1::ComparisonRow& row) {
  return ask::Printable(
      fmt::format("token {} rank {} {} {}{}{}", row.token(), row.rank(),
                  row.op(), IoName(static_cast<Io>(row.io())),
                  row.index().empty() ? "" : "/", row.index()));
}

// Handles the messages of a stream.
class Follower {
 public:
  Follower(Invocation& invocation, RowLines& lines, v1::Comparison& comparison)
      : invocation_(invocation), lines_(lines), comparison_(comparison) {}

  ask::Outcome Run() {
    int fruitless_count = 0;
    while (true) {
      const int64_t row_before = next_row_;
      const grpc::Status status = ReadStream();
      if (status.ok()) return {};
      fruitless_count = next_row_ > row_before ? 0 : fruitless_count + 1;
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE ||
          fruitless_count == kFruitlessRowStreamsMax ||
          invocation_.interrupts().WaitFor(kRetryDelay)) {
        return invocation_.OutcomeOf(status);
      }
    }
  }

 private:
  grpc::Status ReadStream() {
    v1::StreamComparisonRowsRequest request;
    request.set_comparison(comparison_.name());
    request.set_first_row(next_row_);
    grpc::ClientContext context;
    context.set_deadline(invocation_.StreamDeadline());
    const ask::Interrupts::Hold hold(invocation_.interrupts(), &context);
    const auto reader =
        invocation_.stub<v1::ComparisonService::Stub>().StreamComparisonRows(
            &context, request);
    v1::StreamComparisonRowsResponse response;
    while (reader->Read(&response)) {
      for (const v1::ComparisonRow& row : response.rows()) Show(row);
      if (response.has_comparison()) {
        comparison_ = response.comparison();
        TellOfWaiting();
        TellOfSilentRanks();
      }
      lines_.Flush();
    }
    return reader->Finish();
  }

  void Show(const v1::ComparisonRow& row) {
    next_row_ = row.row() + 1;
    for (const int32_t watch : row.watches()) {
      const bool known = watch >= 0 && watch < comparison_.watches_size();
      fmt::print(stderr, "msitctl: watch \"{}\" holds: row {}, {}\n",
                 known ? ask::Printable(comparison_.watches(watch)) : "?",
                 row.row(), PlaceText(row));
    }
    lines_.Add(row);
  }

  // Printed once, because the messages of a stream do not change while it
  // waits.
  void TellOfWaiting() {
    const std::string text = WaitingText(comparison_);
    if (text.empty() || std::exchange(has_told_of_waiting_, true)) return;
    fmt::print(stderr, "msitctl: {}\n", text);
  }

  // Printed once for each rank, unless it becomes active in between.
  void TellOfSilentRanks() {
    std::set<std::pair<std::string, int32_t>> silent;
    for (const v1::SilentRank& rank : comparison_.silent_ranks()) {
      silent.emplace(rank.run(), rank.rank());
      if (silent_.contains({rank.run(), rank.rank()})) continue;
      const int64_t seconds =
          std::max<int64_t>(time(nullptr) - rank.silent_since().seconds(), 0);
      fmt::print(stderr,
                 "msitctl: note: run {}: rank {} has had no stream for {}{}\n",
                 ask::Printable(rank.run()), rank.rank(),
                 ask::HumanDuration(static_cast<double>(seconds)),
                 rank.has_finished() ? ": its client closed the last one" : "");
    }
    silent_ = std::move(silent);
  }

  Invocation& invocation_;
  bool has_told_of_waiting_ = false;
  std::set<std::pair<std::string, int32_t>> silent_;
  RowLines& lines_;
  v1::Comparison& comparison_;
  int64_t next_row_ = 0;
};

}  // namespace

std::string WaitingText(const v1::Comparison& comparison) {
  const int32_t count = comparison.waiting_behind_count();
  if (comparison.state() != v1::Comparison::PENDING || count <= 0) return "";
  return fmt::format("{}: waiting for {} other comparison{}",
                     ask::Printable(comparison.name()), count,
                     count == 1 ? "" : "s");
}

void WaitingNotice::Show(const v1::Comparison& comparison) {
  const std::string text = WaitingText(comparison);
  if (text.empty() || text == shown_ ||
      std::chrono::steady_clock::now() - start_ < kDelay) {
    return;
  }
  shown_ = text;
  fmt::print(stderr, "msitctl: {}\n", text);
}

RowLines::RowLines(Invocation& invocation,
                   const std::vector<v1::Verdict>* verdicts, int64_t limit)
    : invocation_(invocation),
      verdicts_(verdicts == nullptr ? std::nullopt : std::optional(*verdicts)),
      limit_(limit) {}

ask::Outcome RowLines::Create(Invocation& invocation,
                              const std::vector<v1::Verdict>* verdicts,
                              const ListFlags& flags,
                              std::unique_ptr<RowLines>& out) {
  out.reset(new RowLines(invocation, verdicts, flags.limit));
  const ask::Format format = invocation.options().format;
  const bool has_columns =
      format == ask::Format::kCsv ||
      (format == ask::Format::kTable && !flags.columns.empty());
  if (!has_columns) return {};
  MSITCTL_ASSIGN_OR_USAGE(
      out->printer_,
      ask::ListPrinter::Create(RowLayout(invocation, v1::Comparison()),
                               invocation.print_options(flags.columns),
                               invocation.out()));
  return {};
}

void RowLines::Add(const v1::ComparisonRow& row) {
  if (!verdicts_.has_value()) return;
  const bool is_selected =
      verdicts_->empty() || std::find(verdicts_->begin(), verdicts_->end(),
                                      row.verdict()) != verdicts_->end();
  if (!is_selected) return;
  if (limit_ != 0 && printed_count_ == limit_) return;
  ++printed_count_;
  if (printer_ != nullptr) {
    printer_->Add(row);
    return;
  }
  switch (invocation_.options().format) {
    case ask::Format::kJson:
      invocation_.out().Write(
          ask::ToJson(row, false, invocation_.print_options()) + "\n");
      break;
    case ask::Format::kTable:
      invocation_.out().Write(fmt::format(
          "{:<9}  {}{}{}\n", ask::WordOf(v1::Verdict_Name(row.verdict())),
          PlaceText(row), row.reason().empty() ? "" : ": ",
          ask::Printable(row.reason())));
      break;
    case ask::Format::kCsv:
    case ask::Format::kName:
      break;
  }
}

void RowLines::Flush() {
  if (printer_ != nullptr) printer_->Flush();
  invocation_.out().Flush();
}

ask::Outcome FollowComparison(Invocation& invocation, RowLines& lines,
                              v1::Comparison& comparison) {
  return Follower(invocation, lines, comparison).Run();
}

}  // namespace msitd::msitctl
