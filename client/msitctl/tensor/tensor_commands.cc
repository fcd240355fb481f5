// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "client/ask/query/run_names.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "client/msitctl/tensor/ordered_tensors.h"
#include "client/msitctl/tensor/tensor_histogram.h"
#include "client/msitctl/tensor/tensor_read.h"
#include "client/msitctl/verb/pages.h"
#include "client/msitctl/verb/selection_note.h"
#include "client/msitctl/verb/worker.h"

namespace msitd::msitctl {
namespace {

constexpr char kTensorColumns[] =
    "rank~=rank,device?=device,token~=token,op,call?=call,io/index,"
    "dtype?=dtype,shape?=shape,size?=size_bytes,min=summary.min,"
    "max=summary.max,mean?=summary.mean,l2_norm?=summary.l2_norm,"
    "nan_count~=summary.nan_count";

// Additional columns if kinds are selected.
constexpr char kKindColumns[] = "kind,value";

// Additional columns if requests are selected.
constexpr char kRequestColumns[] = "requests";

constexpr char kFindColumns[] =
    "rank~=rank,device?=device,token~=token,op,call?=call,io/index,"
    "dtype?=dtype,shape?=shape,count?=summary.count,"
    "nan_count~=summary.nan_count,+inf~=summary.positive_infinity_count,"
    "-inf~=summary.negative_infinity_count,"
    "zero_count?=summary.zero_count,min=summary.min,max=summary.max,"
    "mean?=summary.mean";

constexpr char kStatsColumns[] =
    "tensors?=tensor_count,size?=size_bytes,count?=summary.count,"
    "min=summary.min,max=summary.max,mean?=summary.mean,"
    "l1_norm?=summary.l1_norm,l2_norm?=summary.l2_norm,"
    "nan_count~=summary.nan_count,+inf~=summary.positive_infinity_count,"
    "-inf~=summary.negative_infinity_count,zero_count?=summary.zero_count";

constexpr char kExecutionOrder[] = "execution";
constexpr char kKeyOrder[] = "key";

struct QueryFlags {
  std::string run;
  SelectionFlags selection;
  std::string where;
  std::string by;
  std::string order;
  std::string at;  // See AddWorkerFlag.
  ListFlags list;
};

void AddQueryFlags(CLI::App& verb, QueryFlags& flags) {
  AddRunName(verb, flags.run);
  AddSelectionFlags(verb, flags.selection);
  AddKindFlag(verb, flags.selection, /*takes_documents=*/true);
  AddRequestFlag(verb, flags.selection);
  AddPartialFlag(verb, flags.list.allow_partial);
}

ask::ListLayout TensorLayout(std::string columns) {
  ask::ListLayout layout;
  layout.field = "tensors";
  layout.columns = std::move(columns);
  layout.name = "name";
  return layout;
}

// Binds the flags of `list` and `find`.
void AddTensorListFlags(CLI::App& verb, QueryFlags& flags, const char* columns,
                        const char* order) {
  AddQueryFlags(verb, flags);
  flags.order = order;
  verb.add_option(
          "--order", flags.order,
          fmt::format("execution: in the order in which the program computed "
                      "them, so that a container follows its contents. key: by "
                      "rank, device, token and op. Default {}",
                      order))
      ->check(OneOf({kExecutionOrder, kKeyOrder}))
      ->type_name("ORDER");
  AddListFlags(verb, flags.list,
               ColumnWords(*v1::ListTensorsResponse::descriptor(),
                           TensorLayout(columns)));
}

ask::Outcome List(Invocation& invocation, const QueryFlags& flags,
                  const char* columns) {
  v1::ListTensorsRequest request;
  request.set_run(flags.run);
  request.set_where(flags.where);
  const FieldFlags where{"predicate", {FlagText("--where", flags.where)}};
  MSITCTL_ASSIGN_OR_USAGE(*request.mutable_filter(), ToFilter(flags.selection));
  std::string shown = columns;
  const auto add = [&shown](bool is_asked, const char* more) {
    if (is_asked) shown += fmt::format(",{}", more);
  };
  add(!flags.selection.kinds.empty(), kKindColumns);
  add(!flags.selection.requests.empty(), kRequestColumns);
  const auto when_empty = [&] {
    NoteNoTensor(invocation, flags.run, flags.selection, flags.where);
  };
  ask::ListLayout layout = TensorLayout(std::move(shown));
  return ErrorOfFlag(
      flags.order == kExecutionOrder
          ? PrintInExecutionOrder(invocation, std::move(layout), flags.list,
                                  std::move(request), when_empty)
          : PrintPages(invocation, std::move(layout), flags.list,
                       &v1::TensorService::Stub::ListTensors,
                       std::move(request), when_empty),
      {&where, 1});
}

void AddTensorName(CLI::App& verb, std::string& name) {
  verb.add_option("NAME", name, "Name of the tensor, as -o name prints it")
      ->required();
}

void AddList(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<QueryFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "list",
       .summary = "List the tensors of a run.",
       .examples =
           "msitctl tensor list --run golden-fp32 --tokens 0 --ops "
           "'*.attention.*' --io output\n"
           "msitctl tensor list --run golden-fp32 --ranks 0,2-3 -o name",
       .rpcs = "TensorService.ListTensors",
       .takes_nodes = true},
      [flags](Invocation& invocation) {
        return List(invocation, *flags, kTensorColumns);
      });
  AddTensorListFlags(verb, *flags, kTensorColumns, kKeyOrder);
}

