// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Limits on the files that readers accept, and on the memory that they use. A
// file or a tensor beyond a limit is rejected with a reason.
namespace msitd::formats {

// Text or messages that describe the tensors of one file.
inline constexpr uint64_t kHeadBytesMax = uint64_t{16} << 20;

// The header of one .npy array. NumPy itself stops at 10,000.
inline constexpr uint64_t kNpyHeadBytesMax = uint64_t{1} << 20;

// The lines before the elements of a file of ATB.
inline constexpr uint64_t kAtbHeadBytesMax = uint64_t{64} << 10;

// Nesting depth of brackets in headers.
inline constexpr int kNestingMax = 64;

// The head of a GGUF file: the bytes of a name, and its properties, texts and
// lists. A vocabulary has some 10^5 texts.
inline constexpr uint64_t kGgufNameBytesMax = uint64_t{64} << 10;
inline constexpr uint64_t kGgufItemsMax = uint64_t{1} << 24;

// JSON of Polygraphy: the bytes in which an array is searched to recognize a
// file, the bytes of a file, one array of which is held as text, the bytes of
// one key, and the decoded arrays and the names that are held.
inline constexpr uint64_t kPolygraphyKeyBytesMax = uint64_t{4} << 10;
inline constexpr uint64_t kPolygraphyNamesBytesMax = uint64_t{64} << 20;
inline constexpr uint64_t kPolygraphyFileBytesMax = uint64_t{2} << 30;
inline constexpr uint64_t kPolygraphyProbeBytes = uint64_t{64} << 10;
inline constexpr uint64_t kPolygraphyBytesMax = uint64_t{1} << 30;

// A trace of transformers: its bytes, nearly all of which are printed values.
inline constexpr uint64_t kTraceBytesMax = uint64_t{4} << 30;
// One shape, type, statistic or name of a file in it.
inline constexpr size_t kTraceTextBytesMax = size_t{4} << 10;
// The texts of it that are held.
inline constexpr uint64_t kTraceHeldBytesMax = uint64_t{128} << 20;

// Tensors of one file.
inline constexpr uint64_t kTensorsMax = 65536;

// The amount that a reader holds of a tensor whose order it has to change. A
// stored tensor up to this size is read once and held. If it is larger, as many
// blocks are held as fit. Plain tensors are read directly into the caller's
// memory.
inline constexpr uint64_t kHeldBytesMax = uint64_t{256} << 20;

// The size of a view that repeats stored elements, unless the stored bytes are
// more.
inline constexpr uint64_t kRepeatedBytesMax = uint64_t{1} << 30;

// The work and the objects of one pickle. A tensor takes about 60 operations,
// 10 objects and 40 items.
inline constexpr uint64_t kPickleOpsMax = uint64_t{1} << 23;
inline constexpr uint64_t kPickleObjectsMax = uint64_t{1} << 20;
inline constexpr uint64_t kPickleItemsMax = uint64_t{1} << 22;
inline constexpr uint64_t kPickleMemoMax = uint64_t{1} << 21;

// Values of a pickle that are visited. A value that is referred to twice counts
// twice.
inline constexpr uint64_t kPickleVisitsMax = uint64_t{1} << 22;

// Tags that a dumper saves with a value, and the bytes of a tag or of its name.
inline constexpr uint64_t kTagsMax = 256;
inline constexpr uint64_t kTagBytesMax = 256;

// Bytes of a rejected name that are shown.
inline constexpr uint64_t kShownNameBytesMax = 100;

// The minimum room for TensorFile::Read: the largest element.
inline constexpr uint64_t kReadBytesMin = 16;

}  // namespace msitd::formats
