// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// An immutable list of tensors. Copies of it, and lists of some of its tensors,
// share its memory, so that views read the tensors of a token without copies of
// them. The price is that one tensor with a view keeps all tensors of its token
// in memory. Tensors that outlive their group must therefore be Detached
// (tensor_view.h).
//
// Copying is thread-safe.
class SharedTensors {
 public:
  SharedTensors() = default;
  explicit SharedTensors(std::vector<LogicalTensor> tensors) {
    auto owner =
        std::make_shared<const std::vector<LogicalTensor>>(std::move(tensors));
    tensors_ = *owner;
    owner_ = std::move(owner);
  }

  // Returns a list of one of the tensors.
  SharedTensors Only(size_t number) const {
    SharedTensors out;
    out.owner_ = owner_;
    out.tensors_ = tensors_.subspan(number, 1);
    return out;
  }

  size_t size() const { return tensors_.size(); }
  bool empty() const { return tensors_.empty(); }
  const LogicalTensor* data() const { return tensors_.data(); }
  const LogicalTensor& operator[](size_t number) const {
    return tensors_[number];
  }
  const LogicalTensor& front() const { return tensors_.front(); }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const LogicalTensor> tensors_;
};

}  // namespace msitd::compare
