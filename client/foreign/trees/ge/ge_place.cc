// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/ge/ge_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/json/numbers.h"
#include "protos/base/digits.h"

namespace msitd::trees {
namespace {

using Names = std::span<const std::string>;

// The names from worldsize to token, and an unknown one.
constexpr size_t kNamesMax = 7;

std::string DeviceOf(const std::string& name) {
  const auto number = ParseNumber(name);
  return number.has_value() ? fmt::format("npu:{}", *number) : std::string();
}

// Parses the names after the device.
void ReadModel(Names names, GePlace* place) {
  if (names.empty()) return;
  const auto token = ParseNumber(names.back());
  if (names.size() == 1 && token.has_value()) {
    place->token = *token;
    return;
  }
  place->model = names[0];
  if (names.size() > 1) place->model_id = names[1];
  // Dumps of single ops have no folder for the token.
  if (names.size() > 2) place->token = token.value_or(0);
}

// Parses names without a time from the end.
void ReadFromEnd(Names names, GePlace* place) {
  const auto name = [&](size_t from_end) {
    return names.size() < from_end ? std::string()
                                   : names[names.size() - from_end];
  };
  const auto token = ParseNumber(name(1));
  if (!token.has_value()) return;
  place->token = *token;
  if (!IsDigits(name(2))) {
    place->model = name(2);
    return;
  }
  place->model_id = name(2);
  place->model = name(3);
  place->device = DeviceOf(name(4));
}

}  // namespace

GePlace GePlaceOf(const std::vector<std::string>& names) {
  const Names last =
      Names(names).last(std::min<size_t>(names.size(), kNamesMax));
  GePlace place;
  size_t begin = 0;
  size_t time = last.size();
  for (size_t i = 0; i < last.size(); ++i) {
    if (const auto folder = ParseRankFolder(last[i])) {
      place.rank = folder->rank;
      place.world_size = folder->world_size;
      begin = i + 1;
      time = last.size();
    } else if (IsTimeFolder(last[i]) &&
               (i + 1 < last.size() ? IsDigits(last[i + 1])
                                    : time == last.size())) {
      time = i;
    }
  }
  if (time == last.size()) {
    ReadFromEnd(last.subspan(begin), &place);
    return place;
  }
  place.time = last[time];
  if (time + 1 < last.size()) {
    place.device = DeviceOf(last[time + 1]);
    ReadModel(last.subspan(time + 2), &place);
  }
  return place;
}

}  // namespace msitd::trees
