// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/match_rules.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>

#include "protos/base/attachment_limits.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr int64_t kRegexBytesMax = int64_t{256} << 10;

// Prefix of the keys of listed ops. Names of ops do not begin with this control
// character in practice. An op that does is unmatched at worst.
constexpr char kMappedMark = '\1';

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool IsWrapper(std::string_view component) {
  constexpr std::array<std::string_view, 5> kWrappers = {
      "module", "_orig_mod", "_fsdp_wrapped_module",
      "_checkpoint_wrapped_module", "root"};
  return std::find(kWrappers.begin(), kWrappers.end(), component) !=
         kWrappers.end();
}

absl::Status CheckMapping(const v1::Matching::Mapping& mapping) {
  if (mapping.side() != v1::Matching::Mapping::GOLDEN &&
      mapping.side() != v1::Matching::Mapping::TARGET) {
    return FieldInvalid("matching.mapping.side",
                        fmt::format("{} is neither GOLDEN nor TARGET",
                                    static_cast<int>(mapping.side())));
  }
  const size_t size = mapping.attachment().size();
  if (size > 0 && size <= kAttachmentNameBytesMax) return absl::OkStatus();
  return FieldInvalid(
      "matching.mapping.attachment",
      fmt::format("{} bytes, needs 1 to {}", size, kAttachmentNameBytesMax));
}

}  // namespace

absl::StatusOr<MatchRules> MatchRules::Create(const v1::Matching& spec) {
  MatchRules out;
  out.ignore_case_ = spec.ignore_case();
  out.fuzzy_ = spec.fuzzy();
  out.ignore_placements_ = spec.ignore_placements();
  out.backward_by_number_ = spec.backward_by_number();
  out.token_offset_ = spec.token_offset();
  if (out.token_offset_ > kTokenMax || out.token_offset_ < -kTokenMax) {
    return FieldInvalid("matching.token_offset",
                        fmt::format("{} is beyond {} either way",
                                    out.token_offset_, kTokenMax));
  }
  if (spec.has_mapping()) {
    MSITD_RETURN_IF_ERROR(CheckMapping(spec.mapping()));
    out.is_mapped_ = true;
    out.pairs_others_ = spec.mapping().pair_others();
  }
  MSITD_RETURN_IF_ERROR(out.AddRewrites(spec));
  MSITD_RETURN_IF_ERROR(out.AddOps(spec));
  MSITD_RETURN_IF_ERROR(out.AddRanks(spec));
  MSITD_ASSIGN_OR_RETURN(
      out.golden_layouts_,
      LayoutRules::Create(spec.golden_layouts(), "matching.golden_layouts"));
  MSITD_ASSIGN_OR_RETURN(
      out.target_layouts_,
      LayoutRules::Create(spec.target_layouts(), "matching.target_layouts"));
  MSITD_ASSIGN_OR_RETURN(
      out.golden_views_,
      ViewRules::Create(spec.golden_views(), "matching.golden_views"));
  MSITD_ASSIGN_OR_RETURN(
      out.target_views_,
      ViewRules::Create(spec.target_views(), "matching.target_views"));
  out.by_request_ = spec.by_request();
  if (out.by_request_ && out.token_offset_ != 0) {
    return FieldInvalid("matching.by_request",
                        "cannot be combined with an offset of tokens");
  }
  return out;
}

absl::Status MatchRules::AddRewrites(const v1::Matching& spec) {
  if (static_cast<size_t>(spec.rewrites_size()) > kRewritesMax) {
    return FieldInvalid("matching.rewrites",
                        fmt::format("{} of them, at most {}",
                                    spec.rewrites_size(), kRewritesMax));
  }
  for (int i = 0; i < spec.rewrites_size(); ++i) {
    const std::string field = fmt::format("matching.rewrites[{}]", i);
    const v1::Matching::Rewrite& rewrite = spec.rewrites(i);
    if (rewrite.regex().empty() || rewrite.regex().size() > kOpBytesMax ||
        rewrite.replacement().size() > kOpBytesMax) {
      return FieldInvalid(
          field, fmt::format("regex needs 1 to {0} bytes, replacement at most "
                             "{0}",
                             kOpBytesMax));
    }
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(kRegexBytesMax);
    auto regex = std::make_shared<const re2::RE2>(rewrite.regex(), options);
    if (!regex->ok()) return FieldInvalid(field + ".regex", regex->error());
    std::string error;
    if (!regex->CheckRewriteString(rewrite.replacement(), &error)) {
      return FieldInvalid(field + ".replacement", error);
    }
    rewrites_.push_back({std::move(regex), rewrite.replacement()});
  }
  return absl::OkStatus();
}

absl::Status MatchRules::AddOps(const v1::Matching& spec) {
  if (static_cast<size_t>(spec.ops_size()) > kMappedOpsMax) {
    return FieldInvalid(
        "matching.ops",
        fmt::format("{} of them, at most {}", spec.ops_size(), kMappedOpsMax));
  }
  for (int i = 0; i < spec.ops_size(); ++i) {
    const std::string field = fmt::format("matching.ops[{}]", i);
    const std::string& golden = spec.ops(i).golden_op();
    const std::string& target = spec.ops(i).target_op();
    for (const std::string& op : {golden, target}) {
      if (op.empty() || op.size() > kOpBytesMax) {
        return FieldInvalid(
            field, fmt::format("an op of {} bytes, needs 1 to {}", op.size(),
                               kOpBytesMax));
      }
    }
    if (!target_by_golden_.emplace(golden, target).second) {
      return FieldInvalid(field + ".golden_op",
                          fmt::format("\"{}\" is there twice", golden));
    }
    if (!golden_by_target_.emplace(target, golden).second) {
      return FieldInvalid(field + ".target_op",
                          fmt::format("\"{}\" is there twice", target));
    }
  }
  return absl::OkStatus();
}

