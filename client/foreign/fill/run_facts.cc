// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/ask/query/attachment_bytes.h"
#include "client/ask/query/connection.h"
#include "client/ask/query/paging.h"
#include "client/ask/query/tensor_bytes.h"
#include "client/ask/query/together.h"
#include "client/ask/text/text.h"
#include "client/foreign/fill/record_ops.h"
#include "client/foreign/match/engine/engine_run.h"
#include "client/foreign/match/limits.h"
#include "client/foreign/match/match.h"
#include "client/foreign/match/msprobe/msprobe_layers.h"
#include "protos/status/status.h"

namespace msitd::fill {
namespace {

using Tensors = v1::TensorService::Stub;
using Attachments = v1::AttachmentService::Stub;

ask::Outcome TooLarge(const match::RunFacts& facts, std::string_view what) {
  return ask::UsageError(
      fmt::format("run {}: {}", ask::Printable(facts.run), what));
}

ask::Outcome ReadOps(ask::Connection& connection, match::RunFacts& facts) {
  v1::ListTensorsRequest request;
  request.set_run(facts.run);
  request.mutable_filter()->add_kinds(v1::RECORD_KIND_TENSOR);
  request.mutable_filter()->add_kinds(v1::RECORD_KIND_STATISTICS);
  v1::ListTensorsResponse response;
  RecordOps ops(facts.source);
  absl::Status status;
  const auto take = [&](const google::protobuf::Message& row) {
    const auto& tensor = static_cast<const v1::Tensor&>(row);
    const std::span<const int64_t> shape(
        tensor.shape().data(), static_cast<size_t>(tensor.shape_size()));
    status = ops.Add({.rank = tensor.rank(),
                      .kind = static_cast<RecordKind>(tensor.kind()),
                      .op = tensor.op(),
                      .call = tensor.call(),
                      .io = static_cast<Io>(tensor.io()),
                      .index = tensor.index(),
                      .shape = shape,
                      .size_bytes = tensor.size_bytes(),
                      .value = tensor.value()});
    return status.ok();
  };
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(connection, &Tensors::ListTensors,
                                           request, "tensors", 0, take,
                                           response));
  if (!status.ok()) return TooLarge(facts, Message(status));
  facts.ops = ops.Finish();
  return {};
}

// The files of a run whose bytes are read, within the limits for their sizes.
class Files {
 public:
  explicit Files(match::RunFacts& facts) : facts_(facts) {}

  // Returns where to store the bytes of the next file; null if there are too
  // many.
  match::TextFile* Add(const std::string& name, int64_t size_bytes,
                       int32_t rank = 0, int64_t token = 0) {
    const auto size = static_cast<uint64_t>(size_bytes);
    if (size > match::kFileBytesMax ||
        facts_.files.size() == match::kFilesMax) {
      return nullptr;
    }
    total_bytes_ += size;
    if (total_bytes_ > match::kFilesBytesMax) return nullptr;
    facts_.files.push_back({name, "", rank, token});
    return &facts_.files.back();
  }

 private:
  match::RunFacts& facts_;
  uint64_t total_bytes_ = 0;
};

// How long a call that may be superfluous is waited for.
constexpr std::chrono::seconds kTryTime{1};

v1::ListTensorsRequest ModulesOf(const std::string& run) {
  v1::ListTensorsRequest request;
  request.set_run(run);
  request.mutable_filter()->add_kinds(v1::RECORD_KIND_DOCUMENT);
  request.mutable_filter()->add_op_patterns(
      std::string(match::kModuleTreeDocument));
  return request;
}

// Takes the first document with bytes.
void Take(const v1::Tensor& document, ModuleSearch& search) {
  if (search.tree.has_value()) return;
  search.lacks_bytes = !document.has_bytes();
  if (search.lacks_bytes) return;
  search.tree = {document.name(), document.op(), document.size_bytes()};
}

ask::ByteSink Into(std::string& text) {
  return [&text](std::string_view piece) {
    text += piece;
    return absl::OkStatus();
  };
}

ask::Outcome ReadAttachments(ask::Connection& connection,
                             match::RunFacts& facts, Files& files) {
  v1::ListAttachmentsRequest request;
  request.set_run(facts.run);
  v1::ListAttachmentsResponse response;
  std::vector<v1::Attachment> wanted;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      connection, &Attachments::ListAttachments, request, "attachments", 0,
      [&](const google::protobuf::Message& row) {
        const auto& attachment = static_cast<const v1::Attachment&>(row);
        if (match::IsWanted(attachment.name())) wanted.push_back(attachment);
      },
      response));
  for (const v1::Attachment& attachment : wanted) {
    match::TextFile* const file =
        files.Add(attachment.name(), attachment.size_bytes());
    if (file == nullptr) return TooLarge(facts, "it has too many attachments");
    int64_t size_bytes = 0;
    MSITCTL_RETURN_IF_FAILED(
        ask::ReadAttachmentBytes(connection, facts.run, attachment.name(),
                                 Into(file->text), size_bytes));
  }
  return {};
}

