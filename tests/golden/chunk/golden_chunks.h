// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace msitd::chunk {

// One golden file: its name under tests/golden/chunk/v1 and all its bytes.
struct GoldenChunk {
  std::string name;
  std::vector<std::byte> bytes;
};

// Makes the golden files of version 1 of the chunk format, the same bytes on
// every call:
//  - one_tensor.chunk: what a producer sends for one float32 tensor; the
//    worked example of docs/format/chunk.md;
//  - every_dtype.chunk: each dtype, a scalar and an empty tensor;
//  - last_part.chunk: the second part of a tensor of 4 MiB and 12 bytes;
//  - placed.chunk: two shards with a placement and a tensor without;
//  - frame.chunk: one_tensor as it lies in a segment, stamped;
//  - sample_frame.chunk: the frame of a chunk of two tensors of which samples
//    are kept, one longer than its sample.
std::vector<GoldenChunk> MakeGoldenChunks();

}  // namespace msitd::chunk
