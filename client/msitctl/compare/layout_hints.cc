// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/layout_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>

#include "client/ask/text/text.h"
#include "protos/base/digits.h"

namespace msitd::msitctl {
namespace {

// Flags that are printed.
constexpr size_t kFlagsShown = 8;

// `--target-layout 'op@output/0=concat(-1)'` in two parts: the text before `@`,
// in which `*` replaces separate numbers, and the rest.
struct Hint {
  std::string pattern;
  std::string rest;
};

Hint Generalize(std::string_view hint) {
  const size_t at = std::min(hint.rfind('@'), hint.size());
  const size_t quote = std::min(hint.find('\'') + 1, at);
  Hint out{std::string(hint.substr(0, quote)), std::string(hint.substr(at))};
  std::string_view op = hint.substr(quote, at - quote);
  const bool has_parts = op.find('.') != std::string_view::npos;
  while (true) {
    const size_t dot = op.find('.');
    const std::string_view part = op.substr(0, dot);
    out.pattern += has_parts && IsDigits(part) ? "*" : part;
    if (dot == std::string_view::npos) return out;
    out.pattern += '.';
    op.remove_prefix(dot + 1);
  }
}

// Returns the part up to the `=`. There is one layout for each op, io and
// index.
std::string_view PlaceOf(const Hint& hint) {
  return std::string_view(hint.rest).substr(0, hint.rest.rfind('='));
}

}  // namespace

std::vector<std::string> LayoutFlagsOf(const std::vector<std::string>& hints) {
  std::map<std::string, std::set<std::string>> layouts;
  for (const std::string& text : hints) {
    const Hint hint = Generalize(text);
    layouts[fmt::format("{}{}", hint.pattern, PlaceOf(hint))].insert(hint.rest);
  }
  std::vector<std::string> out;
  const auto add = [&out](std::string flag) {
    if (std::find(out.begin(), out.end(), flag) == out.end()) {
      out.push_back(std::move(flag));
    }
  };
  for (const std::string& text : hints) {
    const Hint hint = Generalize(text);
    const bool is_one =
        layouts[fmt::format("{}{}", hint.pattern, PlaceOf(hint))].size() == 1;
    add(is_one ? hint.pattern + hint.rest : text);
  }
  for (const std::string_view flag : {"--golden-layout", "--target-layout"}) {
    if (std::any_of(hints.begin(), hints.end(), [flag](const auto& hint) {
          return hint.starts_with(flag);
        })) {
      add(fmt::format("{} '*=replicated unless placed'", flag));
    }
  }
  return out;
}

std::vector<std::string> FitFlagsOf(const std::vector<std::string>& hints) {
  std::vector<std::string> out;
  for (const std::string_view flag : {"--golden-layout", "--target-layout"}) {
    if (std::any_of(hints.begin(), hints.end(), [flag](const auto& hint) {
          return hint.starts_with(flag);
        })) {
      out.push_back(fmt::format("{} '*=fit'", flag));
    }
  }
  return out;
}

std::string LayoutEffectText(const std::vector<std::string>& hints) {
  const auto is_sum = [](const std::string& hint) {
    return hint.ends_with("=sum'");
  };
  std::string out;
  if (!std::all_of(hints.begin(), hints.end(), is_sum)) {
    out +=
        "  concat compares the joined pieces with the whole; replicated checks "
        "that all ranks have equal tensors\n";
  }
  if (std::any_of(hints.begin(), hints.end(), is_sum)) {
    out +=
        "  sum compares the sum over the ranks, and does not check that the "
        "ranks agree, so it hides a missing reduction\n";
  }
  return out;
}

void TellLayoutHints(const v1::Comparison& comparison) {
  const std::vector<std::string> hints(comparison.layout_hints().begin(),
                                       comparison.layout_hints().end());
  if (hints.empty()) return;
  const std::vector<std::string> flags = LayoutFlagsOf(hints);
  const bool has_sums =
      std::any_of(hints.begin(), hints.end(),
                  [](const auto& hint) { return hint.ends_with("=sum'"); });
  const std::string what = fmt::format(
      "{} rows {}", comparison.layout_hint_row_count(),
      has_sums ? "look like a whole tensor and its pieces or terms"
               : "have the shapes of a whole tensor and of its pieces");
  // The last flags complete the others.
  if (flags.size() > kFlagsShown && !has_sums) {
    fmt::print(stderr,
               "msitctl: note: {}; if ranks hold pieces of one tensor, add\n",
               what);
    for (const std::string& flag : FitFlagsOf(hints)) {
      fmt::print(stderr, "  {}\n", flag);
    }
    fmt::print(stderr,
               "  fit determines from the sizes of both sides how each tensor "
               "is divided\n");
    return;
  }
  if (flags.size() > kFlagsShown) {
    fmt::print(stderr,
               "msitctl: note: {}; for the flag of each row, see layout_hint "
               "in the output of -o json\n",
               what);
    return;
  }
  fmt::print(stderr,
             "msitctl: note: {}; if ranks hold {} of one tensor, add{}\n", what,
             has_sums ? "parts" : "pieces",
             has_sums ? " before other layouts" : "");
  for (const std::string& flag : flags) {
    fmt::print(stderr, "  {}\n", ask::Printable(flag));
  }
  fmt::print(stderr, "{}", LayoutEffectText(hints));
}

}  // namespace msitd::msitctl
