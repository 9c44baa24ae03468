#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "tilemesh/tensor/tensor.hpp"

namespace tilemesh::detail {

/// Elements in the process's memory, kept by `owner`. `data` is logical index 0.
struct HostStorage {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  Dims strides;
};

/// A shard on each device of a mesh. Commands in flight share it, so that freeing a tensor returns
/// the range when the last of them has ended.
/// The pointer owns the whole buffer, also where it points at a part of it.
using MeshStorage = std::shared_ptr<MeshBufferView>;

struct TensorState;

/// A view: it has no bytes of its own, and asks its source for them at each use, so that it never
/// holds what the source has given back. `source` is no view itself.
struct SourceStorage {
  std::shared_ptr<TensorState> source;
  std::optional<Mesh> mesh = {};  ///< another view of some or all of its devices; none: its own
};

/// Why a tensor has no storage any more.
struct Freed {
  std::string how;  ///< "deallocated at main.cpp:12", "donated to program \"step\""
};

/// What all handles of one tensor share. `spec` and `label` never change; the rest is under the
/// lock. The event of a view is that of its source.
struct TensorState {
  TensorSpec spec;
  std::string label;

  std::mutex mutex;
  std::variant<HostStorage, MeshStorage, SourceStorage, Freed> storage;
  Event event;
};

/// Storage and event taken together; throws `deallocated` if there is no storage.
struct MeshUse {
  MeshStorage buffer;
  Event event;
};
MeshUse use_on_mesh(TensorState& state);
HostStorage use_on_host(TensorState& state);
/// The event of a tensor or of what it is a view of, and setting it.
Event event_of(TensorState& state);
void set_event(TensorState& state, Event event);
/// What the bytes belong to: the source of a view, else the tensor itself. Throws `deallocated`.
std::shared_ptr<TensorState> owner_of(const std::shared_ptr<TensorState>& state);
/// The view of the devices that a tensor which is a view has of its own; none otherwise.
std::optional<Mesh> mesh_of_view(TensorState& state);
/// The layout in which `valid` elements lie where `layout` puts them within a shard of shape
/// `whole`: the rest of the shard becomes padding, which is zero as padding has to be. Throws
/// unsupported, beginning with `what`, where there is none.
Layout layout_of_part(const Layout& layout, const Shape& whole, const Shape& valid,
                      const std::string& what);
/// Takes the storage away: every handle is invalid from now on.
MeshUse take(TensorState& state, std::string how);

Tensor make_mesh_tensor(const TensorSpec& spec, MeshStorage buffer, Event event, std::string label);
Tensor make_view(const TensorSpec& spec, SourceStorage source, std::string label);
Tensor make_host_tensor(const TensorSpec& spec, HostStorage storage, Event event,
                        std::string label);
/// The tensor as `mesh` and `spec` see it, if every device of the mesh already holds exactly what
/// it should hold, so that nothing is copied; the tensor itself if that is what it is. Shapes must
/// be equal.
std::optional<Tensor> view_as(const Tensor& tensor, const Mesh& mesh, const TensorSpec& spec);

/// A row-major host tensor that fills once `tensor`'s event has completed; returns at once.
Tensor download(const Tensor& tensor, const std::string& label);
/// Throws invalid_argument for the empty handle.
TensorState& checked(const std::shared_ptr<TensorState>& state);

}  // namespace tilemesh::detail
