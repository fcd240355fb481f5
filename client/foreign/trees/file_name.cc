// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/file_name.h"

#include <algorithm>
#include <utility>

#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/digits.h"
#include "protos/base/limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

using Parts = std::vector<std::string_view>;

constexpr std::string_view kMinMaxNpz = "_min_max.npz";
constexpr std::string_view kMinMaxNpy = "_min_max.npy";
constexpr std::string_view kCsv = ".csv";
constexpr std::string_view kNpy = ".npy";

// Shorter numbers after a time are not times.
constexpr size_t kTimeDigitsMin = 13;

// Nesting depth of lists.
constexpr size_t kFxIndexPartsMax = 8;

bool CutSuffix(std::string_view suffix, std::string_view* text) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

Parts SplitParts(std::string_view text) {
  Parts parts;
  for (;;) {
    const size_t dot = text.find('.');
    parts.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    text.remove_prefix(dot + 1);
  }
}

// Removes the suffix `.output.0.npy`.
bool CutArray(std::string_view* text, GeFileName* out) {
  std::string_view rest = *text;
  if (!CutSuffix(kNpy, &rest)) return false;
  const size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos || !IsDigits(rest.substr(dot + 1))) {
    return false;
  }
  out->index = rest.substr(dot + 1);
  rest = rest.substr(0, dot);
  if (CutSuffix(".input", &rest)) {
    out->io = Io::kInput;
  } else if (CutSuffix(".output", &rest)) {
    out->io = Io::kOutput;
  } else {
    return false;
  }
  *text = rest;
  return true;
}

void CutForm(std::string_view* text, GeFileName* out) {
  if (CutSuffix(kCsv, text)) {
    out->form = GeForm::kStatistics;
  } else if (CutSuffix(kMinMaxNpz, text)) {
    out->form = GeForm::kMinMax;
  } else if (CutArray(text, out)) {
    out->form = GeForm::kArray;
  }
}

bool IsLongNumber(const Parts& parts, size_t from_end) {
  if (parts.size() < from_end) return false;
  const std::string_view part = parts[parts.size() - from_end];
  return part.size() >= kTimeDigitsMin && IsDigits(part);
}

// Returns how many numbers follow the time.
size_t SliceParts(const Parts& parts) {
  if (IsLongNumber(parts, 1)) return 0;
  for (const size_t count : {4, 3}) {
    if (IsLongNumber(parts, count + 1)) return count;
  }
  return 0;
}

absl::Status ParseLongName(std::string_view line, LongNames* names) {
  const size_t comma = line.find(',');
  if (comma == std::string_view::npos || !IsDigits(line.substr(0, comma))) {
    return absl::InvalidArgumentError("it is not a number with a name");
  }
  const std::string_view name = line.substr(comma + 1);
  if (name.empty() || name.size() > kLongNameBytesMax || !IsValidUtf8(name) ||
      name.find('/') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("its name is not valid for a file");
  }
  const auto [known, is_new] =
      names->try_emplace(std::string(line.substr(0, comma)), name);
  if (is_new || known->second == name) return absl::OkStatus();
  return absl::InvalidArgumentError("its number already has another name");
}

}  // namespace

std::optional<GeFileName> ParseGeFileName(std::string_view name) {
  GeFileName out;
  CutForm(&name, &out);
  const Parts parts = SplitParts(name);
  const size_t slice_parts = SliceParts(parts);
  if (parts.size() < 4 + slice_parts || parts[0].empty()) return std::nullopt;
  const size_t time_at = parts.size() - 1 - slice_parts;
  std::vector<int64_t> numbers;
  for (size_t at = time_at - 1; at < parts.size(); ++at) {
    const auto number = ParseNumber(parts[at]);
    if (!number.has_value()) return std::nullopt;
    numbers.push_back(*number);
  }
  out.op_type = parts[0];
  out.task = numbers[0];
  out.time = numbers[1];
  out.slice.assign(numbers.begin() + 2, numbers.end());
  size_t name_end = time_at - 1;
  // After a type and a name, there is room for two numbers before the time.
  if (time_at >= 4) {
    if (const auto task = ParseNumber(parts[time_at - 2])) {
      out.stream = std::exchange(out.task, *task);
      name_end = time_at - 2;
    }
  }
  const char* const begin = parts[1].data();
  const std::string_view last = parts[name_end - 1];
  out.op_name.assign(begin, last.data() + last.size());
  if (out.op_name.empty()) return std::nullopt;
  return out;
}

