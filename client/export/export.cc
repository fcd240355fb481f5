// SPDX-License-Identifier: Apache-2.0
#include "client/export/export.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <utility>
#include <vector>

#include "client/export/archive_layout.h"
#include "client/export/export_context.h"
#include "client/export/file_layout.h"
#include "client/export/layout.h"
#include "client/export/output_folder.h"
#include "client/query/connection.h"
#include "client/query/paging.h"
#include "protos/status/status.h"

namespace msitd::exports {
namespace {

using ctl::Outcome;
using Stub = v1::TensorService::Stub;

constexpr std::array<std::string_view, 4> kNames = {"npy", "npz", "safetensors",
                                                    "pt"};

std::unique_ptr<Layout> MakeLayout(ExportContext& context) {
  switch (context.options().format) {
    case ExportFormat::kNpz:
    case ExportFormat::kSafetensors:
      return MakeArchiveLayout(context);
    default:
      return MakeFileLayout(context);
  }
}

// Gets the list that an export is made of and gives it to a layout.
class Exporter {
 public:
  Exporter(ExportContext& context, const ExportListener& listener,
           Layout& layout)
      : context_(context), listener_(listener), layout_(layout) {}

  // The error of a file is in `file_status`.
  Outcome Run() {
    const v1::TensorFilter& filter = context_.options().filter;
    if (!layout_.is_grouped()) return AddAll(filter);
    std::vector<int64_t> ranks;
    MSITCTL_RETURN_IF_FAILED(
        Groups(filter, v1::SummarizeTensorsRequest::RANK, ranks));
    for (const int64_t rank : ranks) {
      v1::TensorFilter of_rank = filter;
      of_rank.clear_ranks();
      of_rank.add_ranks(static_cast<int32_t>(rank));
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
    MSITCTL_RETURN_IF_FAILED(AddAll(filter));
    return Take(layout_.EndGroup());
  }

  Outcome AddAll(const v1::TensorFilter& filter) {
    v1::ListTensorsRequest request;
    request.set_run(context_.options().run);
    *request.mutable_filter() = filter;
    v1::ListTensorsResponse page;
    do {
      request.set_page_size(static_cast<int32_t>(ctl::kPageRowsMax));
      request.set_page_token(page.next_page_token());
      page.Clear();
      MSITCTL_RETURN_IF_FAILED(
          context_.connection().Ask(&Stub::ListTensors, request, page));
      if (listener_.page) listener_.page(page);
      for (const v1::Tensor& record : page.tensors()) {
        if (context_.connection().interrupts().interrupted()) {
          return ctl::Interrupted();
        }
        MSITCTL_RETURN_IF_FAILED(Take(layout_.Add(record)));
      }
    } while (!page.next_page_token().empty());
    return {};
  }

  // The ranks or tokens that have records of `filter`.
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

}  // namespace

std::string_view ExportFormatName(ExportFormat format) {
  return kNames[static_cast<size_t>(format)];
}

std::optional<ExportFormat> ParseExportFormat(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ExportFormat>(found - kNames.begin());
}

Outcome Export(ctl::Connection& connection, const ExportOptions& options,
               const ExportListener& listener, ExportCounts& counts) {
  v1::Run run;
  MSITCTL_RETURN_IF_FAILED(
      connection.AskByName(&v1::RunService::Stub::GetRun, options.run, run));
  const auto folder = OutputFolder::Open(options.folder, options.replaces);
  if (!folder.ok()) return ctl::LocalError(Message(folder.status()));
  ExportContext context(connection, options, listener, **folder, counts);
  const std::unique_ptr<Layout> layout = MakeLayout(context);
  Exporter exporter(context, listener, *layout);
  const Outcome outcome = exporter.Run();
  // A file that cannot be written leaves no room for others.
  if (!outcome.ok() && outcome.exit_code == ctl::kExitLocal) return outcome;
  const absl::Status finished = layout->Finish();
  return outcome.ok() ? context.OutcomeOf(finished) : outcome;
}

}  // namespace msitd::exports
