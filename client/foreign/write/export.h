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

// Writes a run into a folder, as files that other tools read. README.md
// describes the layouts.
namespace msitd::write {

enum class ExportFormat : uint8_t {
  kNpy,          // A file for each tensor, in the format of numpy.save.
  kNpz,          // An archive of these for each rank and token.
  kSafetensors,  // A file for each rank and token.
  kPt,           // A file for each tensor, in the format of torch.save.
  kMsit,         // The folders of msit's dumps of a torch model.
  kMsprobe,      // The folders of msprobe's dumps.
  kTensorboard,  // Scalars of summaries, in files of events of TensorBoard.
};

// Returns "npy", "npz", "safetensors", "pt", "msit", "msprobe" or
// "tensorboard".
std::string_view ExportFormatName(ExportFormat format);

// The inverse of ExportFormatName; nothing for an unknown name.
std::optional<ExportFormat> ParseExportFormat(std::string_view name);

// The checksum of a tensor's bytes in dumps of msprobe.
enum class Checksum : uint8_t {
  kNone,
  kCrc32,  // Eight digits. msprobe calls it md5.
  kXor,    // Xor of words of eight bytes, the last one padded with zeros.
};

struct ExportOptions {
  std::string run;
  // The records to export. Without kinds: those for which the format is made.
  v1::TensorFilter filter;
  ExportFormat format = ExportFormat::kNpy;
  std::string folder;
  // Files of the same name are replaced. Otherwise, the folder must be empty.
  bool replaces = false;
  // For msit: also writes statistics.csv.
  bool with_statistics = false;
  // For msprobe: writes NaN and the infinities as texts, so that any JSON
  // parser can read the documents.
  bool is_legal_json = false;
  // For msprobe: the contents of the member `md5` of each tensor.
  Checksum checksum = Checksum::kNone;
  // For msprobe: writes no files of tensors, so that the dump contains only
  // statistics.
  bool without_tensors = false;
};

struct ExportCounts {
  // The records that were written.
  int64_t tensor_count = 0;
  int64_t value_count = 0;
  int64_t statistics_count = 0;
  int64_t document_count = 0;
  int64_t file_count = 0;
  int64_t size_bytes = 0;  // The size of the tensors.
  // Dumps of msprobe that were created from records although the run has a
  // document.
  int64_t remade_count = 0;
  // Records that should have been written and were not.
  int64_t problem_count = 0;
  // Selected tensors of which the daemon lacks a part. They are in no list, so
  // they cannot be named.
  int64_t incomplete_count = 0;
};

// Callbacks during an export. Each may be empty.
struct ExportListener {
  // A record that is not written, and the reason.
  std::function<void(std::string_view name, std::string_view reason)> problem;
  std::function<void(const ExportCounts&)> progress;
  // A page of the list from which the export is created.
  std::function<void(const v1::ListTensorsResponse&)> page;
};

// Writes the records that `options` select, in the order of the list. `counts`
// is updated even on failure. A tensor that cannot be read is reported to
// `listener`, and the rest is written. Ends with the first error of a file or
// of the connection; files that are complete by then stay. Memory use does not
// depend on the size of the run.
ask::Outcome Export(ask::Connection& connection, const ExportOptions& options,
                    const ExportListener& listener, ExportCounts& counts);

}  // namespace msitd::write
