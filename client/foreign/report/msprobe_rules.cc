// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_rules.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "client/ask/text/yaml_text.h"
#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::report {
namespace {

template <typename... Args>
absl::Status Refused(const ask::YamlValue& value,
                     fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "line {}: {}",
                    value.line,
                    fmt::format(format, std::forward<Args>(args)...));
}

// Maps the keys of a file to the fields that store their values.
class Places {
 public:
  explicit Places(MsprobeRules& rules) {
    MsprobeRules::Result& result = rules.result;
    numbers_ = {
        {"result.norm_jump.input_below", &result.jump_input_below},
        {"result.norm_jump.output_above", &result.jump_output_above},
        {"result.norm_growth.factor_above", &result.growth_factor_above},
        {"result.norm_growth.output_above", &result.growth_output_above},
        {"result.ratio_drop.input_above", &result.ratio_input_above},
        {"result.ratio_drop.output_below", &result.ratio_output_below},
        {"result.cosine_drop.input_above", &result.cosine_input_above},
        {"result.cosine_drop.fall_above", &result.cosine_fall_above},
        {"accuracy.cosine.below", &rules.accuracy.cosine_below},
        {"accuracy.cosine.always_below", &rules.accuracy.cosine_always_below},
        {"accuracy.max_abs.above", &rules.accuracy.max_abs_above},
        {"accuracy.max_abs.always_above", &rules.accuracy.max_abs_always_above},
        {"accuracy.statistics.relative_above",
         &rules.accuracy.statistics_above}};
    lists_ = {
        {"result.ignored", &result.ignored},
        {"result.inputs_ignored", &result.inputs_ignored},
        {"accuracy.not_deterministic", &rules.accuracy.not_deterministic}};
  }

  // Reads the values below `path`.
  absl::Status Take(const std::string& path, const ask::YamlValue& value) {
    if (const auto at = numbers_.find(path); at != numbers_.end()) {
      return TakeNumber(path, value, *at->second);
    }
    if (const auto at = lists_.find(path); at != lists_.end()) {
      return TakeNames(path, value, *at->second);
    }
    if (value.kind != ask::YamlValue::Kind::kMap || !IsOnTheWay(path)) {
      return Refused(value, "\"{}\" is not a rule", path);
    }
    for (size_t i = 0; i < value.keys.size(); ++i) {
      MSITD_RETURN_IF_ERROR(
          Take(path.empty() ? value.keys[i] : path + "." + value.keys[i],
               value.items[i]));
    }
    return absl::OkStatus();
  }

 private:
  bool IsOnTheWay(const std::string& path) const {
    if (path.empty()) return true;
    const std::string prefix = path + ".";
    const auto leads = [&prefix](const auto& map) {
      const auto at = map.lower_bound(prefix);
      return at != map.end() && at->first.starts_with(prefix);
    };
    return leads(numbers_) || leads(lists_);
  }

  static absl::Status TakeNumber(const std::string& path,
                                 const ask::YamlValue& value, double& out) {
    const char* const end = value.text.data() + value.text.size();
    double number = 0;
    const auto [stop, error] = std::from_chars(value.text.data(), end, number);
    if (value.text.empty() || error != std::errc() || stop != end ||
        !std::isfinite(number)) {
      return Refused(value, "{} is not a number", path);
    }
    out = number;
    return absl::OkStatus();
  }

  static absl::Status TakeNames(const std::string& path,
                                const ask::YamlValue& value,
                                std::vector<std::string>& out) {
    std::vector<std::string> names;
    for (const ask::YamlValue& item : value.items) {
      if (item.text.empty())
        return Refused(item, "{} has an element that is not a name", path);
      names.push_back(item.text);
    }
    if (value.kind != ask::YamlValue::Kind::kList) {
      return Refused(value, "{} is not a list", path);
    }
    out = std::move(names);
    return absl::OkStatus();
  }

  std::map<std::string, double*> numbers_;
  std::map<std::string, std::vector<std::string>*> lists_;
};

}  // namespace

absl::StatusOr<MsprobeRules> ReadMsprobeRules(std::string_view yaml,
                                              MsprobeRules rules) {
  MSITD_ASSIGN_OR_RETURN(const ask::YamlValue value, ask::ReadYaml(yaml));
  if (value.kind != ask::YamlValue::Kind::kNull) {
    MSITD_RETURN_IF_ERROR(Places(rules).Take("", value));
  }
  return rules;
}

const MsprobeRules& DefaultMsprobeRules() {
  static const MsprobeRules* const rules = [] {
    auto read = ReadMsprobeRules(DefaultMsprobeRulesText(), {});
    MSITD_CHECK(read.ok());
    return new MsprobeRules(*std::move(read));
  }();
  return *rules;
}

}  // namespace msitd::report
