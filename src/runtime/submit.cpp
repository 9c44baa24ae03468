#include "tilemesh/runtime/submit.hpp"

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/mesh_core.hpp"
#include "runtime/executable_state.hpp"
#include "tensor/tensor_state.hpp"

namespace tilemesh {

namespace {

using detail::ExecutableState;
using detail::LaunchScratch;

/// Gives the scratch back to its executable whatever happens.
class ScratchLease {
 public:
  explicit ScratchLease(ExecutableState& state) : state_(state), scratch_(state.scratch()) {}
  ~ScratchLease() { state_.recycle(std::move(scratch_)); }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;
  LaunchScratch& operator*() const { return *scratch_; }
  LaunchScratch* operator->() const { return scratch_.get(); }

 private:
  ExecutableState& state_;
  std::unique_ptr<LaunchScratch> scratch_;
};

[[noreturn]] void refuse(const ArgumentInfo& input, const TensorSpec& got,
                         std::string_view remedy) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("input \"{}\" of program \"{}\" wants {}{}, got {}{}: {}", input.name,
                          input.program, to_string(input.spec.dtype), input.spec.shape.to_string(),
                          to_string(got.dtype), got.shape.to_string(), remedy));
}

void check_argument(const ArgumentInfo& input, const TensorSpec& got) {
  if (!(got.shape == input.spec.shape)) {
    const int missing = input.spec.shape.rank() - got.shape.rank();
    refuse(input, got,
           missing == 0  ? "pass a tensor of that shape, or compile the model for this one"
           : missing > 0 ? "add the missing dims"
                         : "remove the additional dims");
  }
  if (got.dtype != input.spec.dtype) {
    refuse(input, got, "convert the elements first; dtypes are never changed silently");
  }
}

void check_count(const ExecutableState& state, std::size_t count) {
  if (count != state.inputs.size()) {
    std::string names;
    for (const ArgumentInfo& input : state.inputs) {
      names += (names.empty() ? "\"" : ", \"") + input.name + "\"";
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("program \"{}\" wants {} inputs ({}), got {}", state.program->name,
                            state.inputs.size(), names, count));
  }
}

/// The output that takes over input `i`, or -1.
int alias_of(const ExecutableState& state, std::size_t i) {
  const auto& outputs = state.program->outputs;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].alias == static_cast<std::int32_t>(i)) {
      return static_cast<int>(k);
    }
  }
  return -1;
}

void check_donations(const ExecutableState& state, std::span<const Argument> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].donated) {
      if (alias_of(state, i) >= 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("input \"{}\" of program \"{}\" is state and is written in place: "
                                "give it away with donate(std::move(tensor))",
                                state.inputs[i].name, state.program->name));
      }
      continue;
    }
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      if (k != i && arguments[k].tensor.state() == arguments[i].tensor.state()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("inputs \"{}\" and \"{}\" of program \"{}\" are the same tensor, "
                                "and it is donated: pass a copy for one of them",
                                state.inputs[i].name, state.inputs[k].name, state.program->name));
      }
    }
  }
}

bool is_as_wanted(const ExecutableState& state, std::size_t i, const detail::TensorState& tensor) {
  if (tensor.spec.space == Space::host) {
    return false;
  }
  return tensor.spec == state.device_inputs[i] ||
         plan(tensor.spec, state.device_inputs[i]).is_noop();
}

/// The argument in the form that the devices want, under the policy.
Tensor converted(const ExecutableState& state, std::size_t i, const Argument& argument,
                 const SubmitOptions& options) {
  const ArgumentInfo& input = state.inputs[i];
  const TensorSpec& got = argument.tensor.spec();
  const TensorSpec& wanted = state.device_inputs[i];
  if (argument.donated && alias_of(state, i) >= 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("state \"{}\" of program \"{}\" can't be updated in place: it is {}, and "
                    "the program wants {}: use to_layout first",
                    input.name, input.program, got.to_string(), wanted.to_string()));
  }
  const bool host_as_wanted = got.space == Space::host && input.spec.space == Space::host;
  if (options.conversion == Conversion::forbid && !host_as_wanted) {
    throw Error(
        ErrorCode::conversion_forbidden,
        fmt::format("input \"{}\" of program \"{}\" would need a copy ({}): it is {}, and the "
                    "program wants {}: use to_layout once, or allow conversions",
                    input.name, input.program, plan(got, wanted).to_string(), got.to_string(),
                    wanted.to_string()));
  }
  return to_spec(argument.tensor, state.mesh, wanted, input.program + "." + input.name);
}

