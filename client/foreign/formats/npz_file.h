// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/formats/file_entry.h"
#include "client/foreign/formats/zip_archive.h"

namespace msitd::formats {

// Opens an archive of .npy files. Each member becomes a tensor with the
// member's name without `.npy`. A member that is not a .npy file has a problem.
// If the only members are `inputs` and `outputs`, with two columns or empty,
// each row becomes an input or an output.
OpenedFile OpenNpz(const std::shared_ptr<ZipArchive>& archive,
                   const OpenOptions& options);

}  // namespace msitd::formats
