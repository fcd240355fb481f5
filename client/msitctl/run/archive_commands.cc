// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/archive_commands.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "client/ask/print/progress.h"
#include "client/ask/query/endpoint.h"
#include "client/ask/text/text.h"
#include "client/msitctl/run/find_archived_run.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr std::chrono::milliseconds kFirstJobPoll(10);
constexpr std::chrono::milliseconds kSlowestJobPoll(500);

using Stub = v1::ArchiveService::Stub;

constexpr char kJobColumns[] =
    "id,kind,state,run,url,records=record_count,sent=sent_size_bytes,"
    "automatic?=automatic,unreadable?=unreadable_tensor_count,"
    "problem~=problem";

constexpr char kArchivedColumns[] =
    "name,world_size,tensors=tensor_count,size=size_bytes,"
    "create_time?=create_time,archive_time?=archive_time,labels?=labels,"
    "unreadable?=unreadable_tensor_count,problem~=problem";

std::string ProgressText(const v1::ArchiveJob& job) {
  const bool restores = job.kind() == v1::ArchiveJob::RESTORE;
  if (job.kind() == v1::ArchiveJob::PRUNE) {
    return fmt::format("{}: searching for unreferenced objects",
                       ask::Printable(job.url()));
  }
  if (job.state() == v1::ArchiveJob::PENDING) {
    return fmt::format("{}: waiting for other runs", ask::Printable(job.run()));
  }
  std::string out = fmt::format("{}: {}/{} records", ask::Printable(job.run()),
                                job.record_count(), job.record_total());
  if (!restores) {
    out += fmt::format(", {} sent, {} read back",
                       ask::HumanSize(job.sent_size_bytes()),
                       ask::HumanSize(job.verified_size_bytes()));
  }
  return out;
}

// Returns the text about comparisons, if there are any.
std::string ComparisonsText(const v1::ArchiveJob& job) {
  std::string out;
  if (job.comparison_count() > 0) {
    out += fmt::format(", {} comparison{}", job.comparison_count(),
                       job.comparison_count() == 1 ? "" : "s");
  }
  if (job.left_comparison_count() > 0) {
    out += fmt::format(", {} not {}", job.left_comparison_count(),
                       job.kind() == v1::ArchiveJob::RESTORE
                           ? "restored"
                           : "archived because they have not ended");
  }
  return out;
}

// Returns a line for each item that could not be read, and their numbers.
std::string UnreadableText(const v1::ArchiveJob& job) {
  const int64_t tensors = job.unreadable_tensor_count();
  const int64_t attachments = job.unreadable_attachment_count();
  if (tensors == 0 && attachments == 0) return "";
  std::string out = fmt::format(
      "\nunreadable: {} tensor{}, {} attachment{}; their bytes are missing in "
      "the copy",
      tensors, tensors == 1 ? "" : "s", attachments,
      attachments == 1 ? "" : "s");
  for (const std::string& item : job.unreadable()) {
    out += fmt::format("\n  {}", ask::Printable(item));
  }
  const int64_t left = tensors + attachments - job.unreadable_size();
  if (left > 0) out += fmt::format("\n  and {} more", left);
  return out;
}

bool IsOver(const v1::ArchiveJob& job) {
  return job.state() == v1::ArchiveJob::DONE ||
         job.state() == v1::ArchiveJob::FAILED;
}

// A job continues without its caller.
ask::Outcome TellItGoesOn(ask::Outcome outcome, const v1::ArchiveJob& job) {
  if (outcome.ok() || IsOver(job)) return outcome;
  if (outcome.error.empty()) outcome.error = "interrupted";
  outcome.error += fmt::format(
      "; job {} continues while the daemon runs; to wait for it, repeat the "
      "command",
      job.id());
  return outcome;
}

ask::Outcome Await(Invocation& invocation, v1::ArchiveJob& job) {
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  v1::GetArchiveJobRequest request;
  request.set_id(job.id());
  auto wait = kFirstJobPoll;
  while (!IsOver(job)) {
    progress.Show(ProgressText(job), static_cast<double>(job.record_count()),
                  static_cast<double>(job.record_total()));
    if (invocation.interrupts().WaitFor(wait)) {
      progress.Clear();
      return TellItGoesOn(ask::Interrupted(), job);
    }
    wait = std::min(2 * wait, kSlowestJobPoll);
    const ask::Outcome outcome =
        invocation.Ask(&Stub::GetArchiveJob, request, job);
    if (!outcome.ok()) return TellItGoesOn(outcome, job);
  }
  return {};
}