void bind_input(const ExecutableState& state, std::size_t i, const Argument& argument,
                const SubmitOptions& options, LaunchScratch& scratch) {
  auto* tensor = &detail::checked(argument.tensor.state());
  check_argument(state.inputs[i], tensor->spec);
  detail::MeshUse use;
  const bool direct = is_as_wanted(state, i, *tensor);
  if (direct) {
    use = detail::use_on_mesh(*tensor);
  }
  if (!direct || !(use.buffer->mesh() == state.mesh)) {
    const auto seen = tensor->spec.space == Space::host
                          ? std::nullopt
                          : detail::view_as(argument.tensor, state.mesh, state.device_inputs[i]);
    const Tensor made = seen ? *seen : converted(state, i, argument, options);
    use = detail::use_on_mesh(*made.state());
  }
  scratch.bases.push_back(use.buffer->address());
  if (!(use.event == Event())) {
    scratch.after.push_back(std::move(use.event));
  }
  scratch.buffers.push_back(std::move(use.buffer));
}

void bind_inputs(const ExecutableState& state, std::span<const Argument> arguments,
                 const SubmitOptions& options, LaunchScratch& scratch) {
  check_count(state, arguments.size());
  check_donations(state, arguments);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    bind_input(state, i, arguments[i], options, scratch);
  }
  // Only now, when nothing can be refused any more, donated handles become invalid.
  for (const Argument& argument : arguments) {
    if (argument.donated && argument.tensor.is_allocated() && !argument.tensor.on_host()) {
      detail::take(*argument.tensor.state(),
                   fmt::format("donated to program \"{}\"", state.program->name));
    }
  }
}

std::string output_label(const ExecutableState& state, std::size_t k) {
  return state.program->name + "." + state.outputs[k].name;
}

/// New storage for every output, or the donated one.
void bind_outputs(const ExecutableState& state, LaunchScratch& scratch) {
  const std::size_t input_count = state.inputs.size();
  for (std::size_t k = 0; k < state.outputs.size(); ++k) {
    const int alias = state.program->outputs[k].alias;
    if (alias >= 0) {
      scratch.bases.push_back(scratch.bases[static_cast<std::size_t>(alias)]);
      scratch.buffers.push_back(scratch.buffers[static_cast<std::size_t>(alias)]);
      continue;
    }
    const TensorSpec& spec = state.device_outputs[k];
    auto buffer = std::make_shared<MeshBuffer>(
        MeshBuffer::allocate(state.mesh, {.bytes_per_device = spec.bytes_per_device(),
                                          .space = spec.space,
                                          .label = output_label(state, k),
                                          .held_by_commands = true}));
    scratch.bases.push_back(buffer->address());
    scratch.buffers.push_back(std::move(buffer));
  }
  TILEMESH_CHECK(scratch.bases.size() == input_count + state.outputs.size(),
                 "every input and output has a base");
}

/// A tensor given to run_into for output `k`, as its storage.
void bind_existing_output(const ExecutableState& state, std::size_t k,
                          std::span<const Argument> arguments, const Tensor& output,
                          LaunchScratch& scratch) {
  const ArgumentInfo& info = state.outputs[k];
  const int alias = state.program->outputs[k].alias;
  if (alias >= 0) {
    scratch.bases.push_back(scratch.bases[static_cast<std::size_t>(alias)]);
    scratch.buffers.push_back(scratch.buffers[static_cast<std::size_t>(alias)]);
    return;
  }
  auto& tensor = detail::checked(output.state());
  for (const Argument& argument : arguments) {
    if (argument.tensor.state() == output.state()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("output \"{}\" of program \"{}\" is also an argument: pass another "
                              "tensor to fill",
                              info.name, info.program));
    }
  }
  if (info.spec.space == Space::host || !(tensor.spec == state.device_outputs[k])) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("output \"{}\" of program \"{}\" is {}, the tensor to fill is {}: make "
                            "it with empty(executable.output(\"{}\"))",
                            info.name, info.program, info.spec.to_string(), tensor.spec.to_string(),
                            info.name));
  }
  auto use = detail::use_on_mesh(tensor);
  scratch.bases.push_back(use.buffer->address());
  scratch.buffers.push_back(std::move(use.buffer));
}

/// The filled tensor is right from now on; an output in place of a state gets a new handle.
void finish_existing_output(const ExecutableState& state, std::size_t k, Tensor& output,
                            LaunchScratch& scratch) {
  if (state.program->outputs[k].alias >= 0) {
    output = detail::make_mesh_tensor(state.device_outputs[k],
                                      std::move(scratch.buffers[state.inputs.size() + k]), {},
                                      output_label(state, k));
    return;
  }
  auto& tensor = *output.state();
  detail::set_event(tensor, {});
}

