// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/selection.h"

#include <fmt/format.h>

#include "client/ask/text/ranges.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/flag/one_of.h"
#include "protos/base/limits.h"
#include "protos/base/record_kind.h"
#include "protos/base/selector.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::msitctl {

CLI::Option* AddTexts(CLI::App& verb, const std::string& name,
                      std::vector<std::string>& texts,
                      const std::string& description) {
  return verb.add_option(name, texts, description)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->check(NotEmpty());
}

void AddSelectionFlags(CLI::App& verb, SelectionFlags& flags) {
  verb.add_option("--ranks", flags.ranks, "Ranks, such as 0,2-3")
      ->check(NotEmpty())
      ->type_name("LIST");
  AddTexts(verb, "--devices", flags.devices,
           "Devices, such as npu:0,npu:1; repeatable")
      ->type_name("LIST");
  verb.add_option("--tokens", flags.tokens,
                  "Generated tokens, or steps of training: 0-3,10")
      ->check(NotEmpty())
      ->type_name("LIST");
  AddTexts(verb, "--ops", flags.ops,
           "Patterns of ops, such as '*.layers.*.q_proj'. * matches any text, "
           "? matches one byte. Separated by commas; repeatable")
      ->type_name("LIST");
  AddTexts(verb, "--io", flags.ios,
           "input, output, weight, grad_input, grad_output, grad_weight, "
           "state; separated by commas, repeatable")
      ->check(ListOf({"input", "output", "weight", "grad_input", "grad_output",
                      "grad_weight", "state"}))
      ->type_name("LIST");
}

void AddKindFlag(CLI::App& verb, SelectionFlags& flags, bool takes_documents) {
  std::vector<std::string> words = {"tensor", "number", "text",      "none",
                                    "dtype",  "other",  "statistics"};
  if (takes_documents) words.emplace_back("document");
  flags.takes_documents = takes_documents;
  words.emplace_back("value");
  words.emplace_back("all");
  AddTexts(verb, "--kind", flags.kinds,
           fmt::format("{}. value means number to other. Separated by commas; "
                       "repeatable. Default: tensors only",
                       fmt::join(words, ", ")))
      ->check(ListOf(words))
      ->type_name("LIST");
}

void AddRequestFlag(CLI::App& verb, SelectionFlags& flags) {
  AddTexts(
      verb, "--request", flags.requests,
      "Id of a request, to select the tokens that belong to it; repeatable")
      ->type_name("ID");
}

std::string TextOf(const SelectionFlags& flags) {
  std::string out;
  const auto add = [&out](std::string_view flag, const std::string& value) {
    if (value.empty()) return;
    if (!out.empty()) out += ' ';
    out += FlagText(flag, value);
  };
  add("--ranks", flags.ranks);
  for (const std::string& devices : flags.devices) add("--devices", devices);
  add("--tokens", flags.tokens);
  for (const std::string& ops : flags.ops) add("--ops", ops);
  for (const std::string& ios : flags.ios) add("--io", ios);
  for (const std::string& kinds : flags.kinds) add("--kind", kinds);
  for (const std::string& id : flags.requests) add("--request", id);
  return out;
}

absl::StatusOr<v1::TensorFilter> ToFilter(const SelectionFlags& flags) {
  v1::TensorFilter filter;
  if (!flags.ranks.empty()) {
    const auto ranks = ask::ParseRanks(flags.ranks);
    if (!ranks.ok()) return Annotate(ranks.status(), "--ranks");
    filter.mutable_ranks()->Add(ranks->begin(), ranks->end());
  }
  if (!flags.tokens.empty()) {
    const auto tokens = ask::ParseRanges(flags.tokens, kTokenMax);
    if (!tokens.ok()) return Annotate(tokens.status(), "--tokens");
    if (tokens->size() > Selector::kTokenRangesMax) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "--tokens: more than {} ranges",
                        Selector::kTokenRangesMax);
    }
    for (const ask::Range& range : *tokens) {
      v1::TokenRange& out = *filter.add_tokens();
      out.set_first(range.first);
      out.set_last(range.last);
    }
  }
  for (const std::string& id : flags.requests) filter.add_requests(id);
  for (const std::string& device : ask::SplitLists(flags.devices))
    filter.add_devices(device);
  for (const std::string& op : ask::SplitLists(flags.ops))
    filter.add_op_patterns(op);
  for (const std::string& name : ask::SplitLists(flags.ios)) {
    const auto io = ParseIo(name);
    if (!io.has_value()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "--io \"{}\" is not one of input, output, weight, "
                        "grad_input, grad_output, grad_weight, state",
                        name);
    }
    filter.add_ios(static_cast<v1::Io>(*io));
  }
  for (const std::string& name : ask::SplitLists(flags.kinds)) {
    const std::optional<RecordKind> one = ParseRecordKind(name);
    for (int i = 0; i < kRecordKindCount; ++i) {
      const auto kind = static_cast<RecordKind>(i);
      const bool is_document = kind == RecordKind::kDocument;
      if (kind == one || (name == "value" && IsValue(kind)) ||
          (name == "all" && (!is_document || flags.takes_documents))) {
        filter.add_kinds(static_cast<v1::RecordKind>(i));
      }
    }
  }
  return filter;
}

}  // namespace msitd::msitctl
