// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "client/ask/query/outcome.h"
#include "msitd/v1/filter.pb.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::ask {
class Connection;
}  // namespace msitd::ask

// Writes a run into a folder, as files that other tools read. README.md has the
// layouts.
namespace msitd::write {

enum class ExportFormat : uint8_t {
  kNpy,          // A file for each tensor, as numpy.save writes it.
  kNpz,          // An archive of these for each rank and token.
  kSafetensors,  // A file for each rank and token.
  kPt,           // A file for each tensor, as torch.save writes it.
  kMsit,         // The folders that msit dumps a torch model into.
  kMsprobe,      // Those of msprobe.
};

// Returns "npy", "npz", "safetensors", "pt", "msit" or "msprobe".
std::string_view ExportFormatName(ExportFormat format);

// The inverse of ExportFormatName; nothing for an unknown name.
std::optional<ExportFormat> ParseExportFormat(std::string_view name);

// What dumps of msprobe say of bytes in place of the bytes.
enum class Checksum : uint8_t {
  kNone,
  kCrc32,  // As eight digits. msprobe calls it md5.
  kXor,    // Of words of eight bytes, the last one filled up with zeros.
};

struct ExportOptions {
  std::string run;
  // Which records. Without kinds: those that the format is made for.
  v1::TensorFilter filter;
  ExportFormat format = ExportFormat::kNpy;
  std::string folder;
  // Files of the same name are replaced; otherwise the folder has to be empty.
  bool replaces = false;
  // Of msit: also writes statistics.csv.
  bool with_statistics = false;
  // Of msprobe: NaN and the infinities are texts, so that any reader of JSON
  // takes the documents.
  bool is_legal_json = false;
  // Of msprobe: what its member `md5` has of each tensor.
  Checksum checksum = Checksum::kNone;
  // Of msprobe: tensors have no files, so that the dump is one of statistics.
  bool without_tensors = false;
};

struct ExportCounts {
  // What was written.
  int64_t tensor_count = 0;
  int64_t value_count = 0;
  int64_t statistics_count = 0;
  int64_t document_count = 0;
  int64_t file_count = 0;
  int64_t size_bytes = 0;  // Of tensors.
  // Dumps of msprobe that were made of records, though the run has a document.
  int64_t remade_count = 0;
  // Records that should have been written and were not.
  int64_t problem_count = 0;
  // Tensors of the selection of which the daemon lacks a part. They are in no
  // list, so that nobody can name them.
  int64_t incomplete_count = 0;
};

// Who is told while an export goes on. A function may be empty.
struct ExportListener {
  // A record that is not written, and why.
  std::function<void(std::string_view name, std::string_view reason)> problem;
  std::function<void(const ExportCounts&)> progress;
  // A page of the list that the export is made of.
  std::function<void(const v1::ListTensorsResponse&)> page;
};

// Writes the records that `options` select, in the order of the list, and
// counts in `counts`, also if it fails. A tensor that cannot be read is told to
// `listener`, and the rest is written. Ends with the first error of a file or
// of the connection; what is complete by then stays. Memory does not depend on
// the size of the run.
ask::Outcome Export(ask::Connection& connection, const ExportOptions& options,
                    const ExportListener& listener, ExportCounts& counts);

}  // namespace msitd::write
