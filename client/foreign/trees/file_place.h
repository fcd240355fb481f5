// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msitd::trees {

// The rank and token of a file in no known layout, and the rest of its path.
struct FilePlace {
  int32_t rank = 0;
  // Whether the path has a word for the rank, and whether that word begins the
  // name of a file or folder. In the middle of a name, it may have another
  // meaning, such as the rank of a matrix: `lora_rank_16.A`.
  bool has_rank = false;
  bool rank_begins_name = false;
  int64_t token = 0;
  // Empty if the path only had a rank and a token.
  std::string op;
};

// Parses `rank0_step3_layers.12` and `rank0/step3/layers.12`, without a suffix:
// the first word `rank`, and the first of `step`, `iter`, `iteration` and
// `token`, each followed by a number, directly or after `_`, `-` or `=`. A word
// is at the beginning of the path, or follows `/`, `_` or `-`; `rank` may also
// follow a dot. The number is at the end of the path, or precedes one of these
// characters or a dot. Therefore, `model.step3.conv` is an op. Without
// `reads_rank`, the word `rank` is ignored.
FilePlace ReadFilePlace(std::string_view path, bool reads_rank = true);

}  // namespace msitd::trees
