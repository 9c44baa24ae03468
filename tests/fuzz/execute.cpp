#include "execute.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "tilemesh/tilemesh.hpp"

#include "guarded_mesh.hpp"
#include "random.hpp"

namespace tilemesh::fuzz {
namespace {

constexpr std::int64_t kMostBytes = 24 << 20;  // of a program that is run, on each device
constexpr int kMostDevices = 4;

const Mesh& mesh_of(const MeshShape& shape) {
  static auto& meshes = *new std::map<std::string, Mesh>();  // they outlive the process's end
  const std::string key = shape.to_string();
  auto found = meshes.find(key);
  if (found == meshes.end()) found = meshes.emplace(key, open_guarded(shape)).first;
  return found->second;
}

bool is_large(const Program& program) {
  if (program.mesh.device_count() > kMostDevices) return true;
  std::int64_t total = 0;
  for (const SpacePlan& space : plan_memory(program, {kGuardedDramBytes, kGuardedL1Bytes}).spaces) {
    total += space.peak_bytes();
  }
  return total > kMostBytes;
}

/// Bytes that are numbers small enough to be indices half of the time, and anything else otherwise.
std::vector<std::byte> random_bytes(const TensorSpec& spec, Random& random) {
  const auto width = static_cast<std::size_t>(size_of(spec.dtype));
  std::vector<std::byte> bytes(static_cast<std::size_t>(spec.shape.element_count()) * width);
  const bool small = random.one_in(2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool low = i % width == 0;
    bytes[i] = small ? static_cast<std::byte>(low ? random.below(3) : 0)
                     : static_cast<std::byte>(random.next());
    if (spec.dtype == DType::boolean) bytes[i] &= std::byte{1};
  }
  return bytes;
}

bool is_donated(const Program& program, std::size_t input) {
  return program.inputs[input].kind == InputKind::state ||
         std::ranges::any_of(program.outputs, [&](const ProgramOutput& output) {
           return output.alias == static_cast<int>(input);
         });
}

void run_once(const Executable& executable, Random& random) {
  const Program& program = executable.program();
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorSpec& spec = program.input_spec(i);
    const std::vector<std::byte> bytes = random_bytes(spec, random);
    Tensor tensor = to_layout(Tensor::copy_bytes(bytes, spec.dtype, {.shape = spec.shape}),
                              executable.input(static_cast<int>(i)));
    if (is_donated(program, i)) {
      arguments.emplace_back(donate(std::move(tensor)));
    } else {
      arguments.emplace_back(std::move(tensor));
    }
  }
  for (const Tensor& output : run(executable, arguments))
    static_cast<void>(output.to_host());
}

std::int64_t used_bytes(const Mesh& mesh) {
  std::int64_t used = 0;
  for (const SpaceReport& space : memory_report(mesh).spaces)
    used += space.used_bytes;
  return used;
}

/// Ranges return when the last command that uses them has ended, which may be a moment later.
bool is_empty_soon(const Mesh& mesh) {
  for (int i = 0; i < 200; ++i) {
    if (used_bytes(mesh) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

Outcome run_program(const Binary& binary, const Program& program, std::uint64_t number,
                    std::string& message) {
  Outcome failure = Outcome::refused;
  try {
    if (is_large(program)) return Outcome::large;
    const Mesh& mesh = mesh_of(program.mesh);
    Random random(1, number, 3);
    failure = Outcome::unprepared;
    {
      const Executable executable = prepare(mesh, binary.program(program.name));
      failure = Outcome::not_run;
      run_once(executable, random);
    }
    failure = Outcome::ran;
  } catch (const Error& error) {
    message = error.what();
    if (error.code() == ErrorCode::internal) failure = Outcome::internal;
  }
  if (!is_empty_soon(mesh_of(program.mesh))) {
    message = "the mesh still holds memory after the run";
    return Outcome::leak;
  }
  return failure;
}

}  // namespace

const char* to_string(Outcome outcome) {
  static constexpr const char* kNames[] = {
      "refused", "refused by prepare", "large",           "failed with an error",
      "ran",     "internal error",     "other exception", "leak"};
  return kNames[static_cast<std::size_t>(outcome)];
}

Outcome run_programs(const Binary& binary, std::uint64_t number, std::string& message) {
  Outcome worst = Outcome::refused;
  for (const Program& program : binary.programs())
    worst = std::max(worst, run_program(binary, program, number, message));
  return worst;
}

}  // namespace tilemesh::fuzz
