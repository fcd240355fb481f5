// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/argument_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "protos/base/record_kind.h"
#include "protos/base/selector.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Values by argument, which is a position or a keyword.
using Arguments = std::map<std::string, std::string>;

// True for devices and process groups, which may differ between machines.
bool IsOfMachine(std::string_view value) {
  static constexpr std::string_view kDevices[] = {"cpu", "cuda", "npu",  "xpu",
                                                  "hpu", "mps",  "meta", "xla"};
  if (value.find("device(") != std::string_view::npos ||
      value.find("ProcessGroup") != std::string_view::npos) {
    return true;
  }
  const std::string_view kind = value.substr(0, value.find(':'));
  return std::find(std::begin(kDevices), std::end(kDevices), kind) !=
         std::end(kDevices);
}

std::optional<double> NumberOf(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

bool AreEqual(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::optional<double> number = NumberOf(a);
  return number.has_value() && number == NumberOf(b);
}

// True if the value may be the default of an argument, so that omitting the
// argument means the same.
bool MayBeDefault(const std::string& value) {
  return value.empty() || value == "False" || NumberOf(value) == 0.0;
}

// Positions are numbers; anything else is a keyword.
bool IsKeyword(const std::string& argument) {
  return argument.find_first_not_of("0123456789.") != std::string::npos;
}

// Returns the beginning of a value for display: at most kArgumentTextMax bytes
// of whole characters, without control characters.
std::string Shown(const std::string& value) {
  std::string out(Utf8Prefix(value, kArgumentTextMax));
  const bool is_cut = out.size() < value.size();
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  if (!IsValidUtf8(out)) return "?";
  return is_cut ? out + "..." : out;
}

// Returns what selects all values that calls received at the rank and token of
// `call`.
Selector ValuesAt(const TensorKey& call) {
  Selector selector;
  selector.ranks = {call.rank};
  selector.tokens = {{call.token, call.token}};
  selector.ios = {Io::kInput};
  for (int number = 0; number < kRecordKindCount; ++number) {
    const auto kind = static_cast<RecordKind>(number);
    if (IsValue(kind)) selector.kinds.push_back(kind);
  }
  return selector;
}

// Returns whether the values of arguments were recorded there.
absl::StatusOr<bool> HasValues(storage::RunReader& run, const TensorKey& call,
                               storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         run.Scan(ValuesAt(call), ""));
  storage::TensorInfo value;
  return scan->Next(value, stop);
}

absl::StatusOr<Arguments> ArgumentsOf(storage::RunReader& run,
                                      const TensorKey& call,
                                      storage::StopCheck stop) {
  Selector selector = ValuesAt(call);
  // A name with a wildcard selects itself and possibly other ops, which are
  // skipped below.
  selector.op_patterns = {call.op};
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         run.Scan(selector, ""));
  Arguments out;
  storage::TensorInfo value;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool more, scan->Next(value, stop));
    if (!more) return out;
    if (value.key.op != call.op || value.key.call != call.call ||
        value.kind == RecordKind::kNone || IsOfMachine(value.value)) {
      continue;
    }
    out[value.key.index] = value.value;
  }
}

}  // namespace

absl::StatusOr<ArgumentDifferences> FindArgumentDifferences(
    storage::RunReader& golden_run, const TensorKey& golden,
    storage::RunReader& target_run, const TensorKey& target,
    storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const Arguments golden_arguments,
                         ArgumentsOf(golden_run, golden, stop));
  MSITD_ASSIGN_OR_RETURN(const Arguments target_arguments,
                         ArgumentsOf(target_run, target, stop));
  ArgumentDifferences out;
  if (golden_arguments.empty() != target_arguments.empty()) {
    const bool is_golden = golden_arguments.empty();
    MSITD_ASSIGN_OR_RETURN(const bool has_values,
                           HasValues(is_golden ? golden_run : target_run,
                                     is_golden ? golden : target, stop));
    if (!has_values) return out;
  }
  std::vector<std::string> texts;
  bool only_golden = false;
  bool only_target = false;
  bool are_named = true;
  const auto take_alone = [&](const std::string& name, const std::string& value,
                              bool& only) {
    only = true;
    are_named = are_named && IsKeyword(name) && !MayBeDefault(value);
  };
  for (const auto& [name, value] : golden_arguments) {
    const auto there = target_arguments.find(name);
    if (there == target_arguments.end()) {
      take_alone(name, value, only_golden);
      texts.push_back(fmt::format("{}: golden {}, not given by the target",
                                  Shown(name), Shown(value)));
    } else if (!AreEqual(there->second, value)) {
      out.is_certain = true;
      const auto golden_number = NumberOf(value);
      const auto target_number = NumberOf(there->second);
      if (golden_number.has_value() && target_number.has_value() &&
          texts.size() < kArgumentsNamedMax) {
        out.numbers.push_back({*golden_number, *target_number});
      }
      texts.push_back(fmt::format("{}: target {}, golden {}", Shown(name),
                                  Shown(there->second), Shown(value)));
    }
  }
  for (const auto& [name, value] : target_arguments) {
    if (golden_arguments.contains(name)) continue;
    take_alone(name, value, only_target);
    texts.push_back(fmt::format("{}: target {}, not given by golden",
                                Shown(name), Shown(value)));
  }
  // If each run has arguments that the other lacks, one may pass by position
  // what the other passes by keyword.
  if (only_golden != only_target && are_named) out.is_certain = true;
  const size_t count = texts.size();
  if (count == 0) return out;
  if (count > kArgumentsNamedMax) {
    texts.resize(kArgumentsNamedMax);
    texts.emplace_back("...");
  }
  out.text = fmt::format("other argument{}: {}", count == 1 ? "" : "s",
                         fmt::join(texts, ", "));
  return out;
}

}  // namespace msitd::compare
