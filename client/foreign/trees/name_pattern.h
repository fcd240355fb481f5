// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"

namespace msitd::trees {

// The fields that a name specifies. The others are absent.
struct NamedPlace {
  std::optional<int32_t> rank;
  std::optional<int64_t> token;
  std::optional<int32_t> call;
  Io io = Io::kUnspecified;
  std::string op;
  std::string index;
};

// A pattern for names of files, such as `rank{rank}_step{token}_{op}`: texts
// that occur as they are, and fields in braces. {rank}, {token} and {call} are
// decimal numbers, {io} is the name of an io, {op} is any text with at least
// one character, and {index} is any text without a slash. If a name matches in
// several ways, each field, from left to right, is as long as possible, but an
// op never ends within the name of an io, such as `grad_output`.
class NamePattern {
 public:
  // Returns INVALID_ARGUMENT for an unknown field, for a field that occurs
  // twice, for a brace without its counterpart, for a pattern without fields,
  // and beyond kNamePatternBytesMax.
  static absl::StatusOr<NamePattern> Parse(std::string_view text);

  // Matches a path without its suffix. A pattern with n slashes is compared
  // with the last n + 1 components of the path. Returns nothing if the path
  // does not match, or if a number is too large for a run.
  std::optional<NamedPlace> Match(std::string_view path) const;

  bool has_rank() const { return Has(Field::kRank); }
  bool has_token() const { return Has(Field::kToken); }

 private:
  friend class NameMatcher;

  enum class Field : uint8_t {
    kText,  // Not a field, but a text.
    kRank,
    kToken,
    kCall,
    kIo,
    kOp,
    kIndex,
  };
  struct Piece {
    Field field = Field::kText;
    std::string text;  // For kText.
  };

  NamePattern() = default;
  bool Has(Field field) const;

  std::vector<Piece> pieces_;
  size_t slash_count_ = 0;
};

// Maximum length of a pattern.
inline constexpr size_t kNamePatternBytesMax = 1024;

}  // namespace msitd::trees
