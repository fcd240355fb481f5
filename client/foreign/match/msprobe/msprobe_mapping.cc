// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/msprobe/msprobe_mapping.h"

#include <algorithm>
#include <utility>

#include "client/ask/text/yaml_text.h"
#include "client/foreign/match/limits.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using ask::YamlValue;

template <typename... Args>
absl::Status Refused(const YamlValue& value, fmt::format_string<Args...> format,
                     Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "line {}: {}",
                    value.line,
                    fmt::format(format, std::forward<Args>(args)...));
}

// An empty file is an empty map.
absl::StatusOr<YamlValue> ReadMap(std::string_view yaml) {
  MSITD_ASSIGN_OR_RETURN(YamlValue value, ask::ReadYaml(yaml));
  if (value.kind != YamlValue::Kind::kMap &&
      value.kind != YamlValue::Kind::kNull) {
    return Refused(value, "is not TARGET: GOLDEN");
  }
  return value;
}

absl::Status CheckText(const YamlValue& value, std::string_view key) {
  if (value.kind == YamlValue::Kind::kScalar && !value.text.empty() &&
      !key.empty()) {
    return absl::OkStatus();
  }
  return Refused(value, "\"{}\" is not mapped to a name", key);
}

absl::Status CheckCount(const YamlValue& value, size_t max) {
  if (value.items.size() <= max) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "has {} entries, more than {}", value.items.size(), max);
}

absl::StatusOr<names::MsprobeKey> ParseLeaf(const YamlValue& value,
                                            const std::string& name) {
  auto key = names::KeyOfMsprobeLeaf(name);
  if (key.has_value() && key->op.size() <= kOpBytesMax &&
      key->index.size() <= kIndexBytesMax) {
    return *std::move(key);
  }
  return Refused(value, "\"{}\" is not a name of a tensor of msprobe", name);
}

absl::Status ReadName(const YamlValue& api, std::string_view key,
                      std::string& out) {
  const YamlValue* const value = api.Find(key);
  if (value == nullptr) return Refused(api, "there is no {}", key);
  MSITD_RETURN_IF_ERROR(CheckText(*value, key));
  out = value->text;
  return absl::OkStatus();
}

absl::Status ReadArguments(const YamlValue& api, const std::string& what,
                           MsprobeMapping::Arguments& out) {
  const YamlValue* const target = api.Find("ms_" + what);
  const YamlValue* const golden = api.Find("pt_" + what);
  if (target == nullptr && golden == nullptr) return absl::OkStatus();
  if (target == nullptr || golden == nullptr ||
      target->items.size() != golden->items.size()) {
    return Refused(api, "ms_{} and pt_{} have different lengths", what, what);
  }
  out.is_given = true;
  for (const YamlValue* const list : {target, golden}) {
    if (list->kind == YamlValue::Kind::kMap ||
        list->kind == YamlValue::Kind::kScalar) {
      return Refused(*list, "{} is not a list", what);
    }
    for (const YamlValue& item : list->items) {
      if (item.kind != YamlValue::Kind::kScalar) {
        return Refused(item, "an argument of {} is not a number or name", what);
      }
    }
  }
  for (size_t i = 0; i < target->items.size(); ++i) {
    out.pairs.emplace_back(target->items[i].text, golden->items[i].text);
  }
  std::vector<std::string_view> targets;
  for (const auto& pair : out.pairs) targets.push_back(pair.first);
  std::sort(targets.begin(), targets.end());
  const auto twice = std::adjacent_find(targets.begin(), targets.end());
  if (twice == targets.end()) return absl::OkStatus();
  return Refused(*target, "{} is in ms_{} twice", *twice, what);
}

absl::Status ReadApi(const YamlValue& api, MsprobeMapping& out) {
  if (api.kind != YamlValue::Kind::kMap) {
    return Refused(api, "is not an entry with ms_api and pt_api");
  }
  constexpr std::string_view kKeys[] = {"ms_api",
                                        "pt_api",
                                        "ms_args",
                                        "pt_args",
                                        "ms_outputs",
                                        "pt_outputs",
                                        "ms_parameters",
                                        "pt_parameters",
                                        "ms_parameters_grad",
                                        "pt_parameters_grad"};
  for (const std::string& key : api.keys) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      return Refused(api, "\"{}\" is unknown", key);
    }
  }
  MsprobeMapping::Apis made;
  MSITD_RETURN_IF_ERROR(ReadName(api, "ms_api", made.target));
  MSITD_RETURN_IF_ERROR(ReadName(api, "pt_api", made.golden));
  const bool is_twice = std::any_of(
      out.apis.begin(), out.apis.end(),
      [&made](const auto& other) { return other.target == made.target; });
  if (is_twice) return Refused(api, "\"{}\" appears twice", made.target);
  MSITD_RETURN_IF_ERROR(ReadArguments(api, "args", made.inputs));
  MSITD_RETURN_IF_ERROR(ReadArguments(api, "outputs", made.outputs));
  MSITD_RETURN_IF_ERROR(ReadArguments(api, "parameters", made.parameters));
  MSITD_RETURN_IF_ERROR(ReadArguments(api, "parameters_grad", made.gradients));
  out.apis.push_back(std::move(made));
  return absl::OkStatus();
}

