// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/matching_flags.h"

#include <fmt/format.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>
#include <utility>

#include "client/ask/text/policy_text.h"
#include "client/ask/text/ranges.h"
#include "client/ask/text/trim.h"
#include "client/ask/text/yaml_text.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

absl::StatusOr<v1::Matching> ParseJsonMapping(std::string_view text) {
  google::protobuf::Struct object;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &object);
  if (!status.ok()) {
    return MakeStatus(
        absl::StatusCode::kInvalidArgument, "is not a JSON object: {}",
        std::string_view(status.message().data(), status.message().size()));
  }
  v1::Matching matching;
  // Protobuf maps have no order.
  std::set<std::string> names;
  for (const auto& [golden, target] : object.fields()) names.insert(golden);
  for (const std::string& golden : names) {
    const google::protobuf::Value& target = object.fields().at(golden);
    if (target.kind_case() != google::protobuf::Value::kStringValue) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "\"{}\" is not mapped to a string", golden);
    }
    v1::Matching::OpPair& pair = *matching.add_ops();
    pair.set_golden_op(golden);
    pair.set_target_op(target.string_value());
  }
  return matching;
}

absl::StatusOr<v1::Matching> ParseYamlMapping(std::string_view text) {
  MSITD_ASSIGN_OR_RETURN(const ask::YamlValue map, ask::ReadYaml(text));
  const auto refused = [](const ask::YamlValue& value) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "line {}: is not GOLDEN: TARGET", value.line);
  };
  v1::Matching matching;
  if (map.kind == ask::YamlValue::Kind::kNull) return matching;
  if (map.kind != ask::YamlValue::Kind::kMap) return refused(map);
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const ask::YamlValue& target = map.items[i];
    if (map.keys[i].empty() || target.text.empty()) return refused(target);
    v1::Matching::OpPair& pair = *matching.add_ops();
    pair.set_golden_op(map.keys[i]);
    pair.set_target_op(target.text);
  }
  return matching;
}

}  // namespace

absl::StatusOr<v1::Matching> ParseOpMap(std::string_view text) {
  return ask::Trim(text).starts_with('{') ? ParseJsonMapping(text)
                                          : ParseYamlMapping(text);
}

absl::StatusOr<v1::Matching::Rewrite> ParseRewrite(std::string_view text) {
  const size_t arrow = text.find("=>");
  if (arrow == std::string_view::npos || arrow == 0) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not REGEX=>REPLACEMENT", text);
  }
  v1::Matching::Rewrite rewrite;
  rewrite.set_regex(std::string(text.substr(0, arrow)));
  rewrite.set_replacement(std::string(text.substr(arrow + 2)));
  return rewrite;
}

absl::StatusOr<v1::Matching::Mapping> ParseMappingName(std::string_view text) {
  constexpr std::string_view kGolden = "golden:";
  constexpr std::string_view kTarget = "target:";
  v1::Matching::Mapping mapping;
  mapping.set_side(text.starts_with(kGolden) ? v1::Matching::Mapping::GOLDEN
                                             : v1::Matching::Mapping::TARGET);
  for (const std::string_view side : {kGolden, kTarget}) {
    if (!text.starts_with(side)) continue;
    text.remove_prefix(side.size());
    break;
  }
  if (text.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "is not [golden:|target:]NAME");
  }
  mapping.set_attachment(std::string(text));
  return mapping;
}

absl::StatusOr<v1::Matching::RankPair> ParseRankPair(std::string_view text) {
  int32_t ranks[2] = {};
  const size_t equals = std::min(text.find('='), text.size());
  const std::string_view sides[2] = {
      text.substr(0, equals),
      equals == text.size() ? std::string_view() : text.substr(equals + 1)};
  for (int i = 0; i < 2; ++i) {
    const char* end = sides[i].data() + sides[i].size();
    const auto [stop, error] = std::from_chars(sides[i].data(), end, ranks[i]);
    if (error != std::errc() || stop != end) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "\"{}\" is not GOLDEN_RANK=TARGET_RANK", text);
    }
  }
  v1::Matching::RankPair pair;
  pair.set_golden_rank(ranks[0]);
  pair.set_target_rank(ranks[1]);
  return pair;
}

