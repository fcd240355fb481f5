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

// Returns the golden files of the chunk format. Every call returns the same
// bytes.
//
// Version 1:
//  - one_tensor.chunk: the chunk that a producer sends for one float32 tensor,
//    which is the example in docs/format/chunk.md.
//  - every_dtype.chunk: each dtype, a scalar and an empty tensor.
//  - last_part.chunk: the second part of a tensor of 4 MiB and 12 bytes.
//  - placed.chunk: two shards with a placement, and a tensor without.
//  - frame.chunk: one_tensor as stored in a segment, with stamps.
//  - sample_frame.chunk: the frame of a chunk of two tensors of which samples
//    are kept. One tensor is longer than its sample.
//
// Version 2:
//  - every_kind.chunk: a tensor with a stack and a gradient, an alias of it, a
//    value of each kind, an empty text and a document.
//  - every_kind_frame.chunk: every_kind as stored in a segment, with stamps.
//
// Version 3:
//  - statistics.chunk: values of each kind and two records of statistics.
//
// Version 4:
//  - digests.chunk: a tensor with only its digest, one with digest and bytes,
//    one with only its bytes, and an alias of the first one.
//  - digests_frame.chunk: digests as stored in a segment, with stamps. The
//    digest that was sent with bytes is false.
std::vector<GoldenChunk> MakeGoldenChunks();

}  // namespace msitd::chunk