bool IsSurelyGeFileName(std::string_view name) {
  if (!ParseGeFileName(name).has_value()) return false;
  GeFileName ignored;
  CutForm(&name, &ignored);
  const Parts parts = SplitParts(name);
  return IsLongNumber(parts, SliceParts(parts) + 1);
}

std::optional<LongNameNumber> ParseLongNameNumber(std::string_view name) {
  const size_t end =
      std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view suffix = name.substr(end);
  if (end == 0 || end > kLongNameDigitsMax) return std::nullopt;
  if (!suffix.empty() && suffix != kCsv && suffix != kMinMaxNpz) {
    return std::nullopt;
  }
  return LongNameNumber{std::string(name.substr(0, end)), std::string(suffix)};
}

LongNames ParseLongNames(std::string_view text,
                         std::vector<absl::Status>* problems) {
  LongNames names;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    CutSuffix("\r", &line);
    if (line.empty()) continue;
    if (names.size() == kLongNamesMax || problems->size() == kLongNamesMax) {
      problems->push_back(MakeStatus(absl::StatusCode::kResourceExhausted,
                                     "line {}: more than {} names", number,
                                     kLongNamesMax));
      break;
    }
    const absl::Status parsed = ParseLongName(line, &names);
    if (parsed.ok()) continue;
    problems->push_back(Annotate(parsed, fmt::format("line {}", number)));
  }
  return names;
}

std::optional<FxFileName> ParseFxFileName(std::string_view name) {
  FxFileName out;
  out.is_min_max = CutSuffix(kMinMaxNpy, &name);
  if (!out.is_min_max && !CutSuffix(kNpy, &name)) return std::nullopt;
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view time = name.substr(dot + 1);
  if (!IsDigits(time) || time.size() < kTimeDigitsMin) return std::nullopt;
  out.time = time;
  name = name.substr(0, dot);
  const size_t index_end = name.size();
  for (size_t parts = 0; parts <= kFxIndexPartsMax; ++parts) {
    dot = name.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string_view part = name.substr(dot + 1);
    if (!IsDigits(part)) {
      if (parts == 0) return std::nullopt;
      if (part == "INPUT") out.io = Io::kInput;
      if (part == "OUTPUT") out.io = Io::kOutput;
      if (!IsValid(out.io)) return std::nullopt;
      out.index.assign(name.data() + name.size() + 1, name.data() + index_end);
      out.op = name.substr(0, dot);
      if (out.op.empty()) return std::nullopt;
      return out;
    }
    name = name.substr(0, dot);
  }
  return std::nullopt;
}

std::optional<RankFolder> ParseRankFolder(std::string_view name) {
  constexpr std::string_view kBegin = "worldsize";
  constexpr std::string_view kMiddle = "_global_rank";
  if (!name.starts_with(kBegin)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  const size_t middle = name.find(kMiddle);
  if (middle == std::string_view::npos) return std::nullopt;
  const auto size = ParseNumber(name.substr(0, middle));
  const auto rank = ParseNumber(name.substr(middle + kMiddle.size()));
  if (!size.has_value() || !rank.has_value()) return std::nullopt;
  if (*size > kRankMax + 1 || *rank > kRankMax) return std::nullopt;
  return RankFolder{static_cast<int32_t>(*size), static_cast<int32_t>(*rank)};
}

bool IsTimeFolder(std::string_view name) {
  return name.size() == 14 && IsDigits(name);
}

bool IsGmFolder(std::string_view name) {
  return name.starts_with("gm_") && name.ends_with("_dump");
}

bool IsGraphFolder(std::string_view name) {
  constexpr std::string_view kGraph = "graph_";
  if (!name.starts_with(kGraph)) return false;
  name.remove_prefix(kGraph.size());
  return IsDigits(name.substr(0, name.find('_')));
}

bool IsGraphText(std::string_view name) {
  return name.ends_with(".txt") && (name.starts_with("dynamo_original_") ||
                                    name.starts_with("dynamo_optimized_"));
}

std::optional<int64_t> RankOfGraphText(std::string_view name) {
  constexpr std::string_view kRank = "_rank_";
  const size_t at = name.find(kRank);
  if (!IsGraphText(name) || at == std::string_view::npos) return std::nullopt;
  name.remove_prefix(at + kRank.size());
  return ParseNumber(name.substr(0, name.find('_')));
}

}  // namespace msitd::trees
