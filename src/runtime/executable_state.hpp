#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tilemesh/runtime/executable.hpp"

namespace tilemesh::detail {

/// What a launch needs besides its tensors; reused from run to run, so that a run allocates
/// nothing.
struct LaunchScratch {
  std::vector<DeviceAddress> bases;                      ///< inputs, then outputs
  std::vector<std::shared_ptr<MeshBufferView>> buffers;  ///< of the same
  std::vector<Event> after;
  std::vector<Tensor> arguments;  ///< converted where needed
};

/// A program on a mesh. Immutable but for the pool of scratch.
struct ExecutableState {
  ExecutableState(BoundProgram bound, Mesh where) : program(std::move(bound)), mesh(where) {}

  BoundProgram program;
  Mesh mesh;
  std::vector<ArgumentInfo> inputs;
  std::vector<ArgumentInfo> outputs;
  std::vector<TensorSpec> device_inputs;  ///< as the devices see them: never on the host
  std::vector<TensorSpec> device_outputs;
  std::vector<std::shared_ptr<MeshBuffer>> constants;
  std::vector<std::shared_ptr<MeshBuffer>> workspaces;
  std::vector<std::shared_ptr<DeviceProgram>> device_programs;

  /// A scratch to use for one launch; give it back with `recycle`.
  std::unique_ptr<LaunchScratch> scratch();
  void recycle(std::unique_ptr<LaunchScratch> used) noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<LaunchScratch>> pool_;
};

}  // namespace tilemesh::detail
