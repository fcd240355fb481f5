// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/engine/engine_table.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "client/ask/text/yaml_text.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using ask::YamlValue;

absl::Status BadTable(const YamlValue& value, std::string_view why) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "line {}: {}",
                    value.line, why);
}

const std::map<std::string_view, EngineShards>& ShardWords() {
  static const auto* const words = new std::map<std::string_view, EngineShards>{
      {"columns", EngineShards::kColumns},
      {"rows", EngineShards::kRows},
      {"rows and sum", EngineShards::kRowsAndSum},
      {"parts", EngineShards::kParts},
      {"vocabulary", EngineShards::kVocabulary},
      {"sum", EngineShards::kSum}};
  return *words;
}

absl::StatusOr<std::pair<Io, std::string>> ReadPlace(const YamlValue& value,
                                                     std::string_view text) {
  const size_t slash = text.find('/');
  const auto io = ParseIo(text.substr(0, slash));
  if (slash == std::string_view::npos || !io.has_value()) {
    return BadTable(value, "a tensor is IO/INDEX");
  }
  return std::pair(*io, std::string(text.substr(slash + 1)));
}

std::vector<int64_t> ReadSizes(std::string_view text) {
  std::vector<int64_t> out;
  while (!text.empty()) {
    int64_t number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number <= 0) return {};
    out.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text.front() == ':') text.remove_prefix(1);
  }
  return out;
}

std::optional<int> ReadNumber(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

absl::Status ReadTensorKey(std::string_view key, const YamlValue& value,
                           EngineTensorRule& out) {
  if (key == "is") {
    MSITD_ASSIGN_OR_RETURN(const auto place, ReadPlace(value, value.text));
    out.as_io = place.first;
    out.as_index = place.second;
  } else if (key == "of") {
    out.module = value.text;
  } else if (key == "also") {
    out.also = value.text;
  } else if (key == "plus") {
    for (const YamlValue& item : value.items) {
      MSITD_ASSIGN_OR_RETURN(auto place, ReadPlace(item, item.text));
      out.plus.push_back(std::move(place));
    }
  } else if (key == "needs_plus") {
    out.needs_plus = value.text == "true";
  } else if (key == "unless") {
    MSITD_ASSIGN_OR_RETURN(out.unless, ReadPlace(value, value.text));
  } else if (key == "unless_version") {
    out.unless_version = value.text;
  } else if (key == "split") {
    out.split = ReadSizes(value.text);
    if (out.split.empty()) return BadTable(value, "split is A:B:...");
  } else if (key == "part") {
    const auto part = ReadNumber(value.text);
    if (!part.has_value() || *part < 0) {
      return BadTable(value, "part is a number");
    }
    out.part = static_cast<size_t>(*part);
  } else if (key == "ends_layer") {
    out.ends_layer = value.text == "true";
  } else if (key == "gone") {
    out.gone = value.text;
  } else {
    return BadTable(value, "unknown key of a tensor");
  }
  return absl::OkStatus();
}

absl::StatusOr<EngineTensorRule> ReadTensor(std::string_view name,
                                            const YamlValue& value) {
  EngineTensorRule out;
  MSITD_ASSIGN_OR_RETURN(const auto place, ReadPlace(value, name));
  out.io = place.first;
  out.index = place.second;
  for (size_t i = 0; i < value.keys.size(); ++i) {
    MSITD_RETURN_IF_ERROR(ReadTensorKey(value.keys[i], value.items[i], out));
  }
  if (out.as_io == Io::kUnspecified && out.gone.empty()) {
    return BadTable(value, "a tensor needs `is` or `gone`");
  }
  if (out.part > 0 && out.part >= out.split.size()) {
    return BadTable(value, "split has no such part");
  }
  return out;
}

absl::Status ReadExperts(const YamlValue& value, EngineModuleRule& out) {
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const std::string& what = value.items[i].text;
    if (what != "gate_up" && what != "down") {
      return BadTable(value, "experts are gate_up or down");
    }
    out.experts.push_back({value.keys[i], what == "gate_up"});
  }
  return absl::OkStatus();
}

