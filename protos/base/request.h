// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

// Documents that record which requests a rank processes at a token. There is
// one document per request, next to the tensors of the token. Its device and
// the prefix of its op are defined below; the op ends with the id of the
// request. Its text states which elements of the batch belong to the request:
//
//   text := [ROWS[,COLUMNS]][@POSITION][/N[,M]]
//
// - ROWS and COLUMNS are `FIRST:END`, as Python slices, of the first and the
//   second dimension of the batch. COLUMNS exist only for batches of two
//   dimensions, (batch, sequence): they are the elements that are not padding.
//   Without COLUMNS and with M, all M columns belong to the request.
// - POSITION is the position of the first of these elements in the sequence of
//   the request: the number of its tokens before it, without padding.
// - N and M are the lengths of the batch at this token: `/N` for a packed
//   batch, which has one dimension of rows, and `/N,M` for (batch, sequence).
//
// `1:2,4:9@0/2,9` is row 1, columns 4 to 8, of a batch of 2 x 9; the first of
// these elements begins the sequence. An unknown part is left out; the text is
// empty if all parts are unknown.
//
// Comparisons join the elements of two runs by request and position. Batches of
// two runs seldom have equal shapes, because prompts are padded to the longest
// of their batch, processed in chunks, or batched with other requests.
namespace msitd {

inline constexpr std::string_view kRequestOpPrefix = "request/";
inline constexpr std::string_view kRequestDevice = "cpu:0";

// Longer ids are refused.
inline constexpr size_t kRequestIdBytesMax = 128;

// Longer texts are treated as absent.
inline constexpr size_t kRequestRowsBytesMax = 128;

}  // namespace msitd