void AddMatchingFlags(CLI::App& verb, MatchingFlags& flags) {
  AddTexts(verb, "--rewrite", flags.rewrites,
           "Rewrite target ops before they are searched in the golden run; \\1 "
           "is a group. Repeatable; rules apply one after the other")
      ->type_name("'REGEX=>REPLACEMENT'");
  verb.add_option("--op-map,--map", flags.op_map_file,
                  "File with pairs of ops: a JSON object or YAML that maps "
                  "golden names to target names")
      ->check(NotEmpty())
      ->type_name("FILE");
  verb.add_option("--mapping", flags.mapping,
                  "Attachment of a run that lists pairs of tensors; only "
                  "these are compared")
      ->check(NotEmpty())
      ->type_name("[golden:|target:]NAME");
  verb.add_option("--mapping-file", flags.mapping_file,
                  "File to attach to the target run and use as --mapping. It "
                  "is detached again if the comparison is rejected")
      ->check(NotEmpty())
      ->type_name("FILE");
  verb.add_flag("--pair-others", flags.pair_others,
                "Pair tensors that the mapping does not name as if there were "
                "no mapping");
  verb.add_flag("--ignore-case", flags.ignore_case,
                "Ignore case in the names of ops");
  verb.add_flag("--fuzzy", flags.fuzzy,
                "Pair the remaining tensors in order, and ignore calls, "
                "wrappers, case and separators");
  verb.add_option(
          "--by", flags.by,
          "token (default): compare whole tensors of equal tokens. request: "
          "compare rows of equal requests and positions, for runs that batch, "
          "pad or divide their requests differently")
      ->check(OneOf({"token", "request"}))
      ->type_name("WHAT");
  verb.add_option("--token-offset", flags.token_offset,
                  "Pair golden token T with target token T + N")
      ->check(WholeNumber(-kTokenMax, kTokenMax))
      ->type_name("N");
  AddTexts(verb, "--rank-map", flags.rank_map,
           "Ranks to pair; no others are compared")
      ->type_name("GOLDEN=TARGET,...");
  AddLayoutFlags(verb, flags.layouts);
  AddViewFlags(verb, flags.views);
  verb.add_flag(
      "--ignore-placements", flags.ignore_placements,
      "Compare shards rank by rank, and ignore their recorded placements");
}

ask::Outcome ToMatching(const MatchingFlags& flags, v1::Matching& matching) {
  if (!flags.op_map_file.empty()) {
    const auto text = ask::ReadTextFile(flags.op_map_file, kOpMapBytesMax);
    auto mapping = text.ok() ? ParseOpMap(*text) : text.status();
    if (!mapping.ok()) {
      const std::string error = fmt::format(
          "--op-map: {}: {}", flags.op_map_file, Message(mapping.status()));
      return absl::IsInvalidArgument(mapping.status()) ? ask::UsageError(error)
                                                       : ask::LocalError(error);
    }
    matching = *std::move(mapping);
  }
  if (!flags.mapping.empty()) {
    auto mapping = ParseMappingName(flags.mapping);
    if (!mapping.ok()) {
      return ask::UsageError(fmt::format("{}: {}",
                                         FlagText("--mapping", flags.mapping),
                                         Message(mapping.status())));
    }
    *matching.mutable_mapping() = *std::move(mapping);
  }
  if (flags.pair_others) {
    if (flags.mapping.empty() && flags.mapping_file.empty()) {
      return ask::UsageError(
          "--pair-others requires --mapping or --mapping-file");
    }
    matching.mutable_mapping()->set_pair_others(true);
  }
  for (const std::string& text : flags.rewrites) {
    const auto rewrite = ParseRewrite(text);
    if (!rewrite.ok()) {
      return ask::UsageError(
          fmt::format("--rewrite: {}", Message(rewrite.status())));
    }
    *matching.add_rewrites() = *rewrite;
  }
  for (const std::string& text : ask::SplitLists(flags.rank_map)) {
    const auto pair = ParseRankPair(text);
    if (!pair.ok()) {
      return ask::UsageError(
          fmt::format("--rank-map: {}", Message(pair.status())));
    }
    *matching.add_ranks() = *pair;
  }
  MSITCTL_RETURN_IF_FAILED(AddLayouts(flags.layouts, matching));
  MSITCTL_RETURN_IF_FAILED(AddViews(flags.views, matching));
  matching.set_ignore_case(flags.ignore_case);
  matching.set_fuzzy(flags.fuzzy);
  matching.set_by_request(flags.by == "request");
  matching.set_ignore_placements(flags.ignore_placements);
  matching.set_token_offset(flags.token_offset);
  return {};
}

}  // namespace msitd::msitctl