// Returns true if `next` adds nothing to `read`.
bool IsKnown(const v1::Tensor& read, const v1::Tensor& next,
             bool all_constructs) {
  if (read.op() != next.op()) return false;
  // The stages of a pipeline have different modules.
  const bool can_differ =
      next.op() == match::kModuleTreeDocument ||
      (all_constructs && next.op() == match::kMsprobeConstructFile);
  if (!can_differ) return true;
  return !next.hash().empty() && read.hash() == next.hash();
}

ask::Outcome ReadDocuments(ask::Connection& connection, match::RunFacts& facts,
                           Files& files, bool all_constructs) {
  v1::ListTensorsRequest request;
  request.set_run(facts.run);
  request.mutable_filter()->add_kinds(v1::RECORD_KIND_DOCUMENT);
  request.mutable_filter()->add_op_patterns("*model_tree.json");
  request.mutable_filter()->add_op_patterns("construct.json");
  request.mutable_filter()->add_op_patterns(
      std::string(match::kModuleTreeDocument));
  v1::ListTensorsResponse response;
  std::vector<v1::Tensor> wanted;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      connection, &Tensors::ListTensors, request, "tensors",
      all_constructs ? 0 : static_cast<int64_t>(match::kFilesMax),
      [&](const google::protobuf::Message& row) {
        const auto& document = static_cast<const v1::Tensor&>(row);
        const bool is_new = std::none_of(
            wanted.begin(), wanted.end(), [&](const v1::Tensor& other) {
              return IsKnown(other, document, all_constructs);
            });
        if (is_new && match::IsWanted(document.op()) && document.has_bytes()) {
          wanted.push_back(document);
        }
        // Files beyond the limit are rejected below.
        return wanted.size() <= match::kFilesMax;
      },
      response));
  for (const v1::Tensor& document : wanted) {
    match::TextFile* const file =
        files.Add(document.op(), document.size_bytes(), document.rank(),
                  document.token());
    if (file == nullptr) return TooLarge(facts, "it has too many documents");
    MSITCTL_RETURN_IF_FAILED(ask::ReadTensorBytes(
        connection, ask::WantedBytes{document.name(), document.size_bytes()},
        Into(file->text)));
  }
  return {};
}

}  // namespace

ask::Outcome FindModules(ask::Connection& connection, const std::string& run,
                         ModuleSearch& search) {
  v1::ListTensorsResponse response;
  MSITCTL_RETURN_IF_FAILED(ask::ForEachRow(
      connection, &Tensors::ListTensors, ModulesOf(run), "tensors", 0,
      [&](const google::protobuf::Message& row) {
        Take(static_cast<const v1::Tensor&>(row), search);
        return !search.tree.has_value();
      },
      response));
  search.has_ended = true;
  return {};
}

void TryToFindModules(ask::Connection& connection, const std::string& run,
                      ModuleSearch& search) {
  if (!ask::IsOfOneDaemon(connection) || !connection.Connect().ok()) return;
  grpc::ClientContext context;
  context.set_deadline(std::min(connection.UnaryDeadline(),
                                ask::Connection::Clock::now() + kTryTime));
  const ask::Interrupts::Hold hold(connection.interrupts(), &context);
  v1::ListTensorsResponse response;
  const grpc::Status status = connection.stub<Tensors>().ListTensors(
      &context, ModulesOf(run), &response);
  if (!status.ok()) return;
  for (const v1::Tensor& document : response.tensors()) Take(document, search);
  search.has_ended =
      search.tree.has_value() || response.next_page_token().empty();
}

ask::Outcome ReadModuleTree(ask::Connection& connection, const ModuleTree& tree,
                            match::RunFacts& facts) {
  Files files(facts);
  match::TextFile* const file = files.Add(tree.op, tree.size_bytes);
  if (file == nullptr) {
    return TooLarge(facts, "the document with its modules is too large");
  }
  return ask::ReadTensorBytes(connection,
                              ask::WantedBytes{tree.name, tree.size_bytes},
                              Into(file->text));
}

ask::Outcome ReadRunFacts(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs) {
  MSITCTL_RETURN_IF_FAILED(ReadOps(connection, facts));
  return ReadRunFiles(connection, facts, all_constructs);
}

ask::Outcome ReadRunFiles(ask::Connection& connection, match::RunFacts& facts,
                          bool all_constructs) {
  Files files(facts);
  MSITCTL_RETURN_IF_FAILED(ReadAttachments(connection, facts, files));
  return ReadDocuments(connection, facts, files, all_constructs);
}

}  // namespace msitd::fill
