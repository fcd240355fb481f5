// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/mesh.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace msitd::compare {

std::string_view MeshText(std::string_view placement) {
  return placement.substr(0, placement.find(':'));
}

Mesh::Mesh(const Placement& placement)
    : first_(placement.first), last_rank_(placement.first) {
  for (size_t i = 0; i < placement.dims.size(); ++i) {
    const Placement::MeshDim& dim = placement.dims[i];
    if (dim.size == 1) continue;
    dims_.push_back({dim.size, dim.stride, i});
    // The ranks of a mesh are distinct, so that the product is at most kRankMax
    // + 1.
    size_ *= dim.size;
    last_rank_ += (dim.size - 1) * dim.stride;
  }
  std::sort(dims_.begin(), dims_.end(),
            [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  for (auto dim = dims_.rbegin();
       dim != dims_.rend() && dim->stride == row_size_; ++dim) {
    row_size_ *= dim->size;
  }
  group_number_ = FindGroupNumber();
}

int32_t Mesh::RankAt(int32_t number) const {
  int32_t rank = first_;
  for (auto dim = dims_.rbegin(); dim != dims_.rend(); ++dim) {
    rank += number % dim->size * dim->stride;
    number /= dim->size;
  }
  return rank;
}

std::optional<Mesh::Index> Mesh::IndexOf(int32_t rank) const {
  Index out{};
  int32_t rest = rank - first_;
  if (rest < 0) return std::nullopt;
  for (const Dim& dim : dims_) {
    // The extent of all smaller strides is below this stride.
    const int32_t index = rest / dim.stride;
    if (index >= dim.size) return std::nullopt;
    out[dim.number] = index;
    rest -= index * dim.stride;
  }
  if (rest != 0) return std::nullopt;
  return out;
}

int32_t Mesh::FindGroupNumber() const {
  int32_t group_number = 0;
  int32_t number_step = 1;
  // Number of consecutive ranks that meshes of this form fill together.
  int32_t block = 1;
  for (auto dim = dims_.rbegin(); dim != dims_.rend(); ++dim) {
    if (dim->stride % block != 0 || first_ / dim->stride % dim->size != 0) {
      return first_ / size_;
    }
    const int32_t between = dim->stride / block;
    group_number += first_ / block % between * number_step;
    number_step *= between;
    block = dim->stride * dim->size;
  }
  return group_number + first_ / block * number_step;
}

MeshSet::MeshSet(const std::vector<std::string>& placements) {
  std::set<std::string_view> seen;
  for (const std::string& text : placements) {
    const std::string_view mesh = MeshText(text);
    if (!seen.insert(mesh).second) continue;
    const std::optional<Placement> placement = ParsePlacement(text);
    if (placement.has_value()) meshes_.emplace_back(*placement);
  }
}

const Mesh* MeshSet::SmallestOf(int32_t rank) const {
  const Mesh* out = nullptr;
  for (const Mesh& mesh : meshes_) {
    if (mesh.size() > 1 && mesh.IndexOf(rank).has_value() &&
        (out == nullptr || mesh.size() < out->size())) {
      out = &mesh;
    }
  }
  return out;
}

void MeshSet::AddGroupNumbersOf(int32_t rank, std::vector<int32_t>& out) const {
  for (const Mesh& mesh : meshes_) {
    if (mesh.IndexOf(rank).has_value()) out.push_back(mesh.group_number());
  }
}

bool MeshSet::AreBeyond(int64_t token, int32_t group_number, RankCount ranks,
                        const std::map<int32_t, int64_t>& last_tokens) const {
  return std::all_of(meshes_.begin(), meshes_.end(), [&](const Mesh& mesh) {
    if (mesh.group_number() != group_number) return true;
    if (ranks.is_final && mesh.last_rank() >= ranks.count) return true;
    const auto beyond = std::count_if(
        last_tokens.begin(), last_tokens.end(), [&](const auto& last) {
          return last.second > token && mesh.IndexOf(last.first).has_value();
        });
    return beyond == mesh.size();
  });
}

}  // namespace msitd::compare
