// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/foreign/formats/stored_tensor.h"

namespace msitd::formats {

// The location of the elements of a tensor that an accelerator divided into
// blocks, without the padding of the last blocks.
struct PlainView {
  std::vector<int64_t> shape;
  std::vector<Axis> axes;
};

// Returns the plain view of a tensor in a blocked or channels-last format: NCHW
// or NCDHW for images, the original shape for FRACTAL_NZ. Returns nothing for
// other formats, and if the two shapes do not match, so that the padding is
// unknown.
//
// CheckShape has accepted `stored`. `original` may be anything. `groups` is the
// sub-format, which only FRACTAL_Z has.
std::optional<PlainView> ViewAsPlain(int64_t format, int64_t groups,
                                     const std::vector<int64_t>& stored,
                                     const std::vector<int64_t>& original);

}  // namespace msitd::formats
