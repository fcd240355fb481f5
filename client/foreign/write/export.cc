// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <utility>
#include <vector>

#include "client/ask/query/connection.h"
#include "client/ask/query/paging.h"
#include "client/ask/text/text.h"
#include "client/foreign/write/archive_layout.h"
#include "client/foreign/write/export_context.h"
#include "client/foreign/write/file_layout.h"
#include "client/foreign/write/layout.h"
#include "client/foreign/write/msit/module_tree.h"
#include "client/foreign/write/msit/msit_layout.h"
#include "client/foreign/write/msprobe/msprobe_layout.h"
#include "client/foreign/write/output_folder.h"
#include "client/foreign/write/scalar_layout.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

using ask::Outcome;
using Stub = v1::TensorService::Stub;

constexpr std::array<std::string_view, 7> kNames = {
    "npy", "npz", "safetensors", "pt", "msit", "msprobe", "tensorboard"};

// Documents that describe the modules of a rank's model. The later one takes
// precedence.
constexpr std::array<std::string_view, 2> kTreeDocuments = {"module_tree.json",
                                                            "model_tree.json"};

std::unique_ptr<Layout> MakeLayout(ExportContext& context) {
  switch (context.options().format) {
    case ExportFormat::kNpz:
    case ExportFormat::kSafetensors:
      return MakeArchiveLayout(context);
    case ExportFormat::kMsit:
      return MakeMsitLayout(context);
    case ExportFormat::kMsprobe:
      return MakeMsprobeLayout(context);
    case ExportFormat::kTensorboard:
      return MakeScalarLayout(context);
    default:
      return MakeFileLayout(context);
  }
}

// Selects the kinds for which a format is made, unless some are specified.
v1::TensorFilter FilterOf(const ExportOptions& options) {
  v1::TensorFilter out = options.filter;
  if (!out.kinds().empty()) return out;
  if (options.format == ExportFormat::kTensorboard) {
    out.add_kinds(v1::RECORD_KIND_TENSOR);
    out.add_kinds(v1::RECORD_KIND_NUMBER);
    return out;
  }
  const bool is_msit = options.format == ExportFormat::kMsit;
  if (!is_msit && options.format != ExportFormat::kMsprobe) return out;
  for (int i = 0; i < kRecordKindCount; ++i) {
    const bool is_value = IsValue(static_cast<RecordKind>(i));
    if (!is_msit || !is_value) out.add_kinds(static_cast<v1::RecordKind>(i));
  }
  return out;
}

// Reads the list of records and passes it to a layout.
class Exporter {
 public:
  Exporter(ExportContext& context, const ExportListener& listener,
           Layout& layout)
      : context_(context), listener_(listener), layout_(layout) {}

  // The error of a file is in `file_status`.
  Outcome Run() {
    const v1::TensorFilter filter = FilterOf(context_.options());
    if (!layout_.is_grouped()) return AddAll(filter);
    std::vector<int64_t> ranks;
    MSITCTL_RETURN_IF_FAILED(
        Groups(filter, v1::SummarizeTensorsRequest::RANK, ranks));
    for (const int64_t rank : ranks) {
      v1::TensorFilter of_rank = filter;
      of_rank.clear_ranks();
      of_rank.add_ranks(static_cast<int32_t>(rank));
      MSITCTL_RETURN_IF_FAILED(BeginRank(static_cast<int32_t>(rank)));
      std::vector<int64_t> tokens;
      MSITCTL_RETURN_IF_FAILED(
          Groups(of_rank, v1::SummarizeTensorsRequest::TOKEN, tokens));
      for (const int64_t token : tokens) {
        MSITCTL_RETURN_IF_FAILED(
            AddGroup(of_rank, static_cast<int32_t>(rank), token));
      }
    }
    return {};
  }

  const absl::Status& file_status() const { return file_status_; }

 private:
  Outcome AddGroup(v1::TensorFilter filter, int32_t rank, int64_t token) {
    filter.clear_tokens();
    v1::TokenRange& range = *filter.add_tokens();
    range.set_first(token);
    range.set_last(token);
    MSITCTL_RETURN_IF_FAILED(Take(layout_.BeginGroup(rank, token)));
    // Documents are first, because their contents need not be created from
    // records.
    const auto kinds = filter.kinds();
    const int document = v1::RECORD_KIND_DOCUMENT;
    if (std::find(kinds.begin(), kinds.end(), document) != kinds.end()) {
      filter.clear_kinds();
      filter.add_kinds(v1::RECORD_KIND_DOCUMENT);
      MSITCTL_RETURN_IF_FAILED(AddAll(filter));
      filter.clear_kinds();
      for (const int kind : kinds) {
        if (kind != document)
          filter.add_kinds(static_cast<v1::RecordKind>(kind));
      }
    }
    const bool has_kinds = kinds.empty() || !filter.kinds().empty();
    if (has_kinds) MSITCTL_RETURN_IF_FAILED(AddAll(filter));
    return Take(layout_.EndGroup());
  }