void AddFind(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<QueryFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "find",
       .summary = "List the tensors whose statistics meet a condition.",
       .examples =
           "msitctl tensor find --run tp8-bf16 --where 'nan_count > 0'\n"
           "msitctl tensor find --run tp8-bf16 --where 'inf_count > 0 or "
           "abs_max >= 1e4' --limit 1",
       .rpcs = "TensorService.ListTensors",
       .takes_nodes = true},
      [flags](Invocation& invocation) {
        return List(invocation, *flags, kFindColumns);
      });
  verb.add_option("--where", flags->where,
                  "Condition on count, nan_count, inf_count, zero_count, min, "
                  "max, abs_max, sum, mean, l1_norm, l2_norm, size_bytes")
      ->required()
      ->check(NotEmpty())
      ->type_name("PREDICATE");
  AddTensorListFlags(verb, *flags, kFindColumns, kExecutionOrder);
}

absl::StatusOr<v1::SummarizeTensorsRequest::GroupBy> ParseGroupBy(
    const std::string& by) {
  using Request = v1::SummarizeTensorsRequest;
  if (by.empty()) return Request::GROUP_BY_UNSPECIFIED;
  if (by == "rank") return Request::RANK;
  if (by == "token") return Request::TOKEN;
  if (by == "op") return Request::OP;
  if (by == "device") return Request::DEVICE;
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "--by \"{}\" is not rank, token, op or device", by);
}

ask::ListLayout GroupLayout(const std::string& by) {
  ask::ListLayout layout;
  layout.response = v1::SummarizeTensorsResponse::descriptor();
  layout.field = "groups";
  layout.columns =
      by.empty() ? kStatsColumns : fmt::format("{}=key,{}", by, kStatsColumns);
  layout.name = "key";
  return layout;
}

ask::Outcome Stats(Invocation& invocation, const QueryFlags& flags) {
  v1::SummarizeTensorsRequest request;
  request.set_run(flags.run);
  MSITCTL_ASSIGN_OR_USAGE(*request.mutable_filter(), ToFilter(flags.selection));
  v1::SummarizeTensorsRequest::GroupBy group_by;
  MSITCTL_ASSIGN_OR_USAGE(group_by, ParseGroupBy(flags.by));
  request.set_group_by(group_by);
  std::unique_ptr<ask::ListPrinter> printer;
  MSITCTL_ASSIGN_OR_USAGE(
      printer,
      ask::ListPrinter::Create(GroupLayout(flags.by),
                               invocation.print_options(flags.list.columns),
                               invocation.out()));
  MSITCTL_RETURN_IF_FAILED(UseWorker(invocation, flags.at));
  v1::SummarizeTensorsResponse response;
  MSITCTL_RETURN_IF_FAILED(invocation.Ask(
      &v1::TensorService::Stub::SummarizeTensors, request, response));
  PartialNotice partial(invocation);
  partial.See(flags.run, response);
  int64_t tensor_count = 0;
  for (const auto& group : response.groups()) {
    tensor_count += group.tensor_count();
    printer->Add(group);
  }
  printer->Finish(response);
  if (tensor_count == 0) {
    MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
    NoteNoTensor(invocation, flags.run, flags.selection, "");
  }
  return partial.End(flags.list.allow_partial);
}

