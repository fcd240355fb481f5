// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/ask/query/endpoint.h"
#include "client/ask/text/text.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "client/msitctl/run/archive_commands.h"
#include "client/msitctl/run/attachment_commands.h"
#include "client/msitctl/run/origin_command.h"
#include "client/msitctl/run/run_export.h"
#include "client/msitctl/run/run_import.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/verbs.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr char kColumns[] =
    "name,state,world_size,tensors=counters.tensor_count,"
    "statistics+=@statistics,"
    "size=counters.size_bytes,dropped~=counters.dropped_count,"
    "conflicts~=counters.conflict_count,"
    "archive+=archive.state,create_time?=create_time,labels?=labels";

// Empty for runs without statistics, which are most runs.
std::string StatisticsCount(const google::protobuf::Message& message) {
  const int64_t count =
      static_cast<const v1::Run&>(message).counters().statistics_count();
  return count == 0 ? "" : fmt::format("{}", count);
}

std::string DeleteQuestion(const v1::Run& run) {
  return fmt::format("Delete run {} with {} tensors, {}?", run.name(),
                     run.counters().tensor_count(),
                     ask::HumanSize(run.counters().size_bytes()));
}

struct CreateFlags {
  std::string name;
  int32_t world_size = 0;
  std::vector<std::string> labels;
};

ask::Outcome Create(Invocation& invocation, const CreateFlags& flags) {
  v1::CreateRunRequest request;
  v1::Run& run = *request.mutable_run();
  run.set_name(flags.name);
  run.set_world_size(flags.world_size);
  for (const std::string& label : flags.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return ask::UsageError(
          fmt::format("--label \"{}\" is not KEY=VALUE", label));
    }
    (*run.mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  v1::Run created;
  MSITCTL_RETURN_IF_FAILED(
      invocation.Ask(&v1::RunService::Stub::CreateRun, request, created));
  return PrintOne(invocation, created, "name");
}

void AddCreate(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<CreateFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "create",
       .summary = "Create an empty run, for example to label it before it is "
                  "recorded.",
       .examples = "msitctl run create tp8-bf16 --world-size 8 "
                   "--label model=minilm --label commit=4f2c",
       .rpcs = "RunService.CreateRun"},
      [flags](Invocation& invocation) { return Create(invocation, *flags); });
  AddRunName(verb, flags->name);
  verb.add_option("--world-size", flags->world_size,
                  "Number of ranks; default: reported by the first producer")
      ->check(WholeNumber(0, kRankMax + 1))
      ->type_name("N");
  AddTexts(verb, "--label", flags->labels, "Label of the run; repeatable")
      ->type_name("KEY=VALUE");
}

ask::Outcome SetRetention(Invocation& invocation,
                          const v1::SetRunRetentionRequest& set) {
  v1::Run run;
  MSITCTL_RETURN_IF_FAILED(
      invocation.Ask(&v1::RunService::Stub::SetRunRetention, set, run));
  return PrintOne(invocation, run, "name");
}

void AddPin(CommandLine& line, CLI::App& noun, bool pinned) {
  auto name = std::make_shared<std::string>();
  const std::string verb_name = pinned ? "pin" : "unpin";
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = verb_name,
       .summary =
           pinned ? "Exempt a run from all limits, so that it keeps its bytes."
                  : "Apply the limits to a run again.",
       .examples = fmt::format("msitctl run {} golden-fp32", verb_name),
       .rpcs = "RunService.SetRunRetention",
       .takes_nodes = true},
      [name, pinned](Invocation& invocation) {
        v1::SetRunRetentionRequest request;
        request.set_run(*name);
        request.mutable_retention()->set_pinned(pinned);
        return SetRetention(invocation, request);
      });
  AddRunName(verb, *name);
}

struct RetainFlags {
  std::string name;
  std::optional<uint64_t> bytes;
  std::optional<std::string> age;
  std::optional<int64_t> tokens;
};

ask::Outcome Retain(Invocation& invocation, const RetainFlags& flags) {
  v1::SetRunRetentionRequest request;
  request.set_run(flags.name);
  v1::Retention& retention = *request.mutable_retention();
  if (flags.bytes.has_value()) {
    retention.set_size_bytes_max(static_cast<int64_t>(*flags.bytes));
  }
  if (flags.age == "0") {
    retention.mutable_age_max();
  } else if (flags.age.has_value()) {
    const auto age = ask::ParseDuration(*flags.age);
    if (!age.ok()) {
      return ask::UsageError(fmt::format("--age: {}", Message(age.status())));
    }
    *retention.mutable_age_max() =
        google::protobuf::util::TimeUtil::MillisecondsToDuration(age->count());
  }
  if (flags.tokens.has_value()) retention.set_token_count(*flags.tokens);
  return SetRetention(invocation, request);
}

