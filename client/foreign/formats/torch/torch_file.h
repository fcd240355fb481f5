// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"
#include "client/foreign/formats/zip_archive.h"

namespace msitd::formats {

// Returns true if `torch.save` or TorchScript wrote the archive.
bool IsTorch(const ZipArchive& archive);

// Returns true for the first bytes of a file of the format that torch used
// before archives.
bool IsOldTorch(std::string_view first_bytes);

// Opens a file written by `torch.save`. Each tensor in it is delivered under
// its path, joined by dots. The pickle is read as data. If it names a global
// that tensors do not need, the file is rejected with that name. Returns
// UNIMPLEMENTED for a TorchScript program.
OpenedFile OpenTorch(const std::shared_ptr<ZipArchive>& archive);

// Returns the reason why a file of the old format is not read.
absl::Status OldTorchProblem();

}  // namespace msitd::formats