absl::Status ReadCuts(const YamlValue& value, std::vector<EngineCut>& out) {
  for (size_t i = 0; i < value.keys.size(); ++i) {
    MSITD_ASSIGN_OR_RETURN(const auto place, ReadPlace(value, value.keys[i]));
    std::vector<int> numbers;
    for (const YamlValue& item : value.items[i].items) {
      const auto number = ReadNumber(item.text);
      if (!number.has_value()) return BadTable(item, "cuts have numbers");
      numbers.push_back(*number);
    }
    if (numbers.empty()) return BadTable(value, "a cut has a dimension");
    out.push_back({.io = place.first,
                   .index = place.second,
                   .dim = numbers.front(),
                   .sections = {numbers.begin() + 1, numbers.end()}});
  }
  return absl::OkStatus();
}

absl::Status ReadRuleKey(std::string_view key, const YamlValue& value,
                         EngineModuleRule& out) {
  const std::map<std::string_view, std::string*> texts = {
      {"module", &out.module},
      {"class", &out.module_class},
      {"versions", &out.versions},
      {"groups", &out.groups},
      {"owner", &out.owner},
      {"gone", &out.gone},
      {"activations", &out.activations}};
  const auto text = texts.find(key);
  if (text != texts.end()) {
    *text->second = value.text;
    return absl::OkStatus();
  }
  if (key == "tensors") {
    for (size_t i = 0; i < value.keys.size(); ++i) {
      MSITD_ASSIGN_OR_RETURN(EngineTensorRule tensor,
                             ReadTensor(value.keys[i], value.items[i]));
      out.tensors.push_back(std::move(tensor));
    }
  } else if (key == "parts") {
    for (size_t i = 0; i < value.keys.size(); ++i) {
      out.parts.push_back({value.keys[i], value.items[i].text});
    }
  } else if (key == "experts") {
    return ReadExperts(value, out);
  } else if (key == "cuts" || key == "head_cuts") {
    return ReadCuts(value, key == "cuts" ? out.cuts : out.head_cuts);
  } else if (key == "axes") {
    out.is_batch_first = value.text == "batch_first";
  } else if (key == "shards") {
    const auto found = ShardWords().find(value.text);
    if (found == ShardWords().end()) return BadTable(value, "unknown shards");
    out.shards = found->second;
  } else if (key == "vocabulary") {
    out.has_vocabulary = value.text == "true";
  } else if (key == "logits") {
    out.has_logits = value.text == "true";
  } else {
    return BadTable(value, "unknown key of a rule");
  }
  return absl::OkStatus();
}

absl::Status ReadTableKey(std::string_view key, const YamlValue& value,
                          EngineTable& out) {
  if (key == "engine") {
    out.engine = value.text;
  } else if (key == "package") {
    out.package = value.text;
  } else if (key == "checked") {
    out.checked = value.text;
  } else if (key == "sequence_first") {
    out.is_sequence_first = value.text == "true";
  } else if (key == "placed") {
    out.is_placed = value.text == "true";
  } else if (key == "names") {
    for (const YamlValue& pair : value.items) {
      if (pair.items.size() != 2) return BadTable(pair, "names are pairs");
      out.names.emplace_back(pair.items[0].text, pair.items[1].text);
    }
  } else if (key == "arguments") {
    for (const YamlValue& item : value.items) {
      out.arguments.push_back(item.text);
    }
  } else if (key == "lacks") {
    for (size_t i = 0; i < value.keys.size(); ++i) {
      out.lacks.emplace_back(value.keys[i], value.items[i].text);
    }
  } else if (key == "rules") {
    for (const YamlValue& rule : value.items) {
      EngineModuleRule& added = out.rules.emplace_back();
      for (size_t i = 0; i < rule.keys.size(); ++i) {
        MSITD_RETURN_IF_ERROR(ReadRuleKey(rule.keys[i], rule.items[i], added));
      }
    }
  } else {
    return BadTable(value, "unknown key of a table");
  }
  return absl::OkStatus();
}

// Returns the numbers at the beginning of a version.
std::vector<int64_t> NumbersOfVersion(std::string_view version) {
  std::vector<int64_t> out;
  while (!version.empty()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(
        version.data(), version.data() + version.size(), number);
    if (error != std::errc()) break;
    out.push_back(number);
    version.remove_prefix(static_cast<size_t>(end - version.data()));
    if (version.empty() || version.front() != '.') break;
    version.remove_prefix(1);
  }
  while (!out.empty() && out.back() == 0) out.pop_back();
  return out;
}

