// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/run_pair.h"

#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/core/client.h"
#include "client/import/job/import_job.h"
#include "client/import/trees/tree.h"
#include "client/msit/compare/folder_problems.h"
#include "client/query/attachment_bytes.h"
#include "client/query/connection.h"
#include "client/runs/import_target.h"
#include "client/runs/run_matcher.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/mapping_limits.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

// How long the daemon may take nothing.
constexpr std::chrono::microseconds kImportPatience = std::chrono::seconds(30);

// Ends the import as soon as the daemon says that its disk is full.
class FullDiskTarget final : public job::ImportTarget {
 public:
  // Borrows `target`.
  explicit FullDiskTarget(ctl::ImportTarget& target) : target_(target) {}

  absl::StatusOr<std::unique_ptr<client::Client>> OpenRank(
      int32_t rank, client::InterruptCheck interrupt) override {
    interrupt_ = interrupt;
    client_ = nullptr;
    auto opened = target_.OpenRank(
        rank, {[](void* self) -> int32_t {
                 return static_cast<FullDiskTarget*>(self)->IsOver() ? 1 : 0;
               },
               this});
    if (opened.ok()) client_ = opened->get();
    return opened;
  }
  absl::Status Attach(const std::string& name, const std::string& media_type,
                      std::string_view bytes) override {
    return target_.Attach(name, media_type, bytes);
  }
  bool is_interrupted() override { return target_.is_interrupted(); }
  void OnProgress(const job::ImportCounts& counts,
                  int64_t problem_count) override {
    target_.OnProgress(counts, problem_count);
  }

  // Empty if it did not.
  const std::string& full_disk_text() const { return full_disk_text_; }

 private:
  // The client alone asks, so that it is there.
  bool IsOver() {
    if (client_ != nullptr) {
      std::string text = client_->stream_error();
      if (SaysDiskFull(text)) full_disk_text_ = std::move(text);
    }
    return interrupt_() || !full_disk_text_.empty();
  }

  ctl::ImportTarget& target_;
  client::InterruptCheck interrupt_;
  const client::Client* client_ = nullptr;
  std::string full_disk_text_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunPair>> RunPair::Start(
    ctl::Interrupts& interrupts) {
  std::unique_ptr<RunPair> made(new RunPair(interrupts));
  MSITD_ASSIGN_OR_RETURN(made->runs_, PrivateRuns::Start(interrupts));
  return made;
}

absl::Status RunPair::Import(const std::string& run, trees::Tree& tree,
                             const std::string& root, Logger& log) {
  const ctl::Interrupts::Hold hold(interrupts_);
  const std::string source(trees::TreeKindName(tree.kind()));
  const std::vector<int32_t> ranks = tree.ranks();
  job::ImportOptions options;
  options.patience = kImportPatience;
  if (ranks.size() <= 1) options.rank = 0;
  const int32_t world_size = ranks.size() <= 1 ? 1 : ranks.back() + 1;
  ctl::ImportTarget target(runs_->connection(), run, kImportPatience, nullptr);
  MSITD_RETURN_IF_ERROR(
      StatusOf(target.Prepare(source, world_size, /*is_said=*/false)));
  job::ImportLedger ledger(source);
  FullDiskTarget watched(target);
  job::ImportJob job(std::move(options), watched, ledger);
  const absl::Status imported = job.Import(tree, root);
  if (!imported.ok() && !watched.full_disk_text().empty() &&
      !interrupts_.interrupted()) {
    return DiskFullError(watched.full_disk_text());
  }
  MSITD_RETURN_IF_ERROR(imported);
  WarnOfProblems(job.problems(), log);
  WarnOfConflicts(job, log);
  return StatusOf(target.Seal());
}

absl::Status RunPair::Match(const std::string& golden, const std::string& my,
                            std::optional<match::Matcher> matcher,
                            const match::MatchOptions& options,
                            std::optional<match::Mapping>& mapping) {
  const ctl::Interrupts::Hold hold(interrupts_);
  ctl::RunSources sources;
  MSITD_RETURN_IF_ERROR(
      StatusOf(ctl::ReadSources(runs_->connection(), golden, my, sources)));
  std::optional<ctl::RunMatch> match;
  MSITD_RETURN_IF_ERROR(StatusOf(ctl::MatchRuns(
      runs_->connection(), golden, my, sources, matcher, options, match)));
  if (match.has_value()) mapping = std::move(match->mapping);
  return absl::OkStatus();
}

absl::Status RunPair::Attach(const std::string& run, const std::string& name,
                             const std::string& media_type,
                             const std::string& text) {
  ctl::Connection& connection = runs_->connection();
  MSITD_RETURN_IF_ERROR(StatusOf(connection.Connect()));
  v1::WriteAttachmentRequest::Open open;
  open.set_run(run);
  open.set_name(name);
  open.set_media_type(media_type);
  open.set_replace(true);
  grpc::ClientContext context;
  context.set_deadline(connection.StreamDeadline());
  const ctl::Interrupts::Hold hold(interrupts_, &context);
  v1::Attachment written;
  return StatusOf(ctl::WriteAttachmentBytes(
      connection, context, std::move(open), text, nullptr, written));
}

absl::Status RunPair::Compare(const std::string& golden, const std::string& my,
                              const match::Mapping* mapping,
                              v1::Comparison& comparison,
                              const PrivateRuns::TakeRow& take) {
  comparison.set_golden_run(golden);
  comparison.set_target_run(my);
  if (mapping != nullptr) {
    v1::Matching::Mapping& by =
        *comparison.mutable_matching()->mutable_mapping();
    by.set_side(v1::Matching::Mapping::TARGET);
    by.set_attachment(fmt::format("mapping-{}.jsonl", mapping_count_++));
    MSITD_RETURN_IF_ERROR(Attach(my, by.attachment(),
                                 std::string(kMappingMediaType),
                                 ctl::ToText(*mapping)));
  }
  return runs_->Compare(comparison, take);
}

}  // namespace msitd::msit
