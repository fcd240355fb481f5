// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/tensor_pattern.h"

#include "protos/base/glob.h"
#include "protos/base/limits.h"

namespace msitd::compare {

std::optional<TensorPattern> TensorPattern::Parse(std::string_view text) {
  TensorPattern out;
  // The name of an op can contain an @.
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::string_view place = text.substr(at + 1);
    const size_t slash = place.find('/');
    out.io_ = ParseIo(place.substr(0, slash));
    if (out.io_.has_value()) {
      if (slash != std::string_view::npos) {
        out.index_pattern_ = std::string(place.substr(slash + 1));
      }
      text = text.substr(0, at);
    }
  }
  if (text.empty() || text.size() > kOpBytesMax) return std::nullopt;
  out.op_pattern_ = std::string(text);
  return out;
}

bool TensorPattern::Matches(std::string_view op, Io io,
                            std::string_view index) const {
  if (io_.has_value() && *io_ != io) return false;
  if (index_pattern_.has_value() && !GlobMatch(*index_pattern_, index)) {
    return false;
  }
  return GlobMatch(op_pattern_, op);
}

bool TensorPattern::MatchesOp(std::string_view op) const {
  return GlobMatch(op_pattern_, op);
}

}  // namespace msitd::compare