/// Enqueued: the command holds all buffers until it has ended.
Event launch(const Executable& executable, LaunchScratch& scratch) {
  auto& state = *executable.state();
  struct Held {
    std::shared_ptr<ExecutableState> executable;
    std::vector<std::shared_ptr<MeshBufferView>> buffers;
  };
  auto held = std::make_shared<Held>(Held{executable.state(), scratch.buffers});
  return state.mesh.queue(0).enqueue_launch(
      state.device_programs, scratch.bases,
      {.after = scratch.after, .label = fmt::format("program \"{}\"", state.program->name)},
      std::move(held));
}

bool all_ready(LaunchScratch& scratch) {
  for (const Event& event : scratch.after) {
    if (!event.ready()) {
      return false;
    }
    event.status().throw_if_failed();
  }
  return true;
}

/// On the calling thread if the mesh is idle, else through the queue; returns when it has run.
void launch_and_wait(const Executable& executable, LaunchScratch& scratch) {
  auto& state = *executable.state();
  auto& queue = state.mesh.queue(0);
  if (all_ready(scratch)) {
    bool ran = false;
    try {
      ran = queue.try_run_inline(state.device_programs, scratch.bases);
    } catch (const Error& error) {
      throw error.in(fmt::format("program \"{}\"", state.program->name));
    }
    if (ran) {
      return;
    }
  }
  queue.wait(launch(executable, scratch));
}

std::vector<Tensor> make_outputs(const ExecutableState& state, LaunchScratch& scratch,
                                 const Event& event) {
  std::vector<Tensor> outputs;
  outputs.reserve(state.outputs.size());
  for (std::size_t k = 0; k < state.outputs.size(); ++k) {
    Tensor output = detail::make_mesh_tensor(state.device_outputs[k],
                                             std::move(scratch.buffers[state.inputs.size() + k]),
                                             event, output_label(state, k));
    if (state.outputs[k].spec.space == Space::host) {
      output = detail::download(output, output_label(state, k));
    }
    outputs.push_back(std::move(output));
  }
  state.mesh.core().count_program();
  return outputs;
}

}  // namespace

std::vector<Tensor> submit(const Executable& executable, std::span<const Argument> arguments,
                           const SubmitOptions& options) {
  auto& state = *executable.state();
  const ScratchLease scratch(state);
  bind_inputs(state, arguments, options, *scratch);
  bind_outputs(state, *scratch);
  const Event done = launch(executable, *scratch);
  return make_outputs(state, *scratch, done);
}

namespace {

/// run() with a launch of the caller's; a template, so that the usual one costs nothing.
template <class Execute>
std::vector<Tensor> run_by(const Executable& executable, std::span<const Argument> arguments,
                           const SubmitOptions& options, const Execute& execute) {
  auto& state = *executable.state();
  const ScratchLease scratch(state);
  bind_inputs(state, arguments, options, *scratch);
  bind_outputs(state, *scratch);
  execute(*scratch);
  std::vector<Tensor> outputs = make_outputs(state, *scratch, {});
  for (const Tensor& output : outputs) {
    output.wait();
  }
  return outputs;
}

}  // namespace

std::vector<Tensor> run(const Executable& executable, std::span<const Argument> arguments,
                        const SubmitOptions& options) {
  return run_by(executable, arguments, options,
                [&](LaunchScratch& scratch) { launch_and_wait(executable, scratch); });
}

std::vector<Tensor> detail::run_with(const Executable& executable,
                                     std::span<const Argument> arguments,
                                     const SubmitOptions& options,
                                     const std::function<void(const LaunchScratch&)>& execute) {
  return run_by(executable, arguments, options, execute);
}

void run_into(const Executable& executable, std::span<const Argument> arguments,
              std::span<Tensor> outputs, const SubmitOptions& options) {
  auto& state = *executable.state();
  if (outputs.size() != state.outputs.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("program \"{}\" has {} outputs, got {} tensors to fill",
                            state.program->name, state.outputs.size(), outputs.size()));
  }
  const ScratchLease scratch(state);
  bind_inputs(state, arguments, options, *scratch);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    bind_existing_output(state, k, arguments, outputs[k], *scratch);
  }
  launch_and_wait(executable, *scratch);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    finish_existing_output(state, k, outputs[k], *scratch);
  }
  state.mesh.core().count_program();
}

std::vector<Tensor> submit(const Executable& executable, std::initializer_list<Argument> arguments,
                           const SubmitOptions& options) {
  return submit(executable, std::span<const Argument>(arguments.begin(), arguments.size()),
                options);
}

std::vector<Tensor> run(const Executable& executable, std::initializer_list<Argument> arguments,
                        const SubmitOptions& options) {
  return run(executable, std::span<const Argument>(arguments.begin(), arguments.size()), options);
}

}  // namespace tilemesh
