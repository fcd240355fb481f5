// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/foreign/formats/atb_reference.h"
#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// Returns true for the first bytes of a `.bin` file of ATB.
bool IsAtb(std::string_view first_bytes);

// Opens a `.bin` file. It contains one tensor, whose elements follow the header
// or are in another file. That file is in `folder`, or is a tensor of the
// execution to which `folder` belongs. The attributes of the tensor are the
// lines of the header for which ForeignTensor has no field. A file of
// statistics becomes a tensor with these as attributes and with a problem
// instead of elements; without a type, it is float32. A file with only a
// description has no statistics either. `folders` may be null.
OpenedFile OpenAtb(std::shared_ptr<const ByteSource> bytes,
                   const std::string& folder, AtbFolders* folders);

}  // namespace msitd::formats
