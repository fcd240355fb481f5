// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Limits on the input and the memory of readers of trees. Anything beyond a
// limit is rejected with a reason.
namespace msitd::trees {

// Nesting depth of folders below the one that is opened.
inline constexpr int kDepthMax = 32;

// Names in one folder. All folders of a token are listed at once.
inline constexpr size_t kFolderNamesMax = size_t{1} << 20;

// Files of a tree without a layout, whose names are held for sorting.
inline constexpr size_t kTreeFilesMax = size_t{1} << 22;

// Records of the index of an export, and bytes of one of its lines.
inline constexpr size_t kIndexRecordsMax = size_t{1} << 24;
inline constexpr size_t kIndexLineBytesMax = size_t{16} << 20;

// Names that an import ignores and that are remembered. Further names are
// counted each time that their folder is listed.
inline constexpr size_t kLeftOutNamesMax = 65536;

// Folders of a tree, for readers that need all of them.
inline constexpr size_t kFoldersMax = size_t{1} << 18;

// Limits for detecting the kind of a tree: the number of folders, from the top
// down, and of the folders and files in each of them. A thousand ranks in one
// folder leave room for the files below them.
inline constexpr size_t kSampleFoldersMax = 2048;
inline constexpr size_t kSampleSubfoldersMax = 32;
inline constexpr size_t kSampleFilesMax = 64;

// Files that are opened to detect whether they contain tensors at all.
inline constexpr int kProbedFilesMax = 32;

// The file in which CANN lists long file names: its bytes, its lines, and the
// digits and bytes of one line.
inline constexpr uint64_t kLongNamesBytesMax = uint64_t{16} << 20;
inline constexpr size_t kLongNamesMax = 65536;
inline constexpr size_t kLongNameDigitsMax = 20;
inline constexpr size_t kLongNameBytesMax = 4096;

// A file that becomes a document. It is held as a whole.
inline constexpr size_t kDocumentBytesMax = size_t{256} << 20;

// Records of one dump of msprobe, and bytes that are held of its stacks.
inline constexpr size_t kMsprobeRecordsMax = size_t{1} << 22;
inline constexpr size_t kMsprobeStacksBytesMax = size_t{256} << 20;

// Text with the order of the modules of one token.
inline constexpr size_t kMsitOrderBytesMax = size_t{256} << 20;

// statistics.csv of one module.
inline constexpr size_t kMsitStatisticsBytesMax = size_t{64} << 20;
inline constexpr size_t kMsitStatisticsMax = 65536;

// Problems that a tree holds until they are taken. Further ones are only
// counted.
inline constexpr size_t kProblemsMax = 65536;

}  // namespace msitd::trees
