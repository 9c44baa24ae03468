#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_queue.hpp"

#include "mesh/mesh_core.hpp"
#include "runtime/executable_state.hpp"

namespace tilemesh {

namespace {

using detail::ExecutableState;

ArgumentInfo argument(const Mesh& mesh, const Program& program, std::string_view name, int index,
                      InputKind kind, const TensorSpec& spec) {
  return {.program = program.name,
          .name = std::string(name),
          .index = index,
          .kind = kind,
          .spec = spec,
          .mesh = mesh};
}

TensorSpec on_device(TensorSpec spec) {
  if (spec.space == Space::host) {
    spec.space = Space::dram;
  }
  return spec;
}

void describe_arguments(ExecutableState& state) {
  const Program& program = *state.program;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& input = program.inputs[i];
    state.inputs.push_back(argument(state.mesh, program, input.name, static_cast<int>(i),
                                    input.kind, program.input_spec(i)));
    state.device_inputs.push_back(on_device(program.input_spec(i)));
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    state.outputs.push_back(argument(state.mesh, program, program.outputs[i].name,
                                     static_cast<int>(i), InputKind::activation,
                                     program.output_spec(i)));
    state.device_outputs.push_back(on_device(program.output_spec(i)));
  }
}

detail::ConstantKey key_of(const Mesh& mesh, const ProgramConstant& constant,
                           const TensorSpec& spec) {
  detail::ConstantKey key{
      .hash = constant.hash, .bytes = spec.bytes_per_device(), .space = spec.space};
  if (shard_count(spec) > 1) {
    for (int i = 0; i < mesh.device_count(); ++i) {
      key.shards.push_back(shard_index(spec, mesh.shape().coord_of(i)));
    }
  }
  return key;
}

/// Every device gets the shard that the key says, and nothing else.
Event upload(const MeshBuffer& buffer, const detail::ConstantKey& key,
             std::span<const std::byte> bytes, const std::string& name) {
  const EnqueueOptions options{.label = "upload of constant \"" + name + "\""};
  MeshQueue& queue = buffer.mesh().queue(0);
  if (key.shards.empty()) {
    return queue.enqueue_write_replicated(buffer, bytes.data(), key.bytes, nullptr, options);
  }
  std::vector<ShardWrite> writes;
  for (std::size_t i = 0; i < key.shards.size(); ++i) {
    const auto shard = static_cast<std::size_t>(key.shards[i] * key.bytes);
    writes.push_back({.coord = buffer.mesh().shape().coord_of(static_cast<int>(i)),
                      .host = HostBytes::borrow(
                          bytes.subspan(shard, static_cast<std::size_t>(key.bytes)), nullptr)});
  }
  return queue.enqueue_write(buffer, writes, options);
}

/// Makes every constant resident, once per mesh, content and placement.
void place_constants(ExecutableState& state) {
  const Program& program = *state.program;
  std::vector<Event> uploads;
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    const ProgramValue& value = program.values[program.constants[i].value];
    const std::span<const std::byte> bytes = state.program.constant(i);
    const detail::ConstantKey key = key_of(state.mesh, program.constants[i], value.spec);
    auto buffer = state.mesh.core().find_constant(state.mesh, key, bytes);
    if (!buffer) {
      buffer = std::make_shared<MeshBuffer>(
          MeshBuffer::allocate(state.mesh, {.bytes_per_device = key.bytes,
                                            .space = value.spec.space,
                                            .label = program.name + "." + value.name}));
      uploads.push_back(upload(*buffer, key, bytes, value.name));
      state.mesh.core().keep_constant(key, buffer);
    }
    state.constants.push_back(std::move(buffer));
  }
  for (const Event& upload : uploads) {
    state.mesh.queue(0).wait(upload);
  }
}

/// True if any value lies in the workspace of that space, be it one without bytes.
bool uses_workspace(const Program& program, Space space) {
  return std::ranges::any_of(program.values, [space](const ProgramValue& value) {
    return value.storage.kind == Storage::Kind::workspace && value.spec.space == space;
  });
}

/// Every value has to fit on a device by itself, whatever else there is: so that no kernel is made
/// for sizes that can't be.
void check_sizes(const ExecutableState& state) {
  const DeviceInfo& device = state.mesh.device(0).info();
  for (const ProgramValue& value : state.program->values) {
    if (value.storage.kind == Storage::Kind::none) continue;
    const bool in_l1 = value.spec.space == Space::l1;
    const std::int64_t available = in_l1 ? device.l1_bytes : device.dram_bytes;
    const std::int64_t wanted = value.spec.bytes_per_device();
    if (wanted > available) {
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("\"{}\" of {} wants {} bytes a device, {} has {}: open the mesh with "
                              "more, or cut the value over more devices",
                              value.name, value.spec.to_string(), wanted,
                              to_string(in_l1 ? Space::l1 : Space::dram), available));
    }
  }
}

