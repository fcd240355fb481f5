// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace msitd::chunk {

// One golden file: its name under tests/golden/chunk and all its bytes.
struct GoldenChunk {
  std::string name;
  std::vector<std::byte> bytes;
};

// Makes the golden files of the chunk format, the same bytes on every call. Of
// version 1:
//  - one_tensor.chunk: what a producer sends for one float32 tensor; the
//    worked example of docs/format/chunk.md;
//  - every_dtype.chunk: each dtype, a scalar and an empty tensor;
//  - last_part.chunk: the second part of a tensor of 4 MiB and 12 bytes;
//  - placed.chunk: two shards with a placement and a tensor without;
//  - frame.chunk: one_tensor as it lies in a segment, stamped;
//  - sample_frame.chunk: the frame of a chunk of two tensors of which samples
//    are kept, one longer than its sample.
// Of version 2:
//  - every_kind.chunk: a tensor with a stack and a gradient, an alias of it, a
//    value of each kind, an empty text and a document;
//  - every_kind_frame.chunk: every_kind as it lies in a segment, stamped.
// Of version 3:
//  - statistics.chunk: values of each kind and two records of statistics.
// Of version 4:
//  - digests.chunk: a tensor as its digest alone, one with digest and bytes,
//  one
//    with bytes alone, and an alias of the first;
//  - digests_frame.chunk: digests as it lies in a segment, stamped; the digest
//    that came with bytes is false.
std::vector<GoldenChunk> MakeGoldenChunks();

}  // namespace msitd::chunk
