#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/tensor/reshard.hpp"
#include "tilemesh/tensor/transfer.hpp"

#include "mesh/mesh_core.hpp"
#include "tensor/device_work.hpp"
#include "tensor/redistribute.hpp"
#include "tensor/shard_io.hpp"
#include "tensor/tensor_state.hpp"

namespace tilemesh {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

void check_count(std::span<const Tensor> shards, const MeshShape& mesh) {
  if (!std::cmp_equal(shards.size(), mesh.device_count())) {
    refuse(fmt::format("a tensor on mesh {} is made of {} shards, one for each coordinate; got {}",
                       mesh.to_string(), mesh.device_count(), shards.size()));
  }
}

/// Along the axes that cut it, the sizes of a dim's shards add up.
Shape global_shape(std::span<const Tensor> shards, const TensorSpec& spec) {
  Dims sizes = shards.front().shape().sizes();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] = 0;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const MeshCoord coord = spec.mesh.coord_of(static_cast<int>(i));
      bool first = true;  // along all axes that don't cut this dim
      for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
        const Placement along = spec.placement(axis);
        const bool cuts = along.is_shard() && along.dim() == static_cast<int>(d);
        first = first && (cuts || coord[static_cast<std::size_t>(axis)] == 0);
      }
      if (first && std::cmp_less(d, shards[i].shape().rank())) {
        sizes[d] = checked_add(sizes[d], shards[i].shape()[static_cast<int>(d)]);
      }
    }
  }
  return Shape(sizes);
}

Shape sizes_of(const Extents& extents) {
  Dims sizes;
  for (const Extent& extent : extents) {
    sizes.push_back(extent.size);
  }
  return Shape(sizes);
}

/// Checks the shards against each other, and says what they are together; rows in dram.
TensorSpec whole_of(std::span<const Tensor> shards, const MeshShape& mesh,
                    const Placements& placements) {
  check_count(shards, mesh);
  TensorSpec spec{.dtype = shards.front().dtype(), .placements = placements, .mesh = mesh};
  if (!placements.empty() && !std::cmp_equal(placements.size(), mesh.axes())) {
    refuse(fmt::format("there are {} placements, but mesh {} has {} axes", placements.size(),
                       mesh.to_string(), mesh.axes()));
  }
  spec.shape = global_shape(shards, spec);
  spec.check();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const MeshCoord coord = mesh.coord_of(static_cast<int>(i));
    const Shape wanted = sizes_of(spec.extents(coord));
    if (!(shards[i].shape() == wanted) || shards[i].dtype() != spec.dtype) {
      refuse(
          fmt::format("the shard for {} is {}{}, but should be {}{}: together the shards are {} "
                      "on mesh {} {}, and a dim is cut into equal parts of which only the last "
                      "may be smaller or empty",
                      to_string(coord), to_string(shards[i].dtype()), shards[i].shape().to_string(),
                      to_string(spec.dtype), wanted.to_string(), spec.shape.to_string(),
                      mesh.to_string(), placements_to_string(spec)));
    }
  }
  return spec;
}

/// The tensor that all shards are views of, if they lie in it as those of `spec` would, and its
/// layout then becomes that of `spec`.
std::shared_ptr<detail::TensorState> common_source(std::span<const Tensor> shards, const Mesh& mesh,
                                                   TensorSpec& spec) {
  if (std::ranges::any_of(shards, [](const Tensor& shard) { return shard.on_host(); })) {
    return nullptr;
  }
  const auto source = detail::owner_of(shards.front().state());
  TensorSpec found = spec;
  found.layout = source->spec.layout;
  found.space = source->spec.space;
  if (source->spec.dtype != spec.dtype || !(source->spec.shard_shape() == found.shard_shape()) ||
      !detail::share_devices(detail::use_on_mesh(*source).buffer->mesh(), mesh)) {
    return nullptr;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Mesh own = shards[i].mesh();
    const bool there =
        detail::owner_of(shards[i].state()) == source && own.device_count() == 1 &&
        own.view().device_at(0) == mesh.view().device_at(static_cast<int>(i)) &&
        shards[i].spec().layout ==
            detail::layout_of_part(found.layout, found.shard_shape(), shards[i].shape(), "a shard");
    if (!there) {
      return nullptr;
    }
  }
  spec = found;
  return source;
}

/// Fills each device's part from what now is on the host or on that device.
Event place_all(const std::vector<Tensor>& shards, const detail::MeshStorage& target,
                const TensorSpec& spec) {
  struct Source {
    detail::HostStorage host;
    detail::MeshStorage buffer;
    TensorSpec spec;
  };
  auto sources = std::make_shared<std::vector<Source>>();
  std::vector<Event> after;
  for (const Tensor& shard : shards) {
    auto& state = *shard.state();
    Source source{.host = {}, .buffer = nullptr, .spec = state.spec};
    if (shard.on_host()) {
      source.host = detail::use_on_host(state);
      target->mesh().core().count_upload(state.spec.shape.element_count() * size_of(spec.dtype));
    } else {
      source.buffer = detail::use_on_mesh(state).buffer;
    }
    after.push_back(detail::event_of(state));
    sources->push_back(std::move(source));
  }
  return detail::for_each_device(
      target->mesh(), spec.space, detail::total_bytes(spec), Event::when_all(after), false,
      "shards of \"" + target->label() + "\"", [sources, target, spec](int index) {
        const Source& source = (*sources)[static_cast<std::size_t>(index)];
        if (source.buffer != nullptr) {
          detail::place_shard(*source.buffer, source.spec, *target, spec, index);
        } else {
          const ConstStridedView part(source.host.data, source.spec.dtype, source.spec.shape,
                                      source.host.strides);
          detail::write_part(*target, spec, index, part);
        }
      });
}

