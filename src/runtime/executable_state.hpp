#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/runtime/executable.hpp"
#include "tilemesh/runtime/submit.hpp"

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

/// The program's ops as steps of its devices, with constants and workspaces where `state` has them.
std::vector<DeviceStep> make_steps(const ExecutableState& state);
/// The steps as a program of each device, which takes part in exchanges as the member it is.
std::vector<std::shared_ptr<DeviceProgram>> prepare_steps(const Mesh& mesh,
                                                          std::vector<DeviceStep> steps);

/// As run(), with `execute` in place of the launch: it gets the bound addresses, and returns when
/// all has run.
std::vector<Tensor> run_with(const Executable& executable, std::span<const Argument> arguments,
                             const SubmitOptions& options,
                             const std::function<void(const LaunchScratch&)>& execute);

}  // namespace tilemesh::detail
