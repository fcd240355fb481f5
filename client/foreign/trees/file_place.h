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
  // Whether the path has a word for the rank, and whether that word begins the
  // name of a file or folder. In the middle of a name it may mean something
  // else, such as the rank of a matrix: `lora_rank_16.A`.
  bool has_rank = false;
  bool rank_begins_name = false;
  int64_t token = 0;
  // Empty if the path only had a rank and a token.
  std::string op;
};

// Reads `rank0_step3_layers.12` and `rank0/step3/layers.12`, without a suffix:
// the first word `rank`, and the first of `step`, `iter`, `iteration` and
// `token`, each with a number directly after it or after `_`, `-` or `=`. A
// word begins the path, or follows `/`, `_` or `-`; `rank` may also follow a
// dot. It ends the path, or one of these or a dot follows. So
// `model.step3.conv` is an op. Without `reads_rank`, `rank` is no such word.
FilePlace ReadFilePlace(std::string_view path, bool reads_rank = true);

}  // namespace msitd::trees
