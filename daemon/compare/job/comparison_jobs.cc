// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/job/judged_rows.h"
#include "daemon/compare/job/run_identity.h"
#include "protos/base/check.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Number of documents to read at a time after a restart.
constexpr size_t kListedAtATime = 256;

absl::StatusOr<v1::Comparison> Parse(uint64_t id, const std::string& document) {
  v1::Comparison comparison;
  if (!comparison.ParseFromString(document)) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "comparison {}: its record cannot be read",
                      FormatComparisonName(id));
  }
  comparison.set_name(FormatComparisonName(id));
  return comparison;
}

absl::Status ComparisonNotFound(uint64_t id) {
  return WithReason(MakeStatus(absl::StatusCode::kNotFound, "no comparison {}",
                               FormatComparisonName(id)),
                    ErrorReason::kComparisonNotFound);
}

absl::Status NotEnded(uint64_t id) {
  return WithReason(MakeStatus(absl::StatusCode::kFailedPrecondition,
                               "comparison {} has not ended, or its end is not "
                               "stored",
                               FormatComparisonName(id)),
                    ErrorReason::kFieldInvalid);
}

absl::Status NotJudgeable(const v1::Comparison& comparison,
                          std::string_view why) {
  return WithReason(MakeStatus(absl::StatusCode::kFailedPrecondition,
                               "comparison {} {}", comparison.name(), why),
                    ErrorReason::kFieldInvalid);
}

// Returns an error unless all rows of the comparison can be judged again.
absl::Status CheckJudgeable(const v1::Comparison& comparison) {
  if (!HasEnded(comparison)) {
    return NotJudgeable(comparison,
                        "has not ended: its rows can be judged by another "
                        "policy once all of them exist");
  }
  if (comparison.state() != v1::Comparison::DONE) {
    return NotJudgeable(
        comparison,
        fmt::format("was {}, so it does not have all rows: run it again",
                    comparison.state() == v1::Comparison::CANCELLED
                        ? "cancelled"
                        : "stopped by an error"));
  }
  if (!comparison.has_judge_context()) {
    return NotJudgeable(comparison,
                        "was made by an earlier version, whose rows lack what "
                        "another policy needs: run it again");
  }
  return absl::OkStatus();
}

}  // namespace

ComparisonJobs::ComparisonJobs(storage::RunReaders& readers,
                               storage::Comparisons& store,
                               storage::Attachments& attachments,
                               const Options& options)
    : readers_(readers),
      store_(store),
      attachments_(attachments),
      options_(options),
      schedule_(static_cast<uint64_t>(options.active_max) +
                    static_cast<uint64_t>(options.waiting_max),
                static_cast<uint64_t>(options.followers_max)) {}

absl::StatusOr<std::unique_ptr<ComparisonJobs>> ComparisonJobs::Create(
    storage::RunReaders& readers, storage::Comparisons& store,
    storage::Attachments& attachments, const Options& options) {
  MSITD_CHECK(options.active_max > 0 && options.waiting_max >= 0);
  std::unique_ptr<ComparisonJobs> jobs(
      new ComparisonJobs(readers, store, attachments, options));
  MSITD_RETURN_IF_ERROR(jobs->FailUnfinished());
  for (int i = 0; i < options.active_max; ++i) {
    jobs->threads_.push_back(
        StartThread("comparison", [&jobs = *jobs] { jobs.Work(); }));
  }
  jobs->threads_.push_back(
      StartThread("followers", [&jobs = *jobs] { jobs.WatchFollowers(); }));
  return jobs;
}

ComparisonJobs::~ComparisonJobs() { Stop(); }

absl::Status ComparisonJobs::FailUnfinished() {
  uint64_t after = 0;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const auto documents,
                           store_.ListComparisons(after, kListedAtATime));
    if (documents.empty()) return absl::OkStatus();
    for (const auto& [id, document] : documents) {
      after = id;
      auto comparison = Parse(id, document);
      if (!comparison.ok() || HasEnded(*comparison)) continue;
      SetFailed(DaemonStopped(), *comparison);
      *comparison->mutable_end_time() = Now();
      MSITD_RETURN_IF_ERROR(
          store_.PutComparison(id, comparison->SerializeAsString()));
    }
  }
}

