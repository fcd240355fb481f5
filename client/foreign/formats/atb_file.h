// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/foreign/formats/atb_reference.h"
#include "client/foreign/formats/file_entry.h"

namespace msitd::formats {

// True for the first bytes of a `.bin` file of ATB.
bool IsAtb(std::string_view first_bytes);

// Opens a `.bin` file: one tensor, whose elements are behind the head or in
// another file, which lies in `folder`, or is a tensor of the execution that
// `folder` is in. The attributes of the tensor are the lines of the head that
// have no field of their own. A file of statistics gives a tensor with these as
// attributes, and a problem instead of elements; without a type it is of
// float32. One of a description alone has no statistics either. `folders` may
// be null.
OpenedFile OpenAtb(std::shared_ptr<const ByteSource> bytes,
                   const std::string& folder, AtbFolders* folders);

}  // namespace msitd::formats
