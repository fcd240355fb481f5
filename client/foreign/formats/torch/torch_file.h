// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "client/foreign/formats/file_entry.h"
#include "client/foreign/formats/zip_archive.h"

namespace msitd::formats {

// True if `torch.save` wrote the archive, or TorchScript.
bool IsTorch(const ZipArchive& archive);

// True for the first bytes of what torch wrote before it wrote archives.
bool IsOldTorch(std::string_view first_bytes);

// Opens what `torch.save` wrote: one tensor for each that is in it, by the path
// to it, joined by dots. Its pickle is read as data; one that names anything
// but what tensors need is refused with that name. UNIMPLEMENTED for a program
// of TorchScript.
OpenedFile OpenTorch(const std::shared_ptr<ZipArchive>& archive);

// The reason why a file of the old kind is not read.
absl::Status OldTorchProblem();

}  // namespace msitd::formats