absl::StatusOr<std::string> ComparisonJobs::CheckRun(
    const storage::RunAddress& run, const std::string& id,
    const storage::WaitCheck& wait) {
  const auto end = std::chrono::steady_clock::now() + options_.open_wait;
  // Called on several threads if the run is stored in several places.
  std::atomic<bool> is_late{false};
  absl::StatusOr<std::string> found =
      FindRunId(readers_, run, [&]() -> absl::Status {
        if (wait) MSITD_RETURN_IF_ERROR(wait());
        if (std::chrono::steady_clock::now() <= end) return absl::OkStatus();
        is_late.store(true, std::memory_order_relaxed);
        return absl::DeadlineExceededError("no answer");
      });
  // A run that did not answer in time may still be the right one. The
  // comparison waits for it later.
  if (is_late.load(std::memory_order_relaxed) &&
      absl::IsDeadlineExceeded(found.status())) {
    return id;
  }
  if (!found.ok()) return found;
  MSITD_RETURN_IF_ERROR(CheckRunId(run, id, *found));
  return found;
}

absl::StatusOr<v1::Comparison> ComparisonJobs::Start(
    const v1::Comparison& request, ComparisonPlan plan,
    const storage::WaitCheck& wait) {
  std::vector<std::string>
      runs;  // Local runs; the comparison is removed with them.
  MSITD_ASSIGN_OR_RETURN(plan.golden_run_id,
                         CheckRun(plan.golden(), plan.golden_run_id, wait));
  MSITD_ASSIGN_OR_RETURN(plan.target_run_id,
                         CheckRun(plan.target(), plan.target_run_id, wait));
  for (const storage::RunAddress& run : {plan.golden(), plan.target()}) {
    if (run.source.empty()) runs.push_back(run.name);
  }
  v1::Comparison comparison;
  comparison.set_golden_run(plan.golden_run);
  comparison.set_target_run(plan.target_run);
  comparison.set_golden_source(plan.golden_source);
  comparison.set_target_source(plan.target_source);
  comparison.set_golden_run_id(plan.golden_run_id);
  comparison.set_target_run_id(plan.target_run_id);
  *comparison.mutable_golden_required_ranks() = request.golden_required_ranks();
  *comparison.mutable_target_required_ranks() = request.target_required_ranks();
  comparison.set_reading(request.reading());
  if (request.has_filter()) *comparison.mutable_filter() = request.filter();
  if (request.has_policy()) *comparison.mutable_policy() = request.policy();
  if (request.has_matching()) {
    *comparison.mutable_matching() = request.matching();
  }
  comparison.set_follow(request.follow());
  comparison.set_detach(request.detach());
  comparison.set_owner(plan.owner);
  *comparison.mutable_watches() = request.watches();
  comparison.set_state(v1::Comparison::PENDING);
  comparison.set_first_hopeless_row(-1);
  *comparison.mutable_create_time() = Now();

  plan.activity = activity_;
  plan.silence = options_.silence;
  // Reading a mapping takes time and memory. Reserving a share first limits the
  // number of concurrent reads.
  MSITD_ASSIGN_OR_RETURN(access::FairShares::Grant share,
                         schedule_.Reserve(plan));
  if (plan.mapping.has_value()) {
    MSITD_RETURN_IF_ERROR(CheckMapping(*plan.mapping, comparison));
  }
  return Queue(std::move(comparison), std::move(plan), runs, std::move(share));
}

absl::StatusOr<v1::Comparison> ComparisonJobs::Queue(
    v1::Comparison comparison, ComparisonPlan plan,
    const std::vector<std::string>& runs, access::FairShares::Grant share) {
  MSITD_ASSIGN_OR_RETURN(
      const uint64_t id,
      store_.CreateComparison(comparison.SerializeAsString(), runs));
  comparison.set_name(FormatComparisonName(id));
  const auto job = std::make_shared<ComparisonJob>(
      readers_, store_, attachments_, id, comparison, std::move(plan));
  if (schedule_.Add(job, std::move(share))) return comparison;
  job->EndUnrun(ComparisonJob::StopCause::kShutdown);
  schedule_.Retire(job);
  return schedule_.CheckServing();
}

absl::StatusOr<std::vector<std::string>> ComparisonJobs::LocalRunsOf(
    const v1::Comparison& comparison, const storage::WaitCheck& wait) {
  std::vector<std::string> out;
  absl::Status missing;
  for (const auto& [source, run, id] :
       {std::tuple(&comparison.golden_source(), &comparison.golden_run(),
                   &comparison.golden_run_id()),
        std::tuple(&comparison.target_source(), &comparison.target_run(),
                   &comparison.target_run_id())}) {
    if (!source->empty()) continue;
    const absl::Status status = CheckRun({"", *run}, *id, wait).status();
    if (status.ok()) {
      out.push_back(*run);
    } else if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) {
      missing = status;
    } else {
      return status;
    }
  }
  // The comparison is about to be removed with its runs.
  if (out.empty() && !missing.ok()) return missing;
  return out;
}

