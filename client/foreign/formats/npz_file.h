// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "client/foreign/formats/file_entry.h"
#include "client/foreign/formats/zip_archive.h"

namespace msitd::formats {

// Opens an archive of .npy files, one tensor for each member, by its name
// without `.npy`. A member that is no such file has a problem. If there are
// just `inputs` and `outputs`, with two columns or empty, each row is an input
// or an output of its own.
OpenedFile OpenNpz(const std::shared_ptr<ZipArchive>& archive,
                   const OpenOptions& options);

}  // namespace msitd::formats
