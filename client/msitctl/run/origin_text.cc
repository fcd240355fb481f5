// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/origin_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "client/ask/text/text.h"
#include "protos/base/record_kind.h"
#include "protos/base/resource_name.h"
#include "protos/base/tensor_key.h"

namespace msitd::msitctl {
namespace {

using ask::Printable;
using v1::FindOriginResponse;
using v1::RunOrigin;

// Maximum number of requests, of reached ranks and of frames of a stack that
// are printed.
constexpr int kListedMax = 8;

// Lines of a label and a value.
class Lines {
 public:
  void Add(std::string_view label, std::string_view value) {
    out_ += fmt::format("{:<11}{}\n", label, value);
  }
  // Adds a value under the label of the line before.
  void More(std::string_view value) { Add("", value); }

  std::string text() const { return out_; }

 private:
  std::string out_;
};

std::string_view NameOf(v1::Io io) { return IoName(static_cast<Io>(io)); }

std::string PlaceOf(const v1::Tensor& tensor) {
  std::string place =
      fmt::format("{} {}/{}", Printable(tensor.op()), NameOf(tensor.io()),
                  Printable(tensor.index()));
  if (tensor.call() > 0) place += fmt::format(" call {}", tensor.call());
  return fmt::format("{} at token {}, rank {}", place, tensor.token(),
                     tensor.rank());
}

std::string CodeText(const RunOrigin& origin) {
  std::string text = fmt::format("code of {}", Printable(origin.op()));
  if (!origin.after().empty()) {
    text += fmt::format(" after {}", Printable(origin.after()));
  }
  if (!origin.before().empty()) {
    text += fmt::format("{} before {}", origin.after().empty() ? "" : ",",
                        Printable(origin.before()));
  }
  return text;
}

std::string MakerOf(const RunOrigin& origin) {
  const std::string op = Printable(origin.op());
  switch (origin.kind()) {
    case RunOrigin::OP:
      return fmt::format(
          "{}: none of its recorded inputs satisfies the "
          "condition",
          op);
    case RunOrigin::CODE:
      return CodeText(origin);
    case RunOrigin::INPUT:
      return fmt::format("nothing that was recorded: it enters as {} of {}",
                         NameOf(origin.tensor().io()), op);
    case RunOrigin::WEIGHT:
      return fmt::format("a weight of {} is bad itself", op);
    case RunOrigin::STATE:
      return fmt::format("a state of {}", op);
    default:
      return "unknown";
  }
}

std::string ValuesOf(const v1::Tensor& tensor) {
  // Neither statistics nor numbers are described better by a summary.
  if (HasValueText(static_cast<RecordKind>(tensor.kind()))) {
    return Printable(tensor.value());
  }
  const v1::Summary& summary = tensor.summary();
  std::string text = fmt::format("{} elements", summary.count());
  const auto add = [&text](int64_t count, std::string_view what) {
    if (count != 0) text += fmt::format(", {} {}", count, what);
  };
  add(summary.nan_count(), "NaN");
  add(summary.positive_infinity_count(), "+Inf");
  add(summary.negative_infinity_count(), "-Inf");
  if (summary.has_min()) {
    text +=
        fmt::format(", min {:.6g}, max {:.6g}", summary.min(), summary.max());
  }
  return text;
}

std::string RanksOf(const RunOrigin& origin) {
  std::vector<std::string> ranges;
  for (const v1::RankRange& range : origin.ranks()) {
    ranges.push_back(range.first() == range.last()
                         ? fmt::format("{}", range.first())
                         : fmt::format("{}-{}", range.first(), range.last()));
  }
  return fmt::format("{}", fmt::join(ranges, ","));
}

void AddStack(const std::string& stack, Lines& lines) {
  size_t begin = 0;
  for (int i = 0; begin < stack.size(); ++i) {
    const size_t end = std::min(stack.find('\n', begin), stack.size());
    if (i == kListedMax) {
      lines.More("...");
      return;
    }
    lines.Add(i == 0 ? "stack" : "",
              Printable(std::string_view(stack).substr(begin, end - begin)));
    begin = end + 1;
  }
}

void AddRequests(const v1::Tensor& tensor, Lines& lines) {
  if (tensor.requests().empty()) return;
  std::vector<std::string> texts;
  for (const v1::TokenRequest& request : tensor.requests()) {
    if (texts.size() == kListedMax) {
      texts.push_back(
          fmt::format("{} more", tensor.requests_size() - kListedMax));
      break;
    }
    texts.push_back(request.rows().empty()
                        ? Printable(request.id())
                        : fmt::format("{} (rows {})", Printable(request.id()),
                                      Printable(request.rows())));
  }
  lines.Add("requests", fmt::format("{}", fmt::join(texts, ", ")));
}

std::string StepOf(const std::string& name) {
  const std::optional<TensorKey> key = ParseTensorName(name);
  if (!key.has_value()) return Printable(name);
  std::string text = Printable(key->op);
  if (key->io != Io::kOutput) {
    text += fmt::format(" {}/{}", IoName(key->io), Printable(key->index));
  }
  return text;
}

void AddChain(const RunOrigin& origin, Lines& lines) {
  if (origin.chain_size() < 2) return;
  for (int i = 0; i < origin.chain_size(); ++i) {
    if (origin.omitted_count() > 0 && i == origin.omitted_after()) {
      lines.More(fmt::format("... {} more", origin.omitted_count()));
    }
    lines.Add(i == 0 ? "chain" : "", StepOf(origin.chain(i)));
  }
}

void AddOrigin(const RunOrigin& origin, std::string_view label, Lines& lines) {
  lines.Add(label, PlaceOf(origin.tensor()));
  for (const std::string& gap : origin.gaps()) {
    lines.Add(&gap == &origin.gaps(0) ? "gap" : "", Printable(gap));
  }
  lines.Add(origin.gaps().empty() ? "made by" : "perhaps", MakerOf(origin));
  lines.Add("values", ValuesOf(origin.tensor()));
  const std::string ranks = RanksOf(origin);
  if (ranks != fmt::format("{}", origin.tensor().rank())) {
    lines.Add("ranks", ranks);
  }
  AddStack(origin.tensor().stack(), lines);
  AddRequests(origin.tensor(), lines);
  for (const std::string& note : origin.notes()) {
    lines.Add("note", Printable(note));
  }
  AddChain(origin, lines);
}

void AddReached(const FindOriginResponse& answer, Lines& lines) {
  int listed = 0;
  for (const FindOriginResponse::ReachedRank& reached : answer.reached()) {
    if (listed++ == kListedMax) break;
    const std::string tensor = Printable(reached.tensor());
    lines.Add(listed == 1 ? "reached" : "",
              fmt::format("rank {} at token {}{}{}", reached.rank(),
                          reached.token(), tensor.empty() ? "" : ": ", tensor));
  }
  if (answer.reached_count() > std::min(listed, kListedMax)) {
    lines.More(fmt::format("{} ranks in total", answer.reached_count()));
  }
}

void AddCounts(const FindOriginResponse& answer, Lines& lines) {
  lines.Add("tensors",
            fmt::format("{} judged, {} satisfy the condition",
                        answer.tensor_count(), answer.satisfying_count()));
  for (const FindOriginResponse::Ignored& ignored : answer.ignored()) {
    lines.Add("ignored", fmt::format("{}: {}, such as {}", ignored.count(),
                                     Printable(ignored.rule()),
                                     Printable(ignored.example())));
  }
  const auto add = [&lines](int64_t count, std::string_view why) {
    if (count > 0) lines.Add("not judged", fmt::format("{}: {}", count, why));
  };
  add(answer.unknown_count(),
      "statistics that do not show it, or values that may be meant");
  add(answer.incomplete_count(), "a part is missing");
  add(answer.lost_count(), "dropped, truncated or lost");
}

std::string NoneText(const std::string& run, const FindOriginResponse& answer) {
  const std::string name = Printable(run);
  std::string text =
      answer.ignored().empty()
          ? fmt::format("none: no tensor of run {} satisfies the condition",
                        name)
          : fmt::format(
                "none: all tensors of run {} that satisfy the "
                "condition are ignored",
                name);
  if (answer.unknown_count() + answer.incomplete_count() + answer.lost_count() >
      0) {
    text += ", but not all tensors could be judged";
  }
  return text;
}

}  // namespace

std::string OriginText(const std::string& run,
                       const FindOriginResponse& answer) {
  Lines lines;
  if (answer.result() == FindOriginResponse::NONE) {
    lines.Add("origin", NoneText(run, answer));
  }
  if (answer.result() == FindOriginResponse::NOT_KNOWN) {
    lines.Add("origin", "not known");
    for (const RunOrigin& origin : answer.unknown()) {
      AddOrigin(origin, "first seen", lines);
    }
  }
  for (const RunOrigin& origin : answer.origins()) {
    const bool is_first = answer.result() == FindOriginResponse::FOUND &&
                          &origin == &answer.origins(0);
    AddOrigin(origin, is_first ? "origin" : "other", lines);
  }
  if (answer.result() == FindOriginResponse::FOUND) {
    for (const RunOrigin& origin : answer.unknown()) {
      AddOrigin(origin, "not known", lines);
    }
  }
  if (answer.omitted_origin_count() > 0) {
    lines.Add("not shown", fmt::format("{} more places on other ranks",
                                       answer.omitted_origin_count()));
  }
  AddReached(answer, lines);
  AddCounts(answer, lines);
  return lines.text();
}

}  // namespace msitd::msitctl
