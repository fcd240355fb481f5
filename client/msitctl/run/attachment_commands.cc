// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/attachment_commands.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "client/ask/text/policy_text.h"
#include "client/msitctl/run/attachment_transfer.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/verbs.h"
#include "protos/base/attachment_limits.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

using Stub = v1::AttachmentService::Stub;

constexpr char kColumns[] = "name,media_type,size=size_bytes,create_time";

// Media types by the extension of a file.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7>
    kMediaTypes = {{{".csv", "text/csv"},
                    {".json", "application/json"},
                    {".jsonl", "application/jsonl"},
                    {".md", "text/markdown"},
                    {".txt", "text/plain"},
                    {".yaml", "application/yaml"},
                    {".yml", "application/yaml"}}};

std::string MediaTypeOf(const std::string& file) {
  const std::string end = std::filesystem::path(file).extension().string();
  for (const auto& [extension, type] : kMediaTypes) {
    if (end == extension) return std::string(type);
  }
  return "application/octet-stream";
}

void AddAttachmentName(CLI::App& verb, std::string& name) {
  verb.add_option("ATTACHMENT,--name", name, "Name of the attachment")
      ->required()
      ->type_name("ATTACHMENT");
}

struct AttachFlags {
  std::string run;
  std::string file;
  std::string name;
  std::string media_type;
  bool replace = false;
};

ask::Outcome Attach(Invocation& invocation, const AttachFlags& flags) {
  std::string name = flags.name;
  if (name.empty()) {
    name = std::filesystem::path(flags.file).filename().string();
    if (flags.file == "-" || name.empty()) {
      return ask::UsageError("--name is required for stdin");
    }
  }
  const absl::StatusOr<std::string> bytes =
      ask::ReadTextFile(flags.file, kAttachmentBytesMax);
  if (!bytes.ok()) return ask::LocalError(Message(bytes.status()));
  v1::WriteAttachmentRequest::Open open;
  open.set_run(flags.run);
  open.set_name(name);
  open.set_media_type(flags.media_type.empty() ? MediaTypeOf(flags.file)
                                               : flags.media_type);
  open.set_replace(flags.replace);
  v1::Attachment attachment;
  MSITCTL_RETURN_IF_FAILED(
      WriteAttachment(invocation, std::move(open), *bytes, attachment));
  return PrintOne(invocation, attachment, "name");
}

void AddAttach(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<AttachFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "attach",
       .summary = "Attach a file of at most 64 MiB to a run.",
       .examples =
           "msitctl run attach tp8-bf16 module_tree.txt\n"
           "msitctl run attach tp8-bf16 - --name graph --media-type text/plain",
       .rpcs = "AttachmentService.WriteAttachment"},
      [flags](Invocation& invocation) { return Attach(invocation, *flags); });
  AddRunName(verb, flags->run);
  verb.add_option("FILE,--file", flags->file, "File to attach; - is stdin")
      ->required()
      ->type_name("FILE");
  verb.add_option("--name", flags->name,
                  "Name of the attachment; default: the name of the file")
      ->type_name("NAME");
  verb.add_option("--media-type", flags->media_type,
                  "Media type, such as application/json; default: by the file "
                  "name extension")
      ->type_name("TYPE");
  verb.add_flag("--replace", flags->replace,
                "Replace an attachment of the same name");
}

void AddAttachments(CommandLine& line, CLI::App& noun) {
  auto run = std::make_shared<std::string>();
  auto flags = std::make_shared<ListFlags>();
  ask::ListLayout layout;
  layout.field = "attachments";
  layout.columns = kColumns;
  layout.name = "name";
  CLI::App& verb = line.AddVerb(noun,
                                {.name = "attachments",
                                 .summary = "List the attachments of a run.",
                                 .examples = "msitctl run attachments tp8-bf16",
                                 .rpcs = "AttachmentService.ListAttachments"},
                                [run, flags, layout](Invocation& invocation) {
                                  v1::ListAttachmentsRequest request;
                                  request.set_run(*run);
                                  return PrintPages(invocation, layout, *flags,
                                                    &Stub::ListAttachments,
                                                    std::move(request));
                                });
  AddRunName(verb, *run);
  AddListFlags(verb, *flags,
               ColumnWords(*v1::ListAttachmentsResponse::descriptor(), layout));
}

struct GetFlags {
  std::string run;
  std::string name;
  std::string out;
};

ask::Outcome Get(Invocation& invocation, const GetFlags& flags) {
  if (!flags.out.empty()) {
    return ReadAttachment(invocation, flags.run, flags.name, flags.out);
  }
  v1::GetAttachmentRequest request;
  request.set_run(flags.run);
  request.set_name(flags.name);
  v1::Attachment attachment;
  MSITCTL_RETURN_IF_FAILED(
      invocation.Ask(&Stub::GetAttachment, request, attachment));
  return PrintOne(invocation, attachment, "name");
}

void AddGet(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<GetFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "attachment",
       .summary =
           "Print one attachment of a run, or write its bytes to a file.",
       .examples = "msitctl run attachment tp8-bf16 module_tree.txt\n"
                   "msitctl run attachment tp8-bf16 graph --out graph.txt\n"
                   "msitctl run attachment tp8-bf16 graph --out -",
       .rpcs = "AttachmentService.GetAttachment, "
               "AttachmentService.ReadAttachment"},
      [flags](Invocation& invocation) { return Get(invocation, *flags); });
  AddRunName(verb, flags->run);
  AddAttachmentName(verb, flags->name);
  verb.add_option("--out", flags->out, "File to write; - is stdout")
      ->type_name("FILE");
}

void AddDetach(CommandLine& line, CLI::App& noun) {
  auto run = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  CLI::App& verb =
      line.AddVerb(noun,
                   {.name = "detach",
                    .summary = "Remove an attachment from a run.",
                    .examples = "msitctl run detach tp8-bf16 module_tree.txt",
                    .rpcs = "AttachmentService.DeleteAttachment"},
                   [run, name](Invocation& invocation) -> ask::Outcome {
                     v1::DeleteAttachmentRequest request;
                     request.set_run(*run);
                     request.set_name(*name);
                     google::protobuf::Empty empty;
                     MSITCTL_RETURN_IF_FAILED(invocation.Ask(
                         &Stub::DeleteAttachment, request, empty));
                     return ReportDeleted(invocation, "attachment", *name);
                   });
  AddRunName(verb, *run);
  AddAttachmentName(verb, *name);
}

}  // namespace

void AddAttachmentVerbs(CommandLine& line, CLI::App& run) {
  AddAttach(line, run);
  AddAttachments(line, run);
  AddGet(line, run);
  AddDetach(line, run);
}

}  // namespace msitd::msitctl
