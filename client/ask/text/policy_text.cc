// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/policy_text.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>

#include "client/ask/text/trim.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

// Removes tolerances such as `rtol=1e-3` from the beginning of `text`.
absl::Status TakeTolerances(std::string_view& text, v1::Policy::Rule& rule) {
  while (text.starts_with("rtol=") || text.starts_with("atol=")) {
    const bool is_rtol = text.front() == 'r';
    const size_t end = std::min(text.find_first_of(kBlanks), text.size());
    const std::string_view number = text.substr(5, end - 5);
    double value = 0;
    const auto [stop, error] =
        std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || stop != number.data() + number.size()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "\"{}\" is not a number", number);
    }
    is_rtol ? rule.set_rtol(value) : rule.set_atol(value);
    text = Trim(text.substr(end));
  }
  return absl::OkStatus();
}

template <typename Message>
absl::StatusOr<Message> FromJson(std::string_view text, std::string_view what) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &message);
  if (status.ok()) return message;
  return MakeStatus(
      absl::StatusCode::kInvalidArgument, "is not valid JSON for {}: {}", what,
      std::string_view(status.message().data(), status.message().size()));
}

absl::StatusOr<v1::Policy> ParseLines(std::string_view text,
                                      std::vector<int>& lines) {
  v1::Policy policy;
  int line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trim(text.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    auto rule = ParseRule(line);
    if (!rule.ok()) {
      return Annotate(rule.status(), fmt::format("line {}", line_number));
    }
    *policy.add_rules() = *std::move(rule);
    lines.push_back(line_number);
  }
  return policy;
}

std::string RuleLine(const v1::Policy::Rule& rule) {
  std::string out =
      "rule " + (rule.op_regex().empty() ? rule.op_pattern()
                                         : "/" + rule.op_regex() + "/");
  out += ':';
  if (rule.preset() != v1::Policy::PRESET_UNSPECIFIED) {
    return out + " @" + WordOf(v1::Policy::Preset_Name(rule.preset()));
  }
  if (rule.has_rtol()) out += fmt::format(" rtol={}", rule.rtol());
  if (rule.has_atol()) out += fmt::format(" atol={}", rule.atol());
  if (!rule.predicate().empty()) out += " " + rule.predicate();
  return out;
}

struct FileCloser {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

}  // namespace

absl::StatusOr<v1::CapturePolicy> ParseCaptureRules(std::string_view text) {
  const std::string_view json = Trim(text);
  v1::CapturePolicy out;
  MSITD_ASSIGN_OR_RETURN(
      out, json.starts_with('[')
               ? FromJson<v1::CapturePolicy>(
                     fmt::format("{{\"rules\":{}}}", json), "capture rules")
               : FromJson<v1::CapturePolicy>(json, "a capture policy"));
  if (out.rules().empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument, "has no rules");
  }
  out.clear_revision();
  out.clear_first_token();
  return out;
}

std::string WordOf(std::string_view enum_value) {
  std::string out(enum_value);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_') c = '-';
  }
  return out;
}

absl::StatusOr<v1::Policy::Preset> ParsePreset(std::string_view name) {
  std::string all;
  for (int i = 1; i < v1::Policy::Preset_ARRAYSIZE; ++i) {
    const auto preset = static_cast<v1::Policy::Preset>(i);
    const std::string word = WordOf(v1::Policy::Preset_Name(preset));
    if (word == name) return preset;
    all += (all.empty() ? "" : ", ") + word;
  }
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "\"{}\" is not a preset; the presets are {}", name, all);
}

absl::StatusOr<v1::Policy::Rule> ParseRule(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view pattern;
  std::string_view tolerance;
  if (colon != std::string_view::npos) {
    pattern = Trim(text.substr(0, colon));
    tolerance = Trim(text.substr(colon + 1));
  }
  if (pattern.empty() || tolerance.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not PATTERN: TOLERANCE", text);
  }
  v1::Policy::Rule rule;
  if (pattern.size() > 2 && pattern.front() == '/' && pattern.back() == '/') {
    rule.set_op_regex(std::string(pattern.substr(1, pattern.size() - 2)));
  } else {
    rule.set_op_pattern(std::string(pattern));
  }
  if (tolerance.front() == '@') {
    MSITD_ASSIGN_OR_RETURN(const v1::Policy::Preset preset,
                           ParsePreset(tolerance.substr(1)));
    rule.set_preset(preset);
    return rule;
  }
  MSITD_RETURN_IF_ERROR(TakeTolerances(tolerance, rule));
  rule.set_predicate(std::string(tolerance));
  return rule;
}

absl::StatusOr<v1::Policy> ParsePolicy(std::string_view text,
                                       std::vector<int>* lines) {
  std::vector<int> ignored;
  std::vector<int>& out = lines == nullptr ? ignored : *lines;
  const std::string_view trimmed = Trim(text);
  if (!trimmed.starts_with('{')) return ParseLines(text, out);
  auto policy = FromJson<v1::Policy>(trimmed, "a policy");
  if (policy.ok()) out.assign(static_cast<size_t>(policy->rules_size()), 0);
  return policy;
}

std::vector<std::string> PolicyLines(const v1::Policy& policy) {
  std::vector<std::string> out;
  for (const v1::Policy::Rule& rule : policy.rules()) {
    out.push_back(RuleLine(rule));
  }
  out.push_back(policy.preset() == v1::Policy::PRESET_UNSPECIFIED
                    ? std::string("default tolerances")
                    : "preset " +
                          WordOf(v1::Policy::Preset_Name(policy.preset())));
  if (policy.shape_rule() != v1::Policy::SHAPE_RULE_UNSPECIFIED) {
    out.push_back("shapes " +
                  WordOf(v1::Policy::ShapeRule_Name(policy.shape_rule())));
  }
  for (const int set : policy.metric_sets()) {
    // `MSIT_METRICS` is `msit`.
    std::string_view name =
        v1::Policy::MetricSet_Name(static_cast<v1::Policy::MetricSet>(set));
    out.push_back("metrics " + WordOf(name.substr(0, name.find("_METRICS"))));
  }
  for (const std::string& pattern : policy.allow_unmatched()) {
    out.push_back("allow-unmatched " + pattern);
  }
  return out;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t bytes_max) {
  const std::unique_ptr<std::FILE, FileCloser> file(
      path == "-" ? stdin : std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return ErrnoStatus(errno, "read " + path);
  std::string text;
  char buffer[4096];
  while (const size_t size =
             std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, size);
    if (text.size() > bytes_max) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{} has more than {} bytes", path, bytes_max);
    }
  }
  if (std::ferror(file.get()) != 0) return ErrnoStatus(errno, "read " + path);
  return text;
}

absl::StatusOr<v1::Policy> ReadPolicyFile(const std::string& path,
                                          std::vector<int>* lines) {
  MSITD_ASSIGN_OR_RETURN(const std::string text,
                         ReadTextFile(path, kPolicyBytesMax));
  auto policy = ParsePolicy(text, lines);
  return policy.ok() ? policy : Annotate(policy.status(), path);
}

}  // namespace msitd::ask
