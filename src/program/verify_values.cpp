#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "verify.hpp"

namespace tilemesh {
namespace {

constexpr std::int64_t kMaxBlockElements = std::int64_t{1} << 16;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;  // no sum of some overflows
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 16;
constexpr std::uint64_t kConstantAlignment = 64;

void check_mesh(const MeshShape& mesh) {
  std::int64_t devices = 1;
  for (const std::int32_t size : mesh.sizes()) {
    devices *= size;
    if (size < 1 || devices > kMaxDevices) {
      broken(fmt::format("its mesh has more than {} devices, or none", kMaxDevices));
    }
  }
}

void check_workspace(std::int64_t bytes, std::string_view space) {
  if (bytes < 0 || bytes > kMaxBytes) {
    broken(fmt::format("its {} workspace of {} bytes is impossible", space, bytes));
  }
}

void check_layout(const Layout& layout) {
  if (layout.is_opaque()) {
    if (layout.opaque().bytes < 0 || layout.opaque().bytes > kMaxBytes) {
      broken(fmt::format("its opaque layout of {} bytes is impossible", layout.opaque().bytes));
    }
    return;
  }
  std::int64_t elements = 1;
  for (const Layout::Block& block : layout.blocks()) {
    if (block.size < 1 || elements > kMaxBlockElements / block.size) {
      broken(fmt::format("the blocks of its layout have more than {} elements", kMaxBlockElements));
    }
    elements *= block.size;
  }
}

/// Checks a spec and gives the bytes per device.
std::int64_t check_spec(const TensorSpec& spec, const MeshShape& mesh) {
  if (!(spec.mesh == mesh)) {
    broken(fmt::format("it lies on mesh {}, but the program's is {}", spec.mesh.to_string(),
                       mesh.to_string()));
  }
  check_element_count(spec.shape);
  check_layout(spec.layout);
  spec.check();
  return spec.bytes_per_device();
}

/// The bytes of the buffer that a value lies in, and the space it should be in.
struct Room {
  std::int64_t bytes = 0;
  Space space = Space::dram;
};

std::uint32_t owner_of(std::uint32_t index, std::size_t count, std::uint32_t value,
                       std::size_t values, std::string_view what) {
  if (index >= count) {
    broken(fmt::format("it lies in {} {}, but there are {}", what, index, count));
  }
  if (value >= values) {
    broken(fmt::format("{} {} is value {}, but there are {}", what, index, value, values));
  }
  return value;
}

Room room_of(const ProgramCheck& check, const ProgramValue& value) {
  const Program& program = check.program;
  const std::uint32_t index = value.storage.index;
  const auto owned_by = [&](const auto& list, std::string_view what) {
    const std::uint32_t id = index < list.size() ? list[index].value : 0;
    const std::uint32_t owner = owner_of(index, list.size(), id, program.values.size(), what);
    return Room{check.value_bytes[owner], program.values[owner].spec.space};
  };
  switch (value.storage.kind) {
    case Storage::Kind::input: return owned_by(program.inputs, "input");
    case Storage::Kind::output: return owned_by(program.outputs, "output");
    case Storage::Kind::constant: return owned_by(program.constants, "constant");
    case Storage::Kind::workspace: {
      if (value.spec.space == Space::host) {
        broken("it lies in a workspace, and there is none in host memory");
      }
      return {
          value.spec.space == Space::l1 ? program.l1_workspace_bytes : program.dram_workspace_bytes,
          value.spec.space};
    }
    case Storage::Kind::none: break;
  }
  return {check.value_bytes[static_cast<std::size_t>(&value - program.values.data())],
          value.spec.space};
}

void check_storage(const ProgramCheck& check, std::uint32_t id) {
  const ProgramValue& value = check.program.values[id];
  const Room room = room_of(check, value);
  const std::int64_t offset = value.storage.offset;
  const std::int64_t bytes = check.value_bytes[id];
  if (offset < 0 || bytes > room.bytes || offset > room.bytes - bytes) {
    broken(fmt::format("its {} bytes from offset {} on are outside their buffer of {} bytes", bytes,
                       offset, room.bytes));
  }
  if (offset % size_of(value.spec.dtype) != 0) {
    broken(fmt::format("its offset {} is no multiple of the {} bytes of a {}", offset,
                       size_of(value.spec.dtype), to_string(value.spec.dtype)));
  }
  if (value.spec.space != room.space) {
    broken(fmt::format("it is in {}, but its buffer is in {}", to_string(value.spec.space),
                       to_string(room.space)));
  }
}

void check_owner(const Program& program, std::uint32_t id, const Storage& wanted,
                 std::string_view what) {
  if (id >= program.values.size()) {
    broken(fmt::format("{} is value {}, but there are {}", what, id, program.values.size()));
  }
  if (!(program.values[id].storage == wanted)) {
    broken(fmt::format("{} is {}, which lies elsewhere", what, describe(program, id)));
  }
}

void check_name(std::set<std::string>& names, const std::string& name, std::string_view what) {
  if (name.empty()) {
    broken(fmt::format("an {} has no name", what));
  }
  if (!names.insert(name).second) {
    broken(fmt::format("two {}s are named \"{}\"", what, name));
  }
}

void check_inputs(const Program& program) {
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput& input = program.inputs[i];
    check_name(names, input.name, "input");
    check_owner(program, input.value, {Storage::Kind::input, i, 0},
                fmt::format("input {} \"{}\"", i, input.name));
  }
}

void check_alias(const ProgramCheck& check, std::uint32_t index, std::set<std::int32_t>& taken) {
  const Program& program = check.program;
  const ProgramOutput& output = program.outputs[index];
  if (output.alias < 0 || static_cast<std::size_t>(output.alias) >= program.inputs.size()) {
    broken(fmt::format("output \"{}\" takes over input {}, but there are {}", output.name,
                       output.alias, program.inputs.size()));
  }
  const ProgramInput& input = program.inputs[static_cast<std::size_t>(output.alias)];
  if (!taken.insert(output.alias).second) {
    broken(fmt::format("two outputs take over input \"{}\"", input.name));
  }
  const std::int64_t input_bytes = check.value_bytes[input.value];
  const std::int64_t output_bytes = check.value_bytes[output.value];
  if (input_bytes != output_bytes) {
    broken(fmt::format("output \"{}\" of {} bytes takes over input \"{}\" of {}", output.name,
                       output_bytes, input.name, input_bytes));
  }
}

void check_outputs(ProgramCheck& check) {
  const Program& program = check.program;
  std::set<std::string> names;
  std::set<std::int32_t> taken;
  check.writable_inputs.resize(program.inputs.size());
  for (std::uint32_t i = 0; i < program.outputs.size(); ++i) {
    const ProgramOutput& output = program.outputs[i];
    check_name(names, output.name, "output");
    const std::string what = fmt::format("output {} \"{}\"", i, output.name);
    if (output.alias == -1) {
      check_owner(program, output.value, {Storage::Kind::output, i, 0}, what);
    } else {
      const auto input = static_cast<std::uint32_t>(output.alias);
      check_owner(program, output.value, {Storage::Kind::input, input, 0}, what);
      check_alias(check, i, taken);
      check.writable_inputs[input] = true;
    }
  }
}

bool is_partial(const TensorSpec& spec) {
  return std::ranges::any_of(spec.placements, [](const Placement& placement) {
    return placement.kind() == Placement::Kind::partial;
  });
}

void check_constants(const ProgramCheck& check) {
  const Program& program = check.program;
  for (std::uint32_t i = 0; i < program.constants.size(); ++i) {
    const ProgramConstant& constant = program.constants[i];
    check_owner(program, constant.value, {Storage::Kind::constant, i, 0},
                fmt::format("constant {}", i));
    const TensorSpec& spec = program.values[constant.value].spec;
    if (is_partial(spec) || spec.space == Space::host) {
      broken(fmt::format("constant {} is {}; constants are whole or cut, and on the devices", i,
                         spec.to_string()));
    }
    const auto wanted = static_cast<std::uint64_t>(
        checked_mul(shard_count(spec), check.value_bytes[constant.value]));
    if (constant.bytes != wanted) {
      broken(fmt::format("constant {} has {} bytes, but {} is {} bytes in {} shards", i,
                         constant.bytes, spec.to_string(), wanted, shard_count(spec)));
    }
    if (constant.offset % kConstantAlignment != 0 || constant.bytes > check.constants_bytes ||
        constant.offset > check.constants_bytes - constant.bytes) {
      broken(fmt::format(
          "the {} bytes of constant {} at offset {} are outside the {} bytes of "
          "constants, or not at a multiple of {}",
          constant.bytes, i, constant.offset, check.constants_bytes, kConstantAlignment));
    }
  }
}

}  // namespace

void check_values(ProgramCheck& check) {
  const Program& program = check.program;
  if (program.name.empty()) {
    broken("the program has no name");
  }
  check_mesh(program.mesh);
  check_workspace(program.dram_workspace_bytes, "dram");
  check_workspace(program.l1_workspace_bytes, "l1");
  const auto count = narrow<std::uint32_t>(program.values.size());
  check.value_bytes.resize(count);
  const auto each = [&](const auto& function) {
    for (std::uint32_t i = 0; i < count; ++i) {
      try {
        function(i);
      } catch (const Error& error) {
        throw error.in(describe(program, i));
      }
    }
  };
  each([&](std::uint32_t i) {
    check.value_bytes[i] = check_spec(program.values[i].spec, program.mesh);
  });
  each([&](std::uint32_t i) { check_storage(check, i); });
  check_inputs(program);
  check_outputs(check);
  check_constants(check);
}

}  // namespace tilemesh
