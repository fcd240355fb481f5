// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// What readers of trees take, and what they keep in memory. What goes beyond a
// limit is refused with a reason.
namespace msitd::trees {

// Folders in folders, below the one that is opened.
inline constexpr int kDepthMax = 32;

// Names in one folder. A token is listed at once.
inline constexpr size_t kFolderNamesMax = size_t{1} << 20;

// Files of a tree without a layout, whose names are held to be put in order.
inline constexpr size_t kTreeFilesMax = size_t{1} << 22;

// Records of the index of an export, and bytes of one of its lines.
inline constexpr size_t kIndexRecordsMax = size_t{1} << 24;
inline constexpr size_t kIndexLineBytesMax = size_t{16} << 20;

// Names that an import leaves out and that are remembered. More are counted
// each time that their folder is listed.
inline constexpr size_t kLeftOutNamesMax = 65536;

// Folders of a tree, where a reader has to know all of them.
inline constexpr size_t kFoldersMax = size_t{1} << 18;

// What is looked at to find out whose tree it is: so many folders, from the top
// down, and so many folders and files of each. A thousand ranks side by side
// leave room for the files below them.
inline constexpr size_t kSampleFoldersMax = 2048;
inline constexpr size_t kSampleSubfoldersMax = 32;
inline constexpr size_t kSampleFilesMax = 64;

// Files that are opened to find out whether they hold tensors at all.
inline constexpr int kProbedFilesMax = 32;

// The file in which CANN says how files with long names are called: its bytes,
// its lines, and the digits and bytes of one of them.
inline constexpr uint64_t kLongNamesBytesMax = uint64_t{16} << 20;
inline constexpr size_t kLongNamesMax = 65536;
inline constexpr size_t kLongNameDigitsMax = 20;
inline constexpr size_t kLongNameBytesMax = 4096;

// A file that comes as a document: it is held whole.
inline constexpr size_t kDocumentBytesMax = size_t{256} << 20;

// Records of one dump of msprobe, and what is kept of its stacks.
inline constexpr size_t kMsprobeRecordsMax = size_t{1} << 22;
inline constexpr size_t kMsprobeStacksBytesMax = size_t{256} << 20;

// Text with the order of the modules of one token.
inline constexpr size_t kMsitOrderBytesMax = size_t{256} << 20;

// statistics.csv of one module.
inline constexpr size_t kMsitStatisticsBytesMax = size_t{64} << 20;
inline constexpr size_t kMsitStatisticsMax = 65536;

// Problems that a tree keeps until they are taken. More are only counted.
inline constexpr size_t kProblemsMax = 65536;

}  // namespace msitd::trees