void AddStats(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<QueryFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "stats",
       .summary = "Print statistics of tensors, in total or by group.",
       .examples = "msitctl tensor stats --run golden-fp32 --by rank\n"
                   "msitctl tensor stats --run golden-fp32 --ops '*.mlp.*' "
                   "--by token",
       .rpcs = "TensorService.SummarizeTensors",
       .takes_nodes = true},
      [flags](Invocation& invocation) { return Stats(invocation, *flags); });
  AddQueryFlags(verb, *flags);
  verb.add_option("--by", flags->by,
                  "Group by: rank, token, op or device (default: one group)")
      ->check(OneOf({"rank", "token", "op", "device"}))
      ->type_name("GROUP");
  AddWorkerFlag(verb, flags->at);
  AddColumnsFlag(verb, flags->list.columns,
                 ColumnWords(*v1::SummarizeTensorsResponse::descriptor(),
                             GroupLayout("")));
}

constexpr char kExampleName[] =
    "runs/golden-fp32/ranks/0/devices/cpu:0/tokens/0/ops/pooler/calls/0/"
    "output/0";

void AddGetTensor(CommandLine& line, CLI::App& noun) {
  auto name = std::make_shared<std::string>();
  // The command line uses it if a node fails.
  auto allows_partial = std::make_shared<bool>(false);
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "get",
       .summary = "Print the metadata and statistics of one tensor.",
       .examples = fmt::format("msitctl tensor get {}", kExampleName),
       .rpcs = "TensorService.GetTensor",
       .takes_nodes = true},
      [name, allows_partial](Invocation& invocation) -> ask::Outcome {
        v1::Tensor tensor;
        MSITCTL_RETURN_IF_FAILED(ask::ErrorOfTensor(
            invocation, *name,
            invocation.AskByName(&v1::TensorService::Stub::GetTensor, *name,
                                 tensor)));
        return PrintOne(invocation, tensor, "name");
      });
  AddTensorName(verb, *name);
  AddPartialFlag(verb, *allows_partial);
}

void AddRead(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<ReadFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "read",
       .summary = "Write the bytes of one tensor to a file.",
       .examples = fmt::format("msitctl tensor read {0} --out pooler.npy\n"
                               "msitctl tensor read {0} --out - --format raw\n"
                               "msitctl tensor read {0} --sample --out s.npy",
                               kExampleName),
       .rpcs = "TensorService.ReadTensor, TensorService.GetTensor"},
      [flags](Invocation& invocation) {
        return ask::ErrorOfTensor(invocation, flags->name,
                                  ReadTensor(invocation, *flags));
      });
  AddTensorName(verb, flags->name);
  verb.add_option("--out", flags->out, "File to write; - is stdout")
      ->required()
      ->type_name("FILE");
  verb.add_option("--format", flags->format,
                  "raw (row-major, little-endian bytes) or npy; default: npy "
                  "if FILE ends in .npy, otherwise raw")
      ->check(OneOf({"raw", "npy"}))
      ->type_name("FORMAT");
  verb.add_flag(
      "--sample", flags->sample,
      "Write only a sample: every step-th element, at most 1024, in one "
      "dimension. A tensor captured at level sample has no other elements");
}

void AddHistogram(CommandLine& line, CLI::App& noun) {
  auto flags = std::make_shared<HistogramFlags>();
  CLI::App& verb = line.AddVerb(
      noun,
      {.name = "histogram",
       .summary = "Show the distribution of the elements of one tensor.",
       .examples = fmt::format("msitctl tensor histogram {0}\n"
                               "msitctl tensor histogram {0} --bins 64 --low "
                               "-1 --high 1 -o csv",
                               kExampleName),
       .rpcs = "TensorService.ComputeHistogram"},
      [flags](Invocation& invocation) {
        return ask::ErrorOfTensor(invocation, flags->name,
                                  PrintHistogram(invocation, *flags));
      });
  AddTensorName(verb, flags->name);
  verb.add_option("--bins", flags->bins,
                  "Number of bins of equal width, at most 1024; default: 20 in "
                  "a table, otherwise 64")
      ->check(WholeNumber(1, kBinsMax))
      ->type_name("N");
  verb.add_option(
          "--low", flags->low,
          "Lower end of the first bin; default: the smallest finite element")
      ->check(RealNumber())
      ->type_name("X");
  verb.add_option(
          "--high", flags->high,
          "Upper end of the last bin; default: the largest finite element")
      ->check(RealNumber())
      ->type_name("X");
}

}  // namespace

void AddTensorCommands(CommandLine& line) {
  CLI::App& noun = line.AddNoun(
      "tensor", "Tensors: the recorded values.",
      "msitctl tensor list --run tp8-bf16 --ops '*.mlp'\n"
      "msitctl tensor find --run tp8-bf16 --where 'nan_count > 0'");
  AddList(line, noun);
  AddGetTensor(line, noun);
  AddRead(line, noun);
  AddStats(line, noun);
  AddFind(line, noun);
  AddHistogram(line, noun);
}

}  // namespace msitd::msitctl