void place_workspaces(ExecutableState& state) {
  const Program& program = *state.program;
  const auto place = [&state, &program](Space space, std::int64_t bytes) {
    std::shared_ptr<MeshBuffer> buffer;
    if (bytes > 0 || uses_workspace(program, space)) {
      bytes = std::max<std::int64_t>(bytes, 1);  // what has no bytes lies somewhere as well
      buffer = std::make_shared<MeshBuffer>(MeshBuffer::allocate(
          state.mesh,
          {.bytes_per_device = bytes, .space = space, .label = program.name + ".workspace"}));
      for (int i = 0; i < state.mesh.device_count(); ++i) {
        state.mesh.device(i).commit(buffer->address(), bytes);
      }
    }
    state.workspaces.push_back(std::move(buffer));
  };
  place(Space::dram, program.dram_workspace_bytes);
  place(Space::l1, program.l1_workspace_bytes);
}

StepOperand fixed(const std::shared_ptr<MeshBuffer>& buffer, std::int64_t offset) {
  const DeviceAddress address = buffer->address();
  return {.base = StepOperand::kFixed, .offset = address.offset + offset, .space = address.space};
}

StepOperand operand(const ExecutableState& state, std::uint32_t value_index) {
  if (value_index == ProgramOp::kAbsent) {
    return {};
  }
  const ProgramValue& value = state.program->values[value_index];
  const Storage& storage = value.storage;
  switch (storage.kind) {
    case Storage::Kind::none: return {};
    case Storage::Kind::input:
      return {.base = static_cast<int>(storage.index), .offset = storage.offset};
    case Storage::Kind::output:
      return {.base = static_cast<int>(state.inputs.size() + storage.index),
              .offset = storage.offset};
    case Storage::Kind::constant: return fixed(state.constants[storage.index], storage.offset);
    case Storage::Kind::workspace:
      return fixed(state.workspaces[value.spec.space == Space::l1 ? 1 : 0], storage.offset);
  }
  detail::check_failed("storage.kind", "a storage kind outside the enumeration", __FILE__,
                       __LINE__);
}

/// What all devices have in common: each goes on to say which member it is.
ExchangePart exchange(const ExecutableState& state, const ProgramOp& op) {
  const auto spec = [&](std::uint32_t value) {
    return on_device(state.program->values[value].spec);
  };
  auto exchange = std::make_shared<Exchange>(
      Exchange{.from = spec(op.inputs[0]), .to = spec(op.outputs[0]), .fill = reshard_fill(op)});
  return {.exchange = std::move(exchange),
          .communicator = state.mesh.core().communicator(state.mesh.view())};
}

DeviceStep step(const ExecutableState& state, std::size_t index) {
  const ProgramOp& op = state.program->ops[index];
  DeviceStep result;
  result.name = fmt::format("op {} \"{}\"", index, op.name.empty() ? op.op : op.name);
  result.target = static_cast<int>(op.target);
  result.limit = op.limit;
  result.message = op.message;
  switch (op.kind) {
    case ProgramOp::Kind::call:
      if (is_reshard(op)) {
        result.kind = DeviceStep::Kind::exchange;
        result.exchange = exchange(state, op);
      } else {
        result.kind = DeviceStep::Kind::call;
        result.call = shard_call(*state.program, index);
      }
      break;
    case ProgramOp::Kind::jump: result.kind = DeviceStep::Kind::jump; break;
    case ProgramOp::Kind::jump_if_false: result.kind = DeviceStep::Kind::jump_if_false; break;
    case ProgramOp::Kind::repeat: result.kind = DeviceStep::Kind::repeat; break;
    case ProgramOp::Kind::fail: result.kind = DeviceStep::Kind::fail; break;
  }
  for (const auto& values : {op.inputs, op.outputs}) {
    for (const std::uint32_t value : values) {
      result.operands.push_back(operand(state, value));
    }
  }
  return result;
}

}  // namespace

std::vector<DeviceStep> detail::make_steps(const ExecutableState& state) {
  std::vector<DeviceStep> steps;
  for (std::size_t i = 0; i < state.program->ops.size(); ++i) {
    steps.push_back(step(state, i));
  }
  return steps;
}

std::vector<std::shared_ptr<DeviceProgram>> detail::prepare_steps(const Mesh& mesh,
                                                                  std::vector<DeviceStep> steps) {
  std::vector<std::shared_ptr<DeviceProgram>> programs;
  for (int i = 0; i < mesh.device_count(); ++i) {
    for (DeviceStep& step : steps) {
      step.exchange.member = i;
    }
    programs.push_back(mesh.device(i).prepare(steps));
  }
  return programs;
}

Executable prepare(const Mesh& mesh, const BoundProgram& program) {
  if (!(mesh.shape() == program->mesh)) {
    throw Error(ErrorCode::mismatch,
                fmt::format("program \"{}\" is for a mesh of {}, this one is {}: compile it with "
                            "--mesh {}, or open a mesh of {}",
                            program->name, program->mesh.to_string(), mesh.shape().to_string(),
                            mesh.shape().to_string(), program->mesh.to_string()));
  }
  try {
    auto state = std::make_shared<ExecutableState>(program, mesh);
    describe_arguments(*state);
    check_sizes(*state);
    place_constants(*state);
    place_workspaces(*state);
    state->device_programs = detail::prepare_steps(mesh, detail::make_steps(*state));
    return Executable(std::move(state));
  } catch (const Error& error) {
    throw error.in(fmt::format("preparing program \"{}\"", program->name));
  }
}

}  // namespace tilemesh
