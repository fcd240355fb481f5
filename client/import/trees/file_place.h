// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msitd::trees {

// Which rank and token a file in no known layout is of, and what remains of its
// path.
struct FilePlace {
  int32_t rank = 0;
  int64_t token = 0;
  // Empty if the path only had a rank and a token.
  std::string op;
};

// Reads `rank0_step3_layers.12` and `rank0/step3/layers.12`, without a suffix:
// the first word `rank`, and the first of `step`, `iter`, `iteration` and
// `token`, each with a number directly after it or after `_`, `-` or `=`. A
// word begins the path, or follows `/`, `_` or `-`; `rank` may also follow a
// dot. It ends the path, or one of these or a dot follows. So
// `model.step3.conv` is an op.
FilePlace ReadFilePlace(std::string_view path);

}  // namespace msitd::trees