absl::StatusOr<v1::Comparison> ComparisonJobs::Judge(
    JudgeRequest request, const storage::WaitCheck& wait) {
  const v1::Comparison& source = request.source.comparison;
  MSITD_RETURN_IF_ERROR(CheckJudgeable(source));
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> runs,
                         LocalRunsOf(source, wait));
  v1::Comparison comparison = JudgedHeader(source, request.request);
  comparison.set_owner(request.owner);
  *comparison.mutable_create_time() = Now();
  ComparisonPlan plan;
  plan.golden_run = source.golden_run();
  plan.target_run = source.target_run();
  plan.policy = std::move(request.policy);
  plan.owner = std::move(request.owner);
  plan.owner_is_admin = request.owner_is_admin;
  plan.judged = std::make_shared<const JudgedSource>(std::move(request.source));
  MSITD_ASSIGN_OR_RETURN(access::FairShares::Grant share,
                         schedule_.Reserve(plan));
  return Queue(std::move(comparison), std::move(plan), runs, std::move(share));
}

absl::Status ComparisonJobs::CheckMapping(MappingSource& source,
                                          v1::Comparison& comparison) {
  const auto check = [this] { return schedule_.CheckServing(); };
  MSITD_ASSIGN_OR_RETURN(const LoadedMapping loaded,
                         LoadMapping(attachments_, source, check));
  source.hash = loaded.hash;
  comparison.mutable_matching()->mutable_mapping()->set_hash(
      HashText(loaded.hash));
  return absl::OkStatus();
}

absl::StatusOr<ComparisonView> ComparisonJobs::Get(uint64_t id) {
  if (const Job job = schedule_.Find(id)) job->published().NoteRead();
  return Look(id);
}

absl::StatusOr<ComparisonView> ComparisonJobs::Look(uint64_t id) {
  if (const Job job = schedule_.Find(id)) {
    ComparisonView view = job->published().View();
    // Checked after View, so that the end of a comparison that is being deleted
    // is never returned.
    if (job->published().IsDeleted()) return ComparisonNotFound(id);
    if (view.comparison.state() == v1::Comparison::PENDING) {
      view.comparison.set_waiting_behind_count(schedule_.CountAhead(job));
    }
    return view;
  }
  MSITD_ASSIGN_OR_RETURN(v1::Comparison comparison, Load(id));
  return ComparisonView{std::move(comparison), 0};
}

bool ComparisonJobs::AwaitEnd(uint64_t id, std::chrono::milliseconds time) {
  const Job job = schedule_.Find(id);
  if (job == nullptr) return true;
  if (job->follows() || schedule_.CountAhead(job) > 0) return true;
  return job->published().AwaitEnd(std::chrono::steady_clock::now() + time);
}

std::shared_ptr<void> ComparisonJobs::AddReader(uint64_t id) {
  const Job job = schedule_.Find(id);
  if (job == nullptr) return nullptr;
  job->published().AddReader();
  return std::shared_ptr<void>(
      job.get(), [job](void*) { job->published().RemoveReader(); });
}

absl::StatusOr<v1::Comparison> ComparisonJobs::Load(uint64_t id) {
  auto document = store_.GetComparison(id);
  if (document.ok()) return Parse(id, *document);
  if (!absl::IsNotFound(document.status())) return document.status();
  return ComparisonNotFound(id);
}

absl::StatusOr<std::vector<v1::Comparison>> ComparisonJobs::List(uint64_t after,
                                                                 size_t limit) {
  MSITD_ASSIGN_OR_RETURN(const auto documents,
                         store_.ListComparisons(after, limit));
  std::vector<v1::Comparison> out;
  for (const auto& [id, document] : documents) {
    MSITD_ASSIGN_OR_RETURN(v1::Comparison comparison, Parse(id, document));
    if (!HasEnded(comparison)) {
      // A job is newer than the document. It may have ended in the meantime.
      auto view = Look(id);
      if (absl::IsNotFound(view.status())) continue;
      MSITD_RETURN_IF_ERROR(view.status());
      comparison = std::move(view->comparison);
    }
    out.push_back(std::move(comparison));
  }
  return out;
}

absl::StatusOr<v1::Comparison> ComparisonJobs::Cancel(uint64_t id) {
  const Job job = schedule_.Find(id);
  if (job == nullptr) return Load(id);
  // Stop the job before searching for it, because a running job may be parked
  // right after the search.
  job->Stop(ComparisonJob::StopCause::kUser);
  if (schedule_.Unqueue(job)) {
    job->EndUnrun(ComparisonJob::StopCause::kUser);
    schedule_.Retire(job);
  } else {
    job->published().AwaitEnd(std::chrono::steady_clock::now() +
                              options_.cancel_wait);
  }
  return job->published().View().comparison;
}

