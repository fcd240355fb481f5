// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/run_pair.h"

#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "client/ask/query/attachment_bytes.h"
#include "client/ask/query/connection.h"
#include "client/foreign/fill/import_job.h"
#include "client/foreign/fill/record_ops.h"
#include "client/foreign/fill/run_facts.h"
#include "client/foreign/fill/run_matcher.h"
#include "client/foreign/fill/run_target.h"
#include "client/foreign/trees/tree.h"
#include "client/libmsit/core/client.h"
#include "client/msit/compare/folder_problems.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/dtype.h"
#include "protos/base/mapping_limits.h"
#include "protos/base/shape.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// How long the daemon may accept nothing.
constexpr std::chrono::microseconds kImportPatience = std::chrono::seconds(30);

// The buffer of each side. The kernel has to clear memory on first use, which
// takes longer than reusing it.
constexpr uint64_t kImportBufferBytes = uint64_t{16} << 20;

// Ends the import as soon as the daemon reports that its disk is full.
class FullDiskTarget final : public fill::ImportTarget {
 public:
  // Borrows `target`.
  explicit FullDiskTarget(fill::RunTarget& target) : target_(target) {}

  absl::StatusOr<std::unique_ptr<libmsit::Client>> OpenRank(
      int32_t rank, libmsit::InterruptCheck interrupt) override {
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
  void OnProgress(const fill::ImportCounts& counts,
                  int64_t problem_count) override {
    target_.OnProgress(counts, problem_count);
  }

  // Empty if the disk was not full.
  const std::string& full_disk_text() const { return full_disk_text_; }

 private:
  // Only the client polls this, so it exists.
  bool IsOver() {
    if (client_ != nullptr) {
      std::string text = client_->stream_error();
      if (SaysDiskFull(text)) full_disk_text_ = std::move(text);
    }
    return interrupt_() || !full_disk_text_.empty();
  }

  fill::RunTarget& target_;
  libmsit::InterruptCheck interrupt_;
  const libmsit::Client* client_ = nullptr;
  std::string full_disk_text_;
};

}  // namespace

// The import of one side, by one thread.
class RunPair::SideImport {
 public:
  // Borrows all arguments. No other thread uses `connection` at the same time.
  SideImport(RunPair::Side side, ask::Connection& connection,
             ask::Interrupts& interrupts)
      : side_(std::move(side)),
        connection_(connection),
        interrupts_(interrupts),
        source_(trees::TreeKindName(side_.tree->kind())),
        target_(connection, side_.run, kImportPatience, nullptr),
        ledger_(source_),
        watched_(target_),
        ops_(source_),
        job_(Options(), watched_, ledger_) {
    facts_.run = side_.run;
    facts_.source = source_;
    target_.set_buffer_bytes(kImportBufferBytes);
  }

  void Run() { status_ = Bring(); }

  // Requires that the run exists and no longer changes.
  void ReadFacts() {
    if (status_.ok()) status_ = StatusOf(FindFacts());
  }

  // Warns about tensors that are not compared, if everything else was imported.
  absl::Status Tell(Logger& log) const {
    MSITD_RETURN_IF_ERROR(status_);
    WarnOfProblems(job_.problems(), log);
    WarnOfConflicts(job_, log);
    return absl::OkStatus();
  }

  const match::RunFacts& facts() const { return facts_; }
  const std::vector<fill::ImportProblems::Problem>& problems() const {
    return job_.problems().listed();
  }

 private:
  fill::ImportOptions Options() {
    fill::ImportOptions options;
    options.patience = kImportPatience;
    options.keeps_ledger = false;
    options.on_sent = [this](const libmsit::TensorView& record) {
      Note(record);
    };
    if (side_.tree->ranks().size() <= 1) options.rank = 0;
    options.token = side_.token;
    options.takes_substitutes = side_.takes_substitutes;
    return options;
  }

  void Note(const libmsit::TensorView& record) {
    const bool has_bytes = record.kind == RecordKind::kTensor;
    const uint64_t bytes =
        has_bytes ? ElementCount(record.dims) * ElementBytes(record.dtype) : 0;
    ops_status_.Update(ops_.Add({.kind = record.kind,
                                 .op = record.op,
                                 .call = record.call,
                                 .io = record.io,
                                 .index = record.index,
                                 .shape = record.dims,
                                 .size_bytes = static_cast<int64_t>(bytes),
                                 .value = record.value}));
  }

  ask::Outcome FindFacts() {
    const v1::RunCounters& held = target_.run().counters();
    const auto held_count =
        static_cast<size_t>(held.tensor_count() + held.statistics_count());
    // Two files may have the same tensor, of which the first one is kept. Files
    // of several ranks arrive in no particular order.
    if (side_.tree->ranks().size() > 1 || !ops_status_.ok() ||
        ops_.count() != held_count) {
      return fill::ReadRunFacts(connection_, facts_);
    }
    facts_.ops = ops_.Finish();
    const fill::ImportCounts& counts = job_.counts();
    if (counts.attachment_count + counts.document_count == 0) return {};
    return fill::ReadRunFiles(connection_, facts_);
  }

