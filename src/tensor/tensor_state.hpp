#pragma once

#include <memory>
#include <mutex>
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
using MeshStorage = std::shared_ptr<MeshBuffer>;

/// Why a tensor has no storage any more.
struct Freed {
  std::string how;  ///< "deallocated at main.cpp:12", "donated to program \"step\""
};

/// What all handles of one tensor share. `spec` and `label` never change; the rest is under the
/// lock.
struct TensorState {
  TensorSpec spec;
  std::string label;

  std::mutex mutex;
  std::variant<HostStorage, MeshStorage, Freed> storage;
  Event event;
};

/// Storage and event taken together; throws `deallocated` if there is no storage.
struct MeshUse {
  MeshStorage buffer;
  Event event;
};
MeshUse use_on_mesh(TensorState& state);
HostStorage use_on_host(TensorState& state);
/// Takes the storage away: every handle is invalid from now on.
MeshUse take(TensorState& state, std::string how);

Tensor make_mesh_tensor(const TensorSpec& spec, MeshStorage buffer, Event event, std::string label);
Tensor make_host_tensor(const TensorSpec& spec, HostStorage storage, Event event,
                        std::string label);
/// A row-major host tensor that fills once `tensor`'s event has completed; returns at once.
Tensor download(const Tensor& tensor, const std::string& label);
/// Throws invalid_argument for the empty handle.
TensorState& checked(const std::shared_ptr<TensorState>& state);

}  // namespace tilemesh::detail
