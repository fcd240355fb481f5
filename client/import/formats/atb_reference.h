// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msitd::formats {

// Another tensor of the same execution, as a probe of ATB names it where it did
// not save one twice: `3_0_1_outtensor0.bin` is outtensor0.bin of op 1 in op 0
// in op 3.
struct AtbReference {
  std::vector<std::string> ops;  // Their numbers.
  std::string file;
};

// Nothing if it is another name.
std::optional<AtbReference> ParseAtbReference(std::string_view name);

// Returns where the tensor lies, if a file in `folder` names it:
// `<execution>/<number>_<op>/.../{before,after}`. Takes real folders and files
// below the execution alone, and nothing where two ops have one number.
std::optional<std::string> FindAtbReference(const AtbReference& reference,
                                            const std::string& folder);

}  // namespace msitd::formats
