// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/tensor_pattern.h"

#include "protos/base/tensor_key.h"

namespace msitd::msitctl {

TensorPattern ParseTensorPattern(std::string_view text) {
  TensorPattern out{text};
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return out;
  const std::string_view place = text.substr(at + 1);
  const size_t slash = place.find('/');
  const std::optional<Io> io = ParseIo(place.substr(0, slash));
  if (!io.has_value()) return out;
  out.op_pattern = text.substr(0, at);
  out.io = static_cast<v1::Io>(*io);
  if (slash != std::string_view::npos) out.index = place.substr(slash + 1);
  return out;
}

}  // namespace msitd::msitctl