absl::Status ComparisonJobs::Delete(uint64_t id) {
  const Job job = schedule_.Find(id);
  if (job == nullptr) {
    MutexLock lock(ended_mu_);
    MSITD_RETURN_IF_ERROR(Load(id).status());
    return store_.DeleteComparison(id);
  }
  job->published().SetDeleted(true);
  // Stop the job before searching for it. If it were parked right after the
  // search, it would stay parked.
  job->Stop(ComparisonJob::StopCause::kUser);
  const bool unqueued = schedule_.Unqueue(job);
  absl::Status status;
  {
    MutexLock lock(ended_mu_);
    status = job->Erase();
  }
  if (!status.ok()) job->published().SetDeleted(false);
  if (unqueued) {
    job->EndUnrun(ComparisonJob::StopCause::kUser);
    schedule_.Retire(job);
  }
  if (status.ok()) schedule_.Remove(id);
  return status;
}

absl::StatusOr<std::vector<v1::ComparisonRow>> ComparisonJobs::Rows(
    uint64_t id, int64_t first_row, size_t limit) {
  MSITD_ASSIGN_OR_RETURN(const ComparisonView view, Get(id));
  // After a crash, the store may have more rows than the document counts.
  const int64_t rest = RowCount(view.comparison) - first_row;
  if (rest <= 0) return std::vector<v1::ComparisonRow>();
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<std::string> rows,
      store_.GetComparisonRows(id, first_row, std::min<uint64_t>(limit, rest)));
  std::vector<v1::ComparisonRow> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!out[i].ParseFromString(rows[i])) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "comparison {}: row {} cannot be read",
                        FormatComparisonName(id), first_row + i);
    }
  }
  return out;
}

absl::StatusOr<v1::Comparison> ComparisonJobs::AddRowMetrics(
    uint64_t id, const RowMetricsList& rows) {
  MSITD_RETURN_IF_ERROR(CheckRowMetrics(rows));
  if (const Job job = schedule_.Find(id)) {
    if (!job->published().IsStored()) return NotEnded(id);
    // From here on, the store is newer than the job.
    schedule_.Retire(job);
  }
  MutexLock lock(ended_mu_);
  MSITD_ASSIGN_OR_RETURN(v1::Comparison comparison, Load(id));
  if (!HasEnded(comparison)) return NotEnded(id);
  MSITD_RETURN_IF_ERROR(StoreRowMetrics(store_, id, rows, comparison));
  return comparison;
}

uint64_t ComparisonJobs::AwaitChange(uint64_t id, uint64_t version,
                                     absl::AnyInvocable<void()> wake) {
  if (const Job job = schedule_.Find(id)) {
    return job->published().AddWaiter(version, std::move(wake));
  }
  wake();
  return 0;
}

bool ComparisonJobs::StopWaiting(uint64_t id, uint64_t waiter) {
  const Job job = schedule_.Find(id);
  return job != nullptr && job->published().RemoveWaiter(waiter);
}

void ComparisonJobs::Stop() {
  const std::vector<Job> waiting = schedule_.Stop();
  for (const Job& job : waiting) {
    job->EndUnrun(ComparisonJob::StopCause::kShutdown);
    schedule_.Retire(job);
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ComparisonJobs::Work() {
  while (const Job job = schedule_.AwaitNext()) {
    const bool has_ended = job->Run();
    if (!has_ended && schedule_.Park(job)) continue;
    // The job was stopped when it had nothing more to compare.
    if (!has_ended) job->EndUnrun(ComparisonJob::StopCause::kShutdown);
    schedule_.Finish(job);
    schedule_.Retire(job);
  }
}

void ComparisonJobs::WatchFollowers() {
  while (const auto followers =
             schedule_.AwaitFollowers(options_.follow_interval)) {
    for (const Job& job : *followers) LookAfter(job);
  }
}

void ComparisonJobs::LookAfter(const Job& job) {
  if (job->IsForsaken(options_.reader_grace)) {
    job->Stop(ComparisonJob::StopCause::kForsaken);
  }
  // The job may have been stopped while no thread was running it.
  if (job->is_stopping()) {
    if (!schedule_.Unqueue(job)) return;
    job->EndUnrun(ComparisonJob::StopCause::kForsaken);
    schedule_.Retire(job);
    return;
  }
  // Only this thread resumes a parked job.
  if (schedule_.IsParked(job) && job->HasNews()) schedule_.Resume(job);
}

}  // namespace msitd::compare