  // Finds the tree of the rank, even if the selection excludes it.
  Outcome BeginRank(int32_t rank) {
    v1::ListTensorsRequest request;
    request.set_run(context_.options().run);
    v1::TensorFilter& filter = *request.mutable_filter();
    filter.add_ranks(rank);
    filter.add_kinds(v1::RECORD_KIND_DOCUMENT);
    v1::ListTensorsResponse page;
    std::string text;
    for (const std::string_view name : kTreeDocuments) {
      filter.clear_op_patterns();
      filter.add_op_patterns(std::string(name));
      request.set_page_size(1);
      page.Clear();
      MSITCTL_RETURN_IF_FAILED(
          context_.connection().Ask(&Stub::ListTensors, request, page));
      if (page.tensors().empty()) continue;
      const v1::Tensor& document = page.tensors(0);
      const bool fits =
          document.size_bytes() <= static_cast<int64_t>(kTreeBytesMax);
      if (!document.has_bytes() || !fits) continue;
      text.clear();
      const absl::Status status =
          context_.Read(document, [&text](std::string_view piece) {
            text += piece;
            return absl::OkStatus();
          });
      if (!status.ok() && !IsLost(status)) return Take(status);
    }
    return Take(layout_.BeginRank(text));
  }

  Outcome AddAll(const v1::TensorFilter& filter) {
    v1::ListTensorsRequest request;
    request.set_run(context_.options().run);
    *request.mutable_filter() = filter;
    v1::ListTensorsResponse page;
    do {
      request.set_page_size(static_cast<int32_t>(ask::kPageRowsMax));
      request.set_page_token(page.next_page_token());
      page.Clear();
      MSITCTL_RETURN_IF_FAILED(
          context_.connection().Ask(&Stub::ListTensors, request, page));
      if (listener_.page) listener_.page(page);
      context_.Expect(page.tensors());
      context_.CountIncomplete(page.incomplete_count());
      for (const v1::Tensor& record : page.tensors()) {
        if (context_.connection().interrupts().interrupted()) {
          return ask::Interrupted();
        }
        MSITCTL_RETURN_IF_FAILED(Take(layout_.Add(record)));
      }
    } while (!page.next_page_token().empty());
    return {};
  }

  // Returns the ranks or tokens that have records of `filter`.
  Outcome Groups(const v1::TensorFilter& filter,
                 v1::SummarizeTensorsRequest::GroupBy by,
                 std::vector<int64_t>& out) {
    v1::SummarizeTensorsRequest request;
    request.set_run(context_.options().run);
    *request.mutable_filter() = filter;
    request.set_group_by(by);
    v1::SummarizeTensorsResponse response;
    MSITCTL_RETURN_IF_FAILED(
        context_.connection().Ask(&Stub::SummarizeTensors, request, response));
    for (const auto& group : response.groups()) {
      int64_t number = 0;
      const std::string& key = group.key();
      std::from_chars(key.data(), key.data() + key.size(), number);
      out.push_back(number);
    }
    return {};
  }

  Outcome Take(absl::Status status) {
    if (status.ok()) return {};
    file_status_ = std::move(status);
    return context_.OutcomeOf(file_status_);
  }

  ExportContext& context_;
  const ExportListener& listener_;
  Layout& layout_;
  absl::Status file_status_;
};

// Checks that the records belong to the same run, because they were requested
// by its name. Ids are never reused, so everything that was read between two
// queries with the same id belongs to one run.
Outcome CheckSameRun(ask::Connection& connection, const v1::Run& run) {
  v1::Run now;
  const Outcome asked =
      connection.AskByName(&v1::RunService::Stub::GetRun, run.name(), now);
  // Data that was read from a run that has been deleted since still belongs to
  // that run.
  if (!asked.missing_run.empty()) return {};
  MSITCTL_RETURN_IF_FAILED(asked);
  if (now.id() == run.id()) return {};
  return ask::DaemonError(
      grpc::StatusCode::FAILED_PRECONDITION, "RUN_REPLACED",
      fmt::format("run {} was deleted during the export, and another run has "
                  "its name now. The files are from both runs: export again",
                  ask::Printable(run.name())));
}

}  // namespace

std::string_view ExportFormatName(ExportFormat format) {
  return kNames[static_cast<size_t>(format)];
}

std::optional<ExportFormat> ParseExportFormat(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ExportFormat>(found - kNames.begin());
}

Outcome Export(ask::Connection& connection, const ExportOptions& options,
               const ExportListener& listener, ExportCounts& counts) {
  v1::Run run;
  MSITCTL_RETURN_IF_FAILED(
      connection.AskByName(&v1::RunService::Stub::GetRun, options.run, run));
  const auto folder = OutputFolder::Open(options.folder, options.replaces);
  if (!folder.ok()) return ask::LocalError(Message(folder.status()));
  ExportContext context(connection, run, options, listener, **folder, counts);
  const std::unique_ptr<Layout> layout = MakeLayout(context);
  Exporter exporter(context, listener, *layout);
  const Outcome outcome = exporter.Run();
  // If one file cannot be written, others cannot be written either.
  if (!outcome.ok() && outcome.exit_code == ask::kExitLocal) return outcome;
  if (outcome.ok()) MSITCTL_RETURN_IF_FAILED(CheckSameRun(connection, run));
  const absl::Status finished = layout->Finish();
  return outcome.ok() ? context.OutcomeOf(finished) : outcome;
}

}  // namespace msitd::write
