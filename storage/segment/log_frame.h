// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/chunk/chunk.h"
#include "storage/face/types.h"

namespace msitd::storage {

// A chunk of a run as a frame of the log. The chunk belongs to the caller of
// the function that receives the frame.
struct LogFrame {
  chunk::Chunk* chunk = nullptr;
  RunId run{};
  // False for a sealed run, whose streams are no longer kept.
  bool keep_stream = true;
};

}  // namespace msitd::storage
