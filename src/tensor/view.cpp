#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/tensor/transfer.hpp"

#include "tensor/tensor_state.hpp"

namespace tilemesh {
namespace {

Shape sizes_of(const Extents& extents) {
  Dims sizes;
  for (const Extent& extent : extents) {
    sizes.push_back(extent.size);
  }
  return Shape(sizes);
}

/// Whether row-major elements of both shapes lie alike on every device: nothing is cut behind the
/// dims that they have in common.
bool keeps_places(const TensorSpec& spec, const Shape& shape) {
  if (!spec.layout.is_rows()) {
    return false;
  }
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    if (!spec.placement(axis).is_shard()) {
      continue;
    }
    for (int dim = 0; dim <= spec.placement(axis).dim(); ++dim) {
      if (dim >= shape.rank() || shape[dim] != spec.shape[dim]) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

Layout detail::layout_of_part(const Layout& layout, const Shape& whole, const Shape& valid,
                              const std::string& what) {
  if (valid == whole || valid.element_count() == 0) {
    return layout;
  }
  const auto order = layout.order(whole.rank());
  const auto cut = std::find_if(order.begin() + 1, order.end(),
                                [&](int dim) { return valid[dim] != whole[dim]; });
  if (!layout.is_opaque() && layout.blocks().empty()) {
    // Blocks as large as the whole dim keep the strides of all dims outside of them.
    Layout::Blocks blocks;
    for (auto dim = cut; dim != order.end(); ++dim) {
      if (whole[*dim] > 1) {
        blocks.push_back({*dim, narrow<std::int32_t>(whole[*dim])});
      }
    }
    return blocks.empty() ? layout : Layout(order, blocks);
  }
  if (!layout.is_opaque()) {
    const Shape padded_whole = layout.padded(whole);
    const Shape padded_valid = layout.padded(valid);
    const bool same_strides = std::all_of(order.begin() + 1, order.end(), [&](int dim) {
      return padded_whole[dim] == padded_valid[dim];
    });
    if (same_strides) {
      return layout;
    }
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: its part is cut inside of the layout {}: convert the tensor to rows "
                          "first, or read it as a whole",
                          what, layout.to_string(whole.rank())));
}

Tensor Tensor::shard(const MeshCoord& coord) const {
  auto& state = detail::checked(state_);
  const std::string what = fmt::format("the shard of tensor \"{}\" ({}) at {}", state.label,
                                       state.spec.to_string(), to_string(coord));
  const auto owner = detail::owner_of(state_);
  const auto use = detail::use_on_mesh(state);
  const MeshShape& mesh = use.buffer->mesh().shape();
  if (!mesh.contains(coord)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} doesn't exist: the mesh is {}", what, mesh.to_string()));
  }
  TensorSpec spec = state.spec;
  const Mesh device = use.buffer->mesh().submesh({coord, coord});
  spec.mesh = device.shape();
  spec.shape = sizes_of(state.spec.extents(coord));
  spec.placements = {};
  spec.layout =
      detail::layout_of_part(state.spec.layout, state.spec.shard_shape(), spec.shape, what);
  return detail::make_view(spec, {owner, device}, state.label);
}

std::vector<Tensor> Tensor::shards() const {
  const MeshShape shape = mesh().shape();
  std::vector<Tensor> all;
  for (int i = 0; i < shape.device_count(); ++i) {
    all.push_back(shard(shape.coord_of(i)));
  }
  return all;
}

Tensor reshape(const Tensor& tensor, const Shape& shape) {
  auto& state = detail::checked(tensor.state());
  if (shape.element_count() != state.spec.shape.element_count()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tensor \"{}\" of shape {} has {} elements, the shape {} asks for {}",
                    state.label, state.spec.shape.to_string(), state.spec.shape.element_count(),
                    shape.to_string(), shape.element_count()));
  }
  TensorSpec spec = state.spec;
  spec.shape = shape;
  const auto owner = detail::owner_of(tensor.state());
  bool is_view = false;
  if (tensor.on_host()) {
    is_view = detail::use_on_host(state).strides == row_major_strides(state.spec.shape);
  } else {
    detail::use_on_mesh(state);  // throws if it is gone
    is_view = keeps_places(state.spec, shape);
  }
  if (is_view) {
    return detail::make_view(spec, {owner, detail::mesh_of_view(state)}, state.label);
  }
  if (tensor.on_host()) {
    return reshape(tensor.to_host(), shape);
  }
  TensorSpec whole = state.spec;
  whole.layout = Layout::rows();
  whole.placements = {};
  return reshape(to_spec(tensor, tensor.mesh(), whole, state.label), shape);
}

Tensor to_device(const Tensor& tensor, const Mesh& mesh, const TensorSpec& spec,
                 const std::string& label) {
  if (spec.space == Space::host) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("to_device of tensor \"{}\" wants a space of the device, got host: use "
                            "to_host",
                            tensor.label()));
  }
  return to_spec(tensor, mesh, spec, label);
}

Tensor Tensor::to_device(const Mesh& mesh, const TensorSpec& spec) const {
  return tilemesh::to_device(*this, mesh, spec, label());
}

}  // namespace tilemesh