// Reads the arguments of one API that are ignored.
absl::Status ReadIgnored(const std::string& op, const YamlValue& api,
                         MsprobeMapping& out) {
  if (api.kind != YamlValue::Kind::kMap) {
    return Refused(api, "{} has neither input nor output", op);
  }
  for (size_t i = 0; i < api.keys.size(); ++i) {
    const bool is_input = api.keys[i] == "input";
    const YamlValue& list = api.items[i];
    if ((!is_input && api.keys[i] != "output") ||
        list.kind != YamlValue::Kind::kList) {
      return Refused(list, "{}: \"{}\" is not a list of input or output", op,
                     api.keys[i]);
    }
    for (const YamlValue& index : list.items) {
      if (index.text.empty()) return Refused(index, "{} has no position", op);
      out.ignored.push_back(
          {op, is_input ? Io::kInput : Io::kOutput, index.text});
    }
  }
  return absl::OkStatus();
}

size_t PartCount(std::string_view path) {
  return static_cast<size_t>(std::count(path.begin(), path.end(), '.'));
}

}  // namespace

absl::Status ReadDataMapping(std::string_view yaml, MsprobeMapping& out) {
  MSITD_ASSIGN_OR_RETURN(const YamlValue map, ReadMap(yaml));
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const YamlValue& value = map.items[i];
    MSITD_RETURN_IF_ERROR(CheckText(value, map.keys[i]));
    MsprobeMapping::Leaves leaves;
    MSITD_ASSIGN_OR_RETURN(leaves.target, ParseLeaf(value, map.keys[i]));
    MSITD_ASSIGN_OR_RETURN(leaves.golden, ParseLeaf(value, value.text));
    out.data.push_back(std::move(leaves));
  }
  return absl::OkStatus();
}

absl::Status ReadCellMapping(std::string_view yaml, MsprobeMapping& out) {
  MSITD_ASSIGN_OR_RETURN(const YamlValue map, ReadMap(yaml));
  MSITD_RETURN_IF_ERROR(CheckCount(map, kCellLinesMax));
  for (size_t i = 0; i < map.keys.size(); ++i) {
    MSITD_RETURN_IF_ERROR(CheckText(map.items[i], map.keys[i]));
    out.cells.push_back({map.keys[i], map.items[i].text});
  }
  return absl::OkStatus();
}

absl::Status ReadApiMapping(std::string_view yaml, MsprobeMapping& out) {
  MSITD_ASSIGN_OR_RETURN(const YamlValue value, ask::ReadYaml(yaml));
  if (value.kind == YamlValue::Kind::kNull) return absl::OkStatus();
  if (value.kind != YamlValue::Kind::kList) return ReadApi(value, out);
  MSITD_RETURN_IF_ERROR(CheckCount(value, kApiEntriesMax));
  for (const YamlValue& api : value.items) {
    MSITD_RETURN_IF_ERROR(ReadApi(api, out));
  }
  return absl::OkStatus();
}

absl::Status ReadIgnoreTable(std::string_view yaml, MsprobeMapping& out) {
  MSITD_ASSIGN_OR_RETURN(const YamlValue map, ReadMap(yaml));
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const YamlValue& apis = map.items[i];
    if (apis.kind != YamlValue::Kind::kMap) {
      return Refused(apis, "\"{}\" has no APIs", map.keys[i]);
    }
    for (size_t j = 0; j < apis.keys.size(); ++j) {
      MSITD_RETURN_IF_ERROR(
          ReadIgnored(map.keys[i] + "." + apis.keys[j], apis.items[j], out));
    }
  }
  if (out.ignored.size() <= kIgnoredMax) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "has {} arguments, more than {}", out.ignored.size(),
                    kIgnoredMax);
}

absl::Status ReadLayerMapping(std::string_view yaml, MsprobeMapping& out) {
  MSITD_ASSIGN_OR_RETURN(const YamlValue map, ReadMap(yaml));
  out.has_layers = true;
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const YamlValue& layers = map.items[i];
    if (layers.kind != YamlValue::Kind::kMap) {
      return Refused(layers, "\"{}\" has no layers", map.keys[i]);
    }
    const size_t first = out.layers.size();
    for (size_t j = 0; j < layers.keys.size(); ++j) {
      MSITD_RETURN_IF_ERROR(CheckText(layers.items[j], layers.keys[j]));
      const std::string& golden = layers.items[j].text;
      // Earlier releases use this name for the top, and write the class after a
      // layer.
      out.layers.push_back(
          {map.keys[i] == "Cell" ? std::string(kMsprobeTopLayer) : map.keys[i],
           layers.keys[j], golden.substr(0, golden.find('('))});
    }
    std::stable_sort(out.layers.begin() + static_cast<std::ptrdiff_t>(first),
                     out.layers.end(), [](const auto& a, const auto& b) {
                       return PartCount(a.target) > PartCount(b.target);
                     });
  }
  return absl::OkStatus();
}

}  // namespace msitd::match
