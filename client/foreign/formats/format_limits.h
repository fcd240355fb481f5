// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What readers of foreign files take, and what they keep in memory. A file, or
// a tensor of it, beyond a limit is refused with a reason.
namespace msitd::formats {

// Text or messages that describe the tensors of one file.
inline constexpr uint64_t kHeadBytesMax = uint64_t{16} << 20;

// The head of one .npy array. NumPy itself stops at 10,000.
inline constexpr uint64_t kNpyHeadBytesMax = uint64_t{1} << 20;

// The lines before the elements of a file of ATB.
inline constexpr uint64_t kAtbHeadBytesMax = uint64_t{64} << 10;

// Brackets in brackets, in heads that may nest.
inline constexpr int kNestingMax = 64;

// Tensors of one file.
inline constexpr uint64_t kTensorsMax = 65536;

// What a reader reads at once of a tensor whose order it has to change. A
// stored tensor up to this size is read once and held; of a larger one, as many
// blocks are held as fit. Plain tensors are read straight to where they go.
inline constexpr uint64_t kHeldBytesMax = uint64_t{256} << 20;

// A view that repeats stored elements may not become larger than this, or than
// what is stored of it.
inline constexpr uint64_t kRepeatedBytesMax = uint64_t{1} << 30;

// What one pickle does and makes. A tensor takes about 60 operations, 10
// objects and 40 items.
inline constexpr uint64_t kPickleOpsMax = uint64_t{1} << 23;
inline constexpr uint64_t kPickleObjectsMax = uint64_t{1} << 20;
inline constexpr uint64_t kPickleItemsMax = uint64_t{1} << 22;
inline constexpr uint64_t kPickleMemoMax = uint64_t{1} << 21;

// Values of a pickle that are looked at: what it refers to twice counts twice.
inline constexpr uint64_t kPickleVisitsMax = uint64_t{1} << 22;

// Tags that a dumper saves with a value, and bytes of one or of its name.
inline constexpr uint64_t kTagsMax = 256;
inline constexpr uint64_t kTagBytesMax = 256;

// How much of a name that is refused is shown.
inline constexpr uint64_t kShownNameBytesMax = 100;

// TensorFile::Read wants room for at least this much: the largest element.
inline constexpr uint64_t kReadBytesMin = 16;

}  // namespace msitd::formats
