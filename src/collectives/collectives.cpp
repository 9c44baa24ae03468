#include "tilemesh/collectives/collectives.hpp"

#include <fmt/format.h>

#include "tilemesh/tensor/reshard.hpp"
#include "tilemesh/tensor/transfer.hpp"

#include "collectives/axes.hpp"
#include "mesh/mesh_core.hpp"

namespace tilemesh {

namespace {

using Kind = Placement::Kind;
using detail::chosen_axes;
using detail::refuse;

constexpr std::string_view kNotPartial =
    "it is reduced already, or lies as something else; all_gather puts shards together";
constexpr std::string_view kNotCut = "distribute or reshard cuts a tensor";

/// The tensor lying otherwise along some axes.
Tensor changed(const Tensor& tensor, const std::vector<int>& axes, const Placement& placement) {
  Placements placements = detail::placements_of(tensor.spec());
  for (const int axis : axes) {
    placements[static_cast<std::size_t>(axis)] = placement;
  }
  return reshard(tensor, placements);
}

void check_dim(std::string_view collective, const Tensor& tensor, int dim) {
  const int rank = tensor.shape().rank();
  if (dim < 0 || dim >= rank) {
    refuse(collective, tensor, fmt::format("there is no dim {} to cut: it has {}", dim, rank));
  }
}

}  // namespace

Tensor all_reduce(const Tensor& tensor, const AllReduceOptions& options) {
  const auto axes =
      chosen_axes("all_reduce", tensor, options.axis, options.axes, Kind::partial, kNotPartial);
  return changed(detail::as_reduced_by("all_reduce", tensor, axes, options.op), axes, replicate());
}

Tensor all_gather(const Tensor& tensor, const AllGatherOptions& options) {
  auto axes = chosen_axes("all_gather", tensor, options.axis, options.axes, Kind::shard, kNotCut);
  if (options.dim != -1) {
    check_dim("all_gather", tensor, options.dim);
    const bool named = options.axis != -1 || !options.axes.empty();
    std::vector<int> right;
    for (const int axis : axes) {
      const int dim = tensor.spec().placement(axis).dim();
      if (named && dim != options.dim) {
        refuse("all_gather", tensor,
               fmt::format("axis {} cuts dim {}, not {}", axis, dim, options.dim));
      }
      if (dim == options.dim) right.push_back(axis);
    }
    if (right.empty()) {
      refuse("all_gather", tensor, fmt::format("no axis cuts dim {}", options.dim));
    }
    axes = right;
  }
  return changed(tensor, axes, replicate());
}

Tensor reduce_scatter(const Tensor& tensor, const ReduceScatterOptions& options) {
  const auto axes =
      chosen_axes("reduce_scatter", tensor, options.axis, options.axes, Kind::partial, kNotPartial);
  check_dim("reduce_scatter", tensor, options.dim);
  return changed(detail::as_reduced_by("reduce_scatter", tensor, axes, options.op), axes,
                 shard(options.dim));
}

Tensor all_to_all(const Tensor& tensor, const AllToAllOptions& options) {
  const auto axes =
      chosen_axes("all_to_all", tensor, options.axis, options.axes, Kind::shard, kNotCut);
  check_dim("all_to_all", tensor, options.dim);
  return changed(tensor, axes, shard(options.dim));
}

Tensor broadcast(const Tensor& tensor, const Mesh& mesh) {
  const TensorSpec& from = tensor.spec();
  if (tensor.on_host()) {
    refuse("broadcast", tensor, "it is on the host: distribute brings it to all devices at once");
  }
  TensorSpec to = from;
  to.mesh = mesh.shape();
  to.placements = {};
  to.placements.resize(static_cast<std::size_t>(mesh.shape().axes()));
  if (from.mesh.device_count() > 1) {
    bool fits = from.mesh.axes() == to.mesh.axes();
    for (int axis = 0; fits && axis < to.mesh.axes(); ++axis) {
      if (from.mesh[axis] == to.mesh[axis]) {
        to.placements[static_cast<std::size_t>(axis)] = from.placement(axis);
      }
      fits = from.mesh[axis] == to.mesh[axis] || from.mesh[axis] == 1;
    }
    if (!fits) {
      refuse("broadcast", tensor,
             fmt::format("mesh {} is to be filled along each axis from one device or from as many: "
                         "gather the tensor on one device, or on a line of them, first",
                         mesh.shape().to_string()));
    }
  }
  return to_spec(tensor, mesh, to, tensor.label());
}

Tensor reduce(const Tensor& tensor, const ReduceOptions& options) {
  const auto axes =
      chosen_axes("reduce", tensor, options.axis, options.axes, Kind::partial, kNotPartial);
  if (!options.root.empty() && options.root.size() != axes.size()) {
    refuse("reduce", tensor,
           fmt::format("the root has {} indices, but {} axes are reduced", options.root.size(),
                       axes.size()));
  }
  const Tensor parts = detail::as_reduced_by("reduce", tensor, axes, options.op);
  TensorSpec to = parts.spec();
  const MeshRange all = MeshRange::all(to.mesh);
  MeshCoord first = all.first();
  MeshCoord last = all.last();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int root = options.root.empty() ? 0 : options.root[i];
    if (root < 0 || root >= to.mesh[axes[i]]) {
      refuse("reduce", tensor,
             fmt::format("there is no root {} along axis {} of {}", root, axes[i],
                         to.mesh.to_string()));
    }
    const auto axis = static_cast<std::size_t>(axes[i]);
    first[axis] = last[axis] = root;
    to.placements[axis] = replicate();
  }
  const Mesh target = parts.mesh().submesh({first, last});
  to.mesh = target.shape();
  return to_spec(parts, target, to, tensor.label());
}

}  // namespace tilemesh
