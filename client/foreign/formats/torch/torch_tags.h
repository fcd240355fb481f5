// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/formats/torch/pickle.h"

namespace msitd::formats {

// The value that a dumper saved together with its tags: {"value", "meta"}.
struct Tagged {
  PickleValue value;
  PickleValue tags;
};

// Returns nothing if the root of the pickle has another form.
std::optional<Tagged> TaggedOf(const Pickle& pickle);

// Returns the scalars in a dict of tags. The names of nested ones are joined by
// dots. Values that are not scalars are ignored, and those beyond kTagsMax.
Attributes TagsOf(const Pickle& pickle, PickleValue dict);

}  // namespace msitd::formats