/// Logical index 0 of the whole, if the shards lie in one array as split cuts them.
const std::byte* common_array(std::span<const Tensor> shards, const TensorSpec& spec,
                              const detail::HostStorage& first) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto storage = detail::use_on_host(*shards[i].state());
    const std::byte* wanted = first.data;
    const Extents extents = spec.extents(spec.mesh.coord_of(static_cast<int>(i)));
    for (std::size_t d = 0; d < extents.size(); ++d) {
      wanted += extents[d].begin * first.strides[d] * size_of(spec.dtype);
    }
    if (storage.owner != first.owner || storage.strides != first.strides ||
        storage.data != wanted) {
      return nullptr;
    }
  }
  return first.data;
}

TensorSpec as_host(const TensorSpec& spec, const Shape& shape) {
  return {.shape = shape, .dtype = spec.dtype, .space = Space::host};
}

}  // namespace

Tensor from_shards(std::span<const Tensor> shards, const Mesh& mesh, const Placements& placements,
                   const std::string& label) {
  check_count(shards, mesh.shape());
  TensorSpec spec = whole_of(shards, mesh.shape(), placements);
  if (auto source = common_source(shards, mesh, spec)) {
    std::string name = source->label;
    return detail::make_view(spec, {std::move(source), mesh}, std::move(name));
  }
  std::vector<Tensor> near(shards.begin(), shards.end());
  for (std::size_t i = 0; i < near.size(); ++i) {
    if (near[i].on_host()) {
      continue;
    }
    const MeshCoord coord = mesh.shape().coord_of(static_cast<int>(i));
    const Mesh device = mesh.submesh({coord, coord});
    const Mesh own = near[i].mesh();
    const bool there = detail::share_devices(own, mesh) && own.device_count() == 1 &&
                       own.view().devices == device.view().devices;
    if (!there) {
      near[i] = distribute(near[i], device, {}, label + " on its way");
    }
  }
  const auto target = detail::allocate_tensor(mesh, spec, label);
  return detail::make_mesh_tensor(spec, target, place_all(near, target, spec), label);
}

Tensor from_shards(std::span<const Tensor> shards, const MeshShape& mesh,
                   const Placements& placements) {
  const TensorSpec spec = whole_of(shards, mesh, placements);
  if (detail::reduced_by(spec)) {
    refuse(
        fmt::format("a host tensor can't be {} on mesh {}: put parts of a reduction together on "
                    "a mesh",
                    placements_to_string(spec), mesh.to_string()));
  }
  for (const Tensor& shard : shards) {
    if (!shard.on_host()) {
      refuse(
          fmt::format("shard \"{}\" ({}) is on a mesh: name the mesh that the whole shall be on, "
                      "or bring it to the host with to_host",
                      shard.label(), shard.spec().to_string()));
    }
    shard.wait();
  }
  const auto first = detail::use_on_host(*shards.front().state());
  if (const std::byte* data = common_array(shards, spec, first)) {
    return detail::make_host_tensor(as_host(spec, spec.shape), {first.owner, data, first.strides},
                                    {}, shards.front().label());
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<std::size_t>(spec.shape.element_count() * size_of(spec.dtype)));
  const Dims strides = row_major_strides(spec.shape);
  for (std::size_t i = shards.size(); i-- > 0;) {  // the first of what is replicated comes last
    const Extents extents = spec.extents(mesh.coord_of(static_cast<int>(i)));
    std::byte* data = bytes->data();
    for (std::size_t d = 0; d < extents.size(); ++d) {
      data += extents[d].begin * strides[d] * size_of(spec.dtype);
    }
    copy_strided(shards[i].host_view(), {data, spec.dtype, shards[i].shape(), strides});
  }
  return detail::make_host_tensor(as_host(spec, spec.shape), {bytes, bytes->data(), strides}, {},
                                  shards.front().label());
}

std::vector<Tensor> split(const Tensor& host, const MeshShape& mesh, const Placements& placements) {
  const TensorSpec spec{.shape = host.shape(),
                        .dtype = host.dtype(),
                        .placements = placements,
                        .space = Space::host,
                        .mesh = mesh};
  spec.check();
  if (detail::reduced_by(spec)) {
    refuse(fmt::format("tensor \"{}\" can't be split into parts of a reduction ({})", host.label(),
                       placements_to_string(spec)));
  }
  const auto storage = detail::use_on_host(detail::checked(host.state()));
  std::vector<Tensor> shards;
  for (int i = 0; i < mesh.device_count(); ++i) {
    const Extents extents = spec.extents(mesh.coord_of(i));
    const Shape shape = sizes_of(extents);
    detail::HostStorage part = storage;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      part.data += extents[d].begin * storage.strides[d] * size_of(spec.dtype);
    }
    shards.push_back(detail::make_host_tensor(as_host(spec, shape), std::move(part), host.event(),
                                              host.label()));
  }
  return shards;
}

}  // namespace tilemesh