absl::Status MatchRules::AddRanks(const v1::Matching& spec) {
  for (int i = 0; i < spec.ranks_size(); ++i) {
    const std::string field = fmt::format("matching.ranks[{}]", i);
    const int32_t golden = spec.ranks(i).golden_rank();
    const int32_t target = spec.ranks(i).target_rank();
    for (const int32_t rank : {golden, target}) {
      if (rank < 0 || rank > kRankMax) {
        return FieldInvalid(field, fmt::format("{} is no rank", rank));
      }
    }
    if (!target_by_golden_rank_.emplace(golden, target).second) {
      return FieldInvalid(field + ".golden_rank",
                          fmt::format("{} is there twice", golden));
    }
    if (!golden_by_target_rank_.emplace(target, golden).second) {
      return FieldInvalid(field + ".target_rank",
                          fmt::format("{} is there twice", target));
    }
  }
  return absl::OkStatus();
}

std::string MatchRules::KeyOfGolden(std::string_view op) const {
  if (target_by_golden_.find(op) != target_by_golden_.end()) {
    return kMappedMark + std::string(op);
  }
  return ignore_case_ ? Lower(op) : std::string(op);
}

std::string MatchRules::KeyOfTarget(std::string_view op) const {
  const auto mapped = golden_by_target_.find(op);
  if (mapped != golden_by_target_.end()) return kMappedMark + mapped->second;
  const std::string rewritten = Rewritten(op);
  return ignore_case_ ? Lower(rewritten) : rewritten;
}

std::optional<std::string> MatchRules::TargetOpOf(std::string_view op) const {
  const auto mapped = target_by_golden_.find(op);
  if (mapped != target_by_golden_.end()) return mapped->second;
  if (!rewrites_.empty() || is_mapped_) return std::nullopt;
  return std::string(op);
}

std::string MatchRules::GoldenOpOf(std::string_view op) const {
  const auto mapped = golden_by_target_.find(op);
  return mapped != golden_by_target_.end() ? mapped->second : Rewritten(op);
}

std::string MatchRules::GoldenOpOf(const TensorKey& target) const {
  if (mapping_ != nullptr) {
    const std::optional<size_t> pair = mapping_->Find(target);
    if (pair.has_value() && !mapping_->pair(*pair).is_alone()) {
      return mapping_->pair(*pair).golden.op;
    }
  }
  return GoldenOpOf(target.op);
}

std::string MatchRules::RewriteText(size_t number) const {
  const Rewrite& rewrite = rewrites_[number];
  return fmt::format("{}=>{}", rewrite.regex->pattern(), rewrite.replacement);
}

void MatchRules::MarkRewrites(std::string_view op,
                              std::vector<bool>& marks) const {
  std::string out(op);
  for (size_t i = 0; i < rewrites_.size(); ++i) {
    const Rewrite& rewrite = rewrites_[i];
    const int count =
        re2::RE2::GlobalReplace(&out, *rewrite.regex, rewrite.replacement);
    marks[i] = marks[i] || count > 0;
    if (out.size() > kOpBytesMax) out.resize(kOpBytesMax);
  }
}

std::string MatchRules::Rewritten(std::string_view op) const {
  std::string out(op);
  for (const Rewrite& rewrite : rewrites_) {
    re2::RE2::GlobalReplace(&out, *rewrite.regex, rewrite.replacement);
    // A replacement of empty matches could multiply the length with each rule.
    if (out.size() > kOpBytesMax) out.resize(kOpBytesMax);
  }
  return out;
}

std::string MatchRules::LooseName(std::string_view op) {
  std::string text = Lower(op);
  for (char& c : text) {
    if (c == '/' || c == ':') c = '.';
  }
  std::string out;
  bool is_in_peft = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view component(text.data() + begin, end - begin);
    begin = end + 1;
    // PEFT wraps a model as `base_model.model`.
    const bool is_held_by_peft = is_in_peft && component == "model";
    is_in_peft = component == "base_model";
    if (component.empty() || is_in_peft || is_held_by_peft ||
        IsWrapper(component)) {
      continue;
    }
    if (!out.empty()) out += '.';
    out += component;
  }
  return out;
}

bool MatchRules::TargetRank(int32_t golden, int32_t& target) const {
  target = golden;
  if (target_by_golden_rank_.empty()) return true;
  const auto found = target_by_golden_rank_.find(golden);
  if (found == target_by_golden_rank_.end()) return false;
  target = found->second;
  return true;
}

bool MatchRules::GoldenRank(int32_t target, int32_t& golden) const {
  golden = target;
  if (golden_by_target_rank_.empty()) return true;
  const auto found = golden_by_target_rank_.find(target);
  if (found == golden_by_target_rank_.end()) return false;
  golden = found->second;
  return true;
}

}  // namespace msitd::compare