// Replaces whole components of a path.
std::string WithComponents(const std::string& path, std::string_view from,
                           std::string_view to) {
  std::string out;
  size_t begin = 0;
  while (true) {
    size_t at = path.find(from, begin);
    const auto is_whole = [&](size_t place) {
      const size_t end = place + from.size();
      return (place == 0 || path[place - 1] == '.') &&
             (end == path.size() || path[end] == '.');
    };
    while (at != std::string::npos && !is_whole(at)) {
      at = path.find(from, at + 1);
    }
    if (at == std::string::npos) return out + path.substr(begin);
    out += path.substr(begin, at - begin);
    out += to;
    begin = at + from.size();
  }
}

}  // namespace

absl::StatusOr<EngineTable> ParseEngineTable(std::string_view yaml) {
  MSITD_ASSIGN_OR_RETURN(const YamlValue map, ask::ReadYaml(yaml));
  if (map.kind != YamlValue::Kind::kMap) return BadTable(map, "needs keys");
  EngineTable out;
  for (size_t i = 0; i < map.keys.size(); ++i) {
    MSITD_RETURN_IF_ERROR(ReadTableKey(map.keys[i], map.items[i], out));
  }
  if (out.engine.empty() || out.package.empty()) {
    return BadTable(map, "needs engine and package");
  }
  return out;
}

const std::vector<EngineTable>& EngineTables() {
  static const auto* const tables = [] {
    auto* const out = new std::vector<EngineTable>();
    for (const std::string_view text : EngineTableTexts()) {
      auto table = ParseEngineTable(text);
      if (table.ok()) out->push_back(*std::move(table));
    }
    return out;
  }();
  return *tables;
}

const EngineTable* FindEngineTable(std::string_view engine) {
  for (const EngineTable& table : EngineTables()) {
    if (table.engine == engine) return &table;
  }
  return nullptr;
}

bool IsInVersions(std::string_view version, std::string_view range) {
  if (range.empty()) return true;
  const bool is_below = range.starts_with('<');
  range.remove_prefix(is_below ? 1 : 2);
  const std::vector<int64_t> numbers = NumbersOfVersion(version);
  if (version.empty() || numbers.empty()) return !is_below;
  return is_below == (numbers < NumbersOfVersion(range));
}

bool FitsPattern(std::string_view text, std::string_view pattern) {
  // `star` is the last `*`, after which matching continues at `next`.
  size_t at = 0;
  size_t in = 0;
  size_t star = std::string_view::npos;
  size_t next = 0;
  while (at < text.size() || in < pattern.size()) {
    if (in < pattern.size() && pattern[in] == '*') {
      star = in++;
      next = at + 1;
      continue;
    }
    if (in < pattern.size() && pattern[in] == '?' && at < text.size() &&
        text[at] != '.') {
      // A whole component, so that numbers of any length fit.
      while (at < text.size() && text[at] != '.') ++at;
      ++in;
      continue;
    }
    if (in < pattern.size() && at < text.size() && pattern[in] == text[at]) {
      ++in;
      ++at;
      continue;
    }
    if (star == std::string_view::npos || next > text.size()) return false;
    at = next++;
    in = star + 1;
  }
  return true;
}

std::string ToCommonPath(const EngineTable& table, std::string_view path) {
  std::string out(path);
  for (const auto& [from, to] : table.names) {
    out = WithComponents(out, from, to);
  }
  return out;
}

const EngineModuleRule* FindModuleRule(const EngineTable& table,
                                       std::string_view path,
                                       std::string_view module_class,
                                       std::string_view version) {
  for (const EngineModuleRule& rule : table.rules) {
    if (!FitsPattern(path, rule.module)) continue;
    if (!rule.module_class.empty() &&
        !FitsPattern(module_class, rule.module_class)) {
      continue;
    }
    if (IsInVersions(version, rule.versions)) return &rule;
  }
  return nullptr;
}

}  // namespace msitd::match
