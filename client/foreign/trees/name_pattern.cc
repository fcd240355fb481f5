// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/name_pattern.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/foreign/trees/json/numbers.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr std::string_view kFields =
    "{rank}, {token}, {call}, {io}, {op} and {index}";

template <typename... Args>
absl::Status Refused(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, format,
                    std::forward<Args>(args)...);
}

// Returns the last components of a path: as many as a pattern with `count`
// slashes has. Nothing if the path has fewer.
std::optional<std::string_view> LastComponents(std::string_view path,
                                               size_t count) {
  size_t begin = path.size();
  for (size_t i = 0; i <= count; ++i) {
    if (begin == 0) return std::nullopt;
    const size_t slash = path.rfind('/', begin - 1);
    if (slash == std::string_view::npos) {
      return i == count ? std::optional(path) : std::nullopt;
    }
    begin = slash;
  }
  return path.substr(begin + 1);
}

}  // namespace

// Matches one name, with backtracking. A place where the rest of the name did
// not match the rest of the pattern is not tried again, so the time is bounded
// by the product of their lengths.
class NameMatcher {
 public:
  using Field = NamePattern::Field;

  NameMatcher(const std::vector<NamePattern::Piece>& pieces,
              std::string_view name)
      : pieces_(pieces),
        name_(name),
        has_failed_(pieces.size() * (name.size() + 1)) {}

  std::optional<NamedPlace> Match() {
    return MatchFrom(0, 0) ? std::optional(std::move(place_)) : std::nullopt;
  }

 private:
  bool MatchFrom(size_t piece, size_t at) {
    if (piece == pieces_.size()) return at == name_.size();
    const size_t state = piece * (name_.size() + 1) + at;
    if (has_failed_[state]) return false;
    if (MatchPiece(piece, at)) return true;
    has_failed_[state] = true;
    return false;
  }

  bool MatchPiece(size_t piece, size_t at) {
    const NamePattern::Piece& own = pieces_[piece];
    if (own.field == Field::kText) {
      return name_.substr(at).starts_with(own.text) &&
             MatchFrom(piece + 1, at + own.text.size());
    }
    for (size_t end = EndOf(own.field, at); end > at; --end) {
      if (own.field == Field::kOp && SplitsIo(piece, end)) continue;
      if (Take(own.field, name_.substr(at, end - at)) &&
          MatchFrom(piece + 1, end)) {
        return true;
      }
    }
    return false;
  }

  // Returns whether an op that ends here would divide the name of an io:
  // `{op}_{io}` means `a` and `grad_output` for `a_grad_output`, not `a_grad`
  // and `output`.
  bool SplitsIo(size_t piece, size_t end) const {
    constexpr std::string_view kGrad = "grad_";
    if (piece + 2 >= pieces_.size() ||
        pieces_[piece + 1].field != Field::kText ||
        pieces_[piece + 2].field != Field::kIo) {
      return false;
    }
    // The separator and the rest of the name of the io follow `end`.
    const std::string& separator = pieces_[piece + 1].text;
    const size_t rest = end + separator.size();
    if (rest > name_.size() || rest < kGrad.size()) return false;
    const size_t io = rest - kGrad.size();
    return io >= separator.size() && name_.substr(io).starts_with(kGrad) &&
           name_.substr(io - separator.size()).starts_with(separator) &&
           (name_.substr(rest).starts_with("input") ||
            name_.substr(rest).starts_with("output") ||
            name_.substr(rest).starts_with("weight"));
  }

  // Returns the end of the longest text that the field can have.
  size_t EndOf(Field field, size_t at) const {
    if (field == Field::kOp) return name_.size();
    const bool is_text = field == Field::kIo || field == Field::kIndex;
    const size_t end = is_text ? name_.find('/', at)
                               : name_.find_first_not_of("0123456789", at);
    return std::min(end, name_.size());
  }

  // Stores the value of a field. Returns false if it cannot have this value.
  bool Take(Field field, std::string_view text) {
    const auto number = [&](int64_t max) {
      const auto value = ParseNumber(text);
      return value.has_value() && *value <= max ? value : std::nullopt;
    };
    switch (field) {
      case Field::kRank: {
        const auto rank = number(kRankMax);
        if (rank) place_.rank = static_cast<int32_t>(*rank);
        return rank.has_value();
      }
      case Field::kToken:
        place_.token = number(kTokenMax);
        return place_.token.has_value();
      case Field::kCall: {
        const auto call = number(kCallMax);
        if (call) place_.call = static_cast<int32_t>(*call);
        return call.has_value();
      }
      case Field::kIo: {
        const auto io = ParseIo(text);
        place_.io = io.value_or(Io::kUnspecified);
        return io.has_value() && *io != Io::kUnspecified;
      }
      case Field::kIndex:
        place_.index = text;
        return true;
      default:
        place_.op = text;
        return true;
    }
  }

  const std::vector<NamePattern::Piece>& pieces_;
  const std::string_view name_;
  std::vector<bool> has_failed_;
  NamedPlace place_;
};

absl::StatusOr<NamePattern> NamePattern::Parse(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Field>, 6> kNames = {{
      {"rank", Field::kRank},
      {"token", Field::kToken},
      {"call", Field::kCall},
      {"io", Field::kIo},
      {"op", Field::kOp},
      {"index", Field::kIndex},
  }};
  if (text.size() > kNamePatternBytesMax) {
    return Refused("the pattern has {} bytes; the maximum is {}", text.size(),
                   kNamePatternBytesMax);
  }
  NamePattern out;
  while (!text.empty()) {
    const size_t brace = std::min(text.find_first_of("{}"), text.size());
    if (brace > 0) {
      out.pieces_.push_back({Field::kText, std::string(text.substr(0, brace))});
      text.remove_prefix(brace);
      continue;
    }
    const size_t end = text.find('}');
    if (text[0] == '}' || end == text.npos) {
      return Refused("a brace has no counterpart; the fields are {}", kFields);
    }
    const std::string_view name = text.substr(1, end - 1);
    const auto* const known =
        std::find_if(kNames.begin(), kNames.end(),
                     [name](const auto& one) { return one.first == name; });
    if (known == kNames.end()) {
      return Refused("{{{}}} is not a field; the fields are {}", name, kFields);
    }
    if (out.Has(known->second)) return Refused("{{{}}} occurs twice", name);
    out.pieces_.push_back({known->second, ""});
    text.remove_prefix(end + 1);
  }
  const bool has_fields = std::any_of(
      out.pieces_.begin(), out.pieces_.end(),
      [](const Piece& piece) { return piece.field != Field::kText; });
  if (!has_fields) return Refused("it has none of the fields {}", kFields);
  if (out.Has(Field::kIndex) && !out.Has(Field::kIo)) {
    return Refused("{{index}} requires {{io}}");
  }
  if (out.Has(Field::kIo) && !out.Has(Field::kOp)) {
    return Refused("{{io}} requires {{op}}");
  }
  for (const Piece& piece : out.pieces_) {
    out.slash_count_ += static_cast<size_t>(
        std::count(piece.text.begin(), piece.text.end(), '/'));
  }
  return out;
}

bool NamePattern::Has(Field field) const {
  return std::any_of(
      pieces_.begin(), pieces_.end(),
      [field](const Piece& piece) { return piece.field == field; });
}

std::optional<NamedPlace> NamePattern::Match(std::string_view path) const {
  const auto name = LastComponents(path, slash_count_);
  if (!name.has_value()) return std::nullopt;
  return NameMatcher(pieces_, *name).Match();
}

}  // namespace msitd::trees