ask::Outcome End(Invocation& invocation, const v1::ArchiveJob& job,
                 const std::string& text) {
  if (job.state() == v1::ArchiveJob::FAILED) {
    return ask::DaemonError(static_cast<grpc::StatusCode>(job.code()),
                            job.reason(), job.problem());
  }
  if (invocation.is_table()) {
    invocation.out().Write(text + "\n");
  } else {
    MSITCTL_RETURN_IF_FAILED(PrintOne(invocation, job, "run"));
  }
  ask::Outcome outcome;
  // The copy exists, but is incomplete.
  if (job.unreadable_tensor_count() + job.unreadable_attachment_count() > 0) {
    outcome.exit_code = ask::kExitPartial;
  }
  return outcome;
}

struct ArchiveFlags {
  std::string run;
  std::string url;
  bool give_up = false;
  bool prune = false;
  std::string older_than = "1d";
  bool detach = false;
};

// Implements `run archive [RUN] URL --prune`.
ask::Outcome Prune(Invocation& invocation, const ArchiveFlags& flags) {
  v1::PruneArchiveRequest request;
  const bool is_all = flags.url.empty();
  request.set_url(is_all ? flags.run : flags.url);
  if (!is_all) request.set_archived_run(flags.run);
  const auto age = ask::ParseDuration(flags.older_than);
  if (!age.ok()) {
    return ask::UsageError(
        fmt::format("--older-than: {}", Message(age.status())));
  }
  *request.mutable_age_min() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(age->count());
  v1::ArchiveJob job;
  MSITCTL_RETURN_IF_FAILED(
      invocation.AskToTheEnd(&Stub::PruneArchive, request, job));
  if (flags.detach) return PrintOne(invocation, job, "run");
  MSITCTL_RETURN_IF_FAILED(Await(invocation, job));
  std::string text = fmt::format(
      "pruned {}{}{}: {} object{}, {} removed", ask::Printable(job.url()),
      is_all ? "" : "/", ask::Printable(job.archived_run()),
      job.pruned_object_count(), job.pruned_object_count() == 1 ? "" : "s",
      ask::HumanSize(job.pruned_size_bytes()));
  for (const std::string& problem : job.differences()) {
    text += fmt::format("\n{}", ask::Printable(problem));
  }
  ask::Outcome outcome = End(invocation, job, text);
  if (outcome.ok() && job.differences_size() > 0) {
    outcome.exit_code = ask::kExitPartial;
  }
  return outcome;
}

ask::Outcome Archive(Invocation& invocation, const ArchiveFlags& flags) {
  if (flags.prune) return Prune(invocation, flags);
  if (flags.url.empty()) return ask::UsageError("RUN and URL are required");
  v1::ArchiveRunRequest request;
  request.set_run(flags.run);
  request.set_url(flags.url);
  request.set_give_up(flags.give_up);
  v1::ArchiveJob job;
  MSITCTL_RETURN_IF_FAILED(
      invocation.AskToTheEnd(&Stub::ArchiveRun, request, job));
  if (flags.detach) return PrintOne(invocation, job, "run");
  MSITCTL_RETURN_IF_FAILED(Await(invocation, job));
  return End(invocation, job,
             fmt::format(
                 "archived {} at {}/{}: {} records{}, {} sent, {} read "
                 "back{}{}",
                 ask::Printable(job.run()), ask::Printable(job.url()),
                 ask::Printable(job.archived_run()), job.record_count(),
                 ComparisonsText(job), ask::HumanSize(job.sent_size_bytes()),
                 ask::HumanSize(job.verified_size_bytes()),
                 flags.give_up ? "; its bytes are removed from this store" : "",
                 UnreadableText(job)));
}

struct RestoreFlags {
  std::string place;
  std::string run;
  bool detach = false;
};

ask::Outcome Restore(Invocation& invocation, const RestoreFlags& flags) {
  v1::RestoreRunRequest request;
  ArchivedRunName archived;
  MSITCTL_RETURN_IF_FAILED(FindArchivedRun(invocation, flags.place, archived));
  request.set_url(archived.url);
  request.set_archived_run(archived.run);
  request.set_run(flags.run);
  v1::ArchiveJob job;
  MSITCTL_RETURN_IF_FAILED(
      invocation.AskToTheEnd(&Stub::RestoreRun, request, job));
  if (flags.detach) return PrintOne(invocation, job, "run");
  MSITCTL_RETURN_IF_FAILED(Await(invocation, job));
  std::string text = fmt::format(
      "restored {} from {}/{}: {} records{}", ask::Printable(job.run()),
      ask::Printable(job.url()), ask::Printable(job.archived_run()),
      job.record_count(), ComparisonsText(job));
  for (const std::string& difference : job.differences()) {
    text += fmt::format("\ndiffers: {}", ask::Printable(difference));
  }
  text += UnreadableText(job);
  return End(invocation, job, text);
}