void AddRetain(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<RetainFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "retain",
       .summary = "Set the limits of a run. 0 means the daemon's limit.",
       .examples = "msitctl run retain nightly --bytes 200GB\n"
                   "msitctl run retain nightly --tokens 64 --age 48h",
       .rpcs = "RunService.SetRunRetention",
       .takes_nodes = true},
      [flags](Invocation& invocation) { return Retain(invocation, *flags); });
  AddRunName(verb, flags->name);
  verb.add_option("--bytes", flags->bytes,
                  "Maximum bytes of tensors to keep, such as 512MB or 64GB (1 "
                  "KB is 1024 bytes)")
      ->transform(SizeValue())
      ->type_name("SIZE");
  verb.add_option("--age", flags->age,
                  "Maximum age of the bytes to keep, such as 48h or 7d")
      ->type_name("DURATION");
  verb.add_option("--tokens", flags->tokens,
                  "Number of tokens to keep, the highest first")
      ->check(WholeNumber())
      ->type_name("N");
}

void AddList(CommandLine& line, CLI::App& noun, const ask::ListLayout& layout) {
  struct Flags {
    ListFlags list;
    std::string archive;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "list",
       .summary = "List runs.",
       .examples = "msitctl run list\n"
                   "msitctl run list --columns name,world_size,seal_time\n"
                   "msitctl run list --archive s3://models/runs",
       .rpcs = "RunService.ListRuns, ArchiveService.ListArchivedRuns",
       .takes_nodes = true},
      [flags, layout](Invocation& invocation) -> ask::Outcome {
        if (flags->archive.empty()) {
          return PrintPages(invocation, layout, flags->list,
                            &v1::RunService::Stub::ListRuns,
                            v1::ListRunsRequest());
        }
        if (invocation.node_fanout() != nullptr) {
          return ask::UsageError(
              "--archive supports a single daemon only: use --endpoint instead "
              "of --endpoints");
        }
        return ListArchived(invocation, flags->archive, flags->list);
      });
  AddPartialFlag(verb, flags->list.allow_partial);
  AddListFlags(verb, flags->list,
               ColumnWords(*v1::ListRunsResponse::descriptor(), layout));
  verb.add_option("--archive", flags->archive,
                  "List the runs of this archive instead: file:///DIRECTORY "
                  "or s3://BUCKET/PREFIX")
      ->type_name("URL");
}

}  // namespace

void AddRunCommands(CommandLine& line) {
  CLI::App& noun = line.AddNoun("run", "Runs: named captures of a job.",
                                "msitctl run list\n"
                                "msitctl run get tp8-bf16\n"
                                "msitctl run delete tp8-retry");
  using Stub = v1::RunService::Stub;
  ask::ListLayout layout;
  layout.field = "runs";
  layout.columns = kColumns;
  layout.name = "name";
  layout.computed["statistics"] = &StatisticsCount;
  AddList(line, noun, layout);
  AddNamedVerb(line, noun,
               {.name = "get",
                .summary = "Print one run.",
                .examples = "msitctl run get golden-fp32",
                .rpcs = "RunService.GetRun",
                .takes_nodes = true},
               AddRunName, "name", &Stub::GetRun);
  AddCreate(line, noun);
  AddNamedVerb(
      line, noun,
      {.name = "seal",
       .summary =
           "End the capture of a run, so that it accepts no more tensors.",
       .examples = "msitctl run seal golden-fp32",
       .rpcs = "RunService.SealRun",
       .takes_nodes = true},
      AddRunName, "name", &Stub::SealRun);
  AddImport(line, noun);
  AddPin(line, noun, /*pinned=*/true);
  AddPin(line, noun, /*pinned=*/false);
  AddRetain(line, noun);
  AddAttachmentVerbs(line, noun);
  AddExportVerb(line, noun);
  AddOriginVerb(line, noun);
  AddArchiveVerbs(line, noun);
  AddDeleteVerb(line, noun,
                {.name = "delete",
                 .summary = "Delete a run with its tensors. Asks for "
                            "confirmation on a terminal.",
                 .examples = "msitctl run delete tp8-bf16\n"
                             "msitctl run delete tp8-bf16 --yes",
                 .rpcs = "RunService.DeleteRun, RunService.GetRun",
                 .takes_nodes = true},
                AddRunName, "run", &Stub::GetRun, DeleteQuestion,
                &Stub::DeleteRun);
}

}  // namespace msitd::msitctl
