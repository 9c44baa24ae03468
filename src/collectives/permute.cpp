#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "tilemesh/collectives/collectives.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/tensor/transfer.hpp"

#include "collectives/axes.hpp"
#include "mesh/mesh_core.hpp"
#include "tensor/tensor_state.hpp"

namespace tilemesh {

namespace {

using detail::refuse;

/// By the row-major index of the device that gets it: the one that has it.
using Sources = std::vector<std::optional<int>>;

Sources sources_of(const Tensor& tensor, std::span<const Route> routes) {
  const MeshShape& mesh = tensor.spec().mesh;
  Sources sources(static_cast<std::size_t>(mesh.device_count()));
  for (const Route& route : routes) {
    for (const MeshCoord& coord : {route.from, route.to}) {
      if (!mesh.contains(coord)) {
        refuse("permute", tensor, fmt::format("{} is outside of the mesh", to_string(coord)));
      }
    }
    auto& source = sources[static_cast<std::size_t>(mesh.index_of(route.to))];
    if (source) {
      refuse("permute", tensor, fmt::format("two routes lead to {}", to_string(route.to)));
    }
    source = mesh.index_of(route.from);
  }
  return sources;
}

/// The first device that holds the same.
int first_replica(const TensorSpec& spec, int index) {
  MeshCoord coord = spec.mesh.coord_of(index);
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    if (spec.placement(axis).is_replicate()) coord[static_cast<std::size_t>(axis)] = 0;
  }
  return spec.mesh.index_of(coord);
}

bool same_sizes(const TensorSpec& spec, int a, int b) {
  return std::ranges::equal(spec.extents(spec.mesh.coord_of(a)),
                            spec.extents(spec.mesh.coord_of(b)), std::equal_to<>(), &Extent::size,
                            &Extent::size);
}

void check(const Tensor& tensor, const Sources& sources) {
  const TensorSpec& spec = tensor.spec();
  const auto meaning = [&](const std::optional<int>& source) {
    return source ? first_replica(spec, *source) : -1;
  };
  for (int target = 0; target < spec.mesh.device_count(); ++target) {
    const std::string place = to_string(spec.mesh.coord_of(target));
    const auto& source = sources[static_cast<std::size_t>(target)];
    const auto& other = sources[static_cast<std::size_t>(first_replica(spec, target))];
    if (meaning(source) != meaning(other)) {
      refuse("permute", tensor,
             fmt::format("{} would get something else than the devices that hold the same as it: "
                         "move all replicas alike, or reshard so that none are left",
                         place));
    }
    if (source && !same_sizes(spec, *source, target)) {
      refuse("permute", tensor,
             fmt::format("the shard of {} has another size than that of {}: only equal ones can "
                         "change places",
                         to_string(spec.mesh.coord_of(*source)), place));
    }
  }
}

}  // namespace

Tensor permute(const Tensor& tensor, std::span<const Route> routes) {
  if (tensor.on_host()) {
    refuse("permute", tensor, "it is on the host: bring it to a mesh with distribute first");
  }
  const TensorSpec& spec = tensor.spec();
  const Sources sources = sources_of(tensor, routes);
  check(tensor, sources);
  const auto use = detail::use_on_mesh(*tensor.state());
  const Mesh& mesh = use.buffer->mesh();
  const bool all = std::ranges::all_of(sources, [](const auto& source) { return !!source; });
  const Tensor result = all ? empty(mesh, spec, tensor.label()) : zeros(mesh, spec, tensor.label());
  const auto target = detail::use_on_mesh(*result.state());
  std::vector<ShardCopy> copies;
  std::int64_t moved = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i]) {
      copies.push_back(
          {.from = spec.mesh.coord_of(*sources[i]), .to = spec.mesh.coord_of(static_cast<int>(i))});
      moved += std::cmp_equal(*sources[i], i) ? 0 : spec.bytes_per_device();
    }
  }
  if (copies.empty() || spec.bytes_per_device() == 0) return result;
  const Event done = mesh.queue(0).enqueue_copy(
      *use.buffer, *target.buffer, copies,
      {.after = {use.event, target.event}, .label = "permute of \"" + tensor.label() + "\""});
  done.then([source = use.buffer, target = target.buffer](const Status&) {});  // held until then
  mesh.core().count_exchange(moved);
  detail::set_event(*result.state(), done);
  return result;
}

Tensor permute(const Tensor& tensor, int axis, std::span<const AxisRoute> routes) {
  const MeshShape& mesh = tensor.spec().mesh;
  if (axis < 0 || axis >= mesh.axes()) {
    refuse("permute", tensor,
           fmt::format("there is no axis {}: the mesh has {}", axis, mesh.axes()));
  }
  const auto a = static_cast<std::size_t>(axis);
  std::vector<Route> all;
  for (int index = 0; index < mesh.device_count(); ++index) {
    const MeshCoord line = mesh.coord_of(index);
    if (line[a] != 0) continue;
    for (const AxisRoute& route : routes) {
      Route one{line, line};
      one.from[a] = route.from;
      one.to[a] = route.to;
      all.push_back(one);
    }
  }
  return permute(tensor, all);
}

}  // namespace tilemesh