ask::ListLayout JobLayout() {
  ask::ListLayout layout;
  layout.field = "jobs";
  layout.columns = kJobColumns;
  layout.name = "run";
  layout.response = v1::ListArchiveJobsResponse::descriptor();
  return layout;
}

ask::Outcome ListJobs(Invocation& invocation, const std::string& columns) {
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ask::ListPrinter::Create(JobLayout(), invocation.print_options(columns),
                               invocation.out()));
  v1::ListArchiveJobsResponse response;
  MSITCTL_RETURN_IF_FAILED(invocation.Ask(
      &Stub::ListArchiveJobs, v1::ListArchiveJobsRequest(), response));
  for (const v1::ArchiveJob& job : response.jobs()) printer->Add(job);
  printer->Finish(response);
  return {};
}

void AddArchiving(CommandLine& line, CLI::App& noun) {
  auto columns = std::make_shared<std::string>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "archiving",
       .summary = "List the jobs that archive or restore runs, newest first.",
       .examples = "msitctl run archiving",
       .rpcs = "ArchiveService.ListArchiveJobs"},
      [columns](Invocation& invocation) {
        return ListJobs(invocation, *columns);
      });
  AddColumnsFlag(
      verb, *columns,
      ColumnWords(*v1::ListArchiveJobsResponse::descriptor(), JobLayout()));
}

}  // namespace

ask::Outcome ListArchived(Invocation& invocation, const std::string& url,
                          const ListFlags& flags) {
  ask::ListLayout layout;
  layout.field = "runs";
  layout.columns = kArchivedColumns;
  layout.name = "name";
  v1::ListArchivedRunsRequest request;
  request.set_url(url);
  return PrintPages(invocation, layout, flags, &Stub::ListArchivedRuns,
                    request);
}

void AddArchiveVerbs(CommandLine& line, CLI::App& noun) {
  auto archive = std::make_shared<ArchiveFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "archive",
       .summary = "Copy a sealed run into an archive, and verify the copy.",
       .examples =
           "msitctl run archive golden-fp32 s3://models/runs\n"
           "msitctl run archive golden-fp32 file:///srv/runs --give-up\n"
           "msitctl run archive s3://models/runs --prune",
       .rpcs = "ArchiveService.ArchiveRun, ArchiveService.PruneArchive with "
               "`--prune`, ArchiveService.GetArchiveJob"},
      [archive](Invocation& invocation) {
        return Archive(invocation, *archive);
      });
  AddRunName(verb, archive->run);
  verb.add_option("URL", archive->url,
                  "Archive: file:///DIRECTORY on the daemon's machine, or "
                  "s3://BUCKET/PREFIX. It must be listed in the daemon's "
                  "option `archives`")
      ->type_name("URL");
  verb.add_flag("--give-up", archive->give_up,
                "Remove the bytes from this store after they are archived");
  verb.add_flag("--prune", archive->prune,
                "Copy nothing. Remove unreferenced objects from the folder of "
                "RUN or, without RUN, from the whole archive");
  verb.add_option("--older-than", archive->older_than,
                  "With --prune, keep younger objects, which may belong to a "
                  "run that is being archived")
      ->type_name("DURATION")
      ->capture_default_str();
  verb.add_flag("--detach", archive->detach,
                "Print the job and exit without waiting for it");
  auto restore = std::make_shared<RestoreFlags>();
  CLI::App& back = line.AddVerb(
      noun,
      {.name = "restore",
       .summary = "Create a sealed run from an archived one.",
       .examples = "msitctl run restore s3://models/runs/golden-fp32\n"
                   "msitctl run restore file:///srv/runs/golden-fp32 --as old",
       .rpcs = "ArchiveService.RestoreRun, ArchiveService.GetArchiveJob"},
      [restore](Invocation& invocation) {
        return Restore(invocation, *restore);
      });
  back.add_option("URL/RUN", restore->place, "The archived run")
      ->required()
      ->type_name("URL/RUN");
  back.add_option("--as", restore->run,
                  "Name of the new run; default: the name in the archive")
      ->type_name("RUN");
  back.add_flag("--detach", restore->detach,
                "Print the job and exit without waiting for it");
  AddArchiving(line, noun);
}

}  // namespace msitd::msitctl
