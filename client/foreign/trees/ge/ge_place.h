// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace msitd::trees {

// The meaning of the folders in which CANN writes dumps:
// [worldsize<W>_global_rank<R>/]<time>/<device>/<model>/<model_id>/[<token>/].
// Values that the folders do not contain are empty or 0.
struct GePlace {
  int32_t rank = 0;
  int32_t world_size = 0;
  // 14 digits.
  std::string time;
  // Such as npu:0.
  std::string device;
  std::string model;
  std::string model_id;
  int64_t token = 0;
};

// Parses the last of `names`, which are the folders on the path to a file. If
// none is a time, the folder of the file is the token if it is a number.
GePlace GePlaceOf(const std::vector<std::string>& names);

}  // namespace msitd::trees
