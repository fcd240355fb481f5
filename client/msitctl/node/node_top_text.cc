// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/node/node_top_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/ask/text/text.h"

namespace msitd::msitctl {
namespace {

constexpr char kHome[] = "\x1b[H";
constexpr char kClearLine[] = "\x1b[K\n";
constexpr char kClearRest[] = "\x1b[J";

}  // namespace

int64_t ToMs(const google::protobuf::Duration& duration) {
  return duration.seconds() * 1000 + duration.nanos() / 1'000'000;
}

double Rate(int64_t before, int64_t after, double seconds) {
  return std::max(static_cast<double>(after - before) / seconds, 0.0);
}

std::string SizeRate(double bytes) {
  return ask::HumanSize(static_cast<int64_t>(bytes)) + "/s";
}

std::string Percent(int64_t part, int64_t whole) {
  if (whole <= 0) return "-";
  return fmt::format("{}%", (100 * part + whole / 2) / whole);
}

std::string InPlace(std::string_view text) {
  std::string out = kHome;
  for (const char c : text) {
    if (c == '\n') {
      out += kClearLine;
    } else {
      out += c;
    }
  }
  return out + kClearRest;
}

}  // namespace msitd::msitctl
