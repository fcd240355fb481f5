// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/torch_objects.h"

#include <fmt/format.h>

#include "client/foreign/formats/format_limits.h"

namespace msitd::formats {
namespace {

// Objects that are named in a file with more of them.
constexpr uint64_t kShownObjectsMax = 8;

std::string TextOf(std::string_view module, std::string_view name) {
  if (module.starts_with("numpy.") && name == "scalar") return "a NumPy number";
  if (module.starts_with("numpy.") && name == "_reconstruct") {
    return "a NumPy array";
  }
  return fmt::format("{}.{}", module.substr(0, kShownNameBytesMax),
                     name.substr(0, kShownNameBytesMax));
}

}  // namespace

void ObjectList::Add(std::string_view path, std::string_view module,
                     std::string_view name) {
  if (++count_ > kShownObjectsMax) return;
  if (!first_.empty()) first_ += ", ";
  const std::string text = TextOf(module, name);
  first_ +=
      path.empty()
          ? text
          : fmt::format("{} ({})", path.substr(0, kShownNameBytesMax), text);
}

void ObjectList::CutTo(const Mark& mark) {
  count_ = mark.count;
  first_.resize(mark.size);
}

}  // namespace msitd::formats