  absl::Status Bring() {
    const std::vector<int32_t> ranks = side_.tree->ranks();
    const int32_t world_size = ranks.size() <= 1 ? 1 : ranks.back() + 1;
    MSITD_RETURN_IF_ERROR(StatusOf(
        target_.Prepare({.source = source_,
                         .world_size = world_size,
                         .is_world_size_said = false,
                         .has_known_order = side_.tree->has_known_order()})));
    const absl::Status imported = job_.Import(*side_.tree, side_.root);
    if (!imported.ok() && !watched_.full_disk_text().empty() &&
        !interrupts_.interrupted()) {
      return DiskFullError(watched_.full_disk_text());
    }
    MSITD_RETURN_IF_ERROR(imported);
    return StatusOf(target_.Seal());
  }

  const RunPair::Side side_;
  ask::Connection& connection_;
  ask::Interrupts& interrupts_;
  const std::string source_;
  fill::RunTarget target_;
  fill::ImportLedger ledger_;
  FullDiskTarget watched_;
  // The ops of the records that were sent.
  fill::RecordOps ops_;
  absl::Status ops_status_;
  fill::ImportJob job_;
  absl::Status status_;
  match::RunFacts facts_;
};

absl::StatusOr<std::unique_ptr<RunPair>> RunPair::Start(
    ask::Interrupts& interrupts) {
  std::unique_ptr<RunPair> made(new RunPair(interrupts));
  MSITD_ASSIGN_OR_RETURN(made->runs_, PrivateRuns::Start(interrupts));
  return made;
}

absl::Status RunPair::Import(const std::string& run, trees::Tree& tree,
                             const std::string& root, Logger& log) {
  const ask::Interrupts::Hold hold(interrupts_);
  SideImport import({run, &tree, root}, runs_->connection(), interrupts_);
  import.Run();
  Keep(import);
  return import.Tell(log);
}

absl::Status RunPair::ImportBoth(const Side& first, const Side& second,
                                 const std::function<void()>& on_first_over,
                                 Logger& log) {
  const ask::Interrupts::Hold hold(interrupts_);
  const auto connection = runs_->NewConnection();
  SideImport here(first, runs_->connection(), interrupts_);
  SideImport there(second, *connection, interrupts_);
  const auto bring = [](SideImport& import) {
    import.Run();
    import.ReadFacts();
  };
  std::thread thread =
      StartSpareThread("import", [&there, bring] { bring(there); });
  here.Run();
  on_first_over();
  here.ReadFacts();
  if (thread.joinable()) {
    thread.join();
  } else {
    bring(there);
  }
  for (SideImport* import : {&here, &there}) {
    MSITD_RETURN_IF_ERROR(import->Tell(log));
    Keep(*import);
  }
  return absl::OkStatus();
}

void RunPair::Keep(SideImport& import) {
  const std::string& run = import.facts().run;
  problems_[run] = import.problems();
  facts_[run] = import.facts();
}

const std::vector<fill::ImportProblems::Problem>& RunPair::ProblemsOf(
    const std::string& run) const {
  return problems_.at(run);
}

absl::StatusOr<const match::RunFacts*> RunPair::FactsOf(
    const std::string& run) {
  match::RunFacts& facts = facts_.at(run);
  if (facts.ops.empty()) {
    facts.files.clear();
    MSITD_RETURN_IF_ERROR(
        StatusOf(fill::ReadRunFacts(runs_->connection(), facts)));
  }
  return &facts;
}

absl::StatusOr<bool> RunPair::HaveSameOps(const std::string& golden,
                                          const std::string& my) {
  const ask::Interrupts::Hold hold(interrupts_);
  MSITD_ASSIGN_OR_RETURN(const match::RunFacts* const golden_facts,
                         FactsOf(golden));
  MSITD_ASSIGN_OR_RETURN(const match::RunFacts* const my_facts, FactsOf(my));
  return match::HaveSameOps(*golden_facts, *my_facts);
}

absl::StatusOr<match::Mapping> RunPair::Match(
    const std::string& golden, const std::string& my, match::Matcher matcher,
    const match::MatchOptions& options) {
  const ask::Interrupts::Hold hold(interrupts_);
  MSITD_ASSIGN_OR_RETURN(const match::RunFacts* const golden_facts,
                         FactsOf(golden));
  MSITD_ASSIGN_OR_RETURN(const match::RunFacts* const my_facts, FactsOf(my));
  auto mapping = match::Match(matcher, *golden_facts, *my_facts, options);
  if (mapping.ok()) return mapping;
  return Annotate(mapping.status(),
                  fmt::format("match {}", match::MatcherName(matcher)));
}

absl::Status RunPair::Attach(const std::string& run, const std::string& name,
                             const std::string& media_type,
                             const std::string& text) {
  ask::Connection& connection = runs_->connection();
  MSITD_RETURN_IF_ERROR(StatusOf(connection.Connect()));
  v1::WriteAttachmentRequest::Open open;
  open.set_run(run);
  open.set_name(name);
  open.set_media_type(media_type);
  open.set_replace(true);
  grpc::ClientContext context;
  context.set_deadline(connection.StreamDeadline());
  const ask::Interrupts::Hold hold(interrupts_, &context);
  v1::Attachment written;
  return StatusOf(ask::WriteAttachmentBytes(
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
    by.set_pair_others(mapping->pairs_others);
    by.set_attachment(fmt::format("mapping-{}.jsonl", mapping_count_++));
    MSITD_RETURN_IF_ERROR(Attach(my, by.attachment(),
                                 std::string(kMappingMediaType),
                                 fill::ToText(*mapping)));
  }
  return runs_->Compare(comparison, take);
}

}  // namespace msitd::msit_command
