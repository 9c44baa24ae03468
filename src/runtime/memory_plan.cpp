#include "tilemesh/runtime/memory_plan.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"
#include "tilemesh/memory/report.hpp"

#include "runtime/executable_state.hpp"

namespace tilemesh {
namespace {

constexpr std::int64_t kAlignment = 64;  // of MeshBufferOptions: what arguments are allocated with
constexpr std::size_t kHoldersShown = 5;

/// What the allocator takes: whole alignments, and one for nothing.
std::int64_t taken(std::int64_t bytes) {
  return checked_add(std::max<std::int64_t>(bytes, 1), kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t& sum_of(SpacePlan& plan, PlannedHolder::Kind kind) {
  switch (kind) {
    case PlannedHolder::Kind::constant: return plan.constants_bytes;
    case PlannedHolder::Kind::input: return plan.inputs_bytes;
    case PlannedHolder::Kind::output: return plan.outputs_bytes;
    case PlannedHolder::Kind::scratch: return plan.scratch_bytes;
    case PlannedHolder::Kind::workspace: break;
  }
  return plan.workspace_bytes;
}

class Planner {
 public:
  explicit Planner(const ArenaSizes& arenas) {
    dram_.space = Space::dram;
    dram_.available_bytes = arenas.dram_bytes;
    l1_.space = Space::l1;
    l1_.available_bytes = arenas.l1_bytes;
  }

  void add(const Program& program) {
    using Kind = PlannedHolder::Kind;
    for (const ProgramConstant& constant : program.constants) {
      const ProgramValue& value = program.values[constant.value];
      if (is_new(constant, value.spec)) {
        hold(program, value.name, Kind::constant, value.spec.space, value.spec.bytes_per_device());
      }
    }
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const TensorSpec& spec = program.input_spec(i);
      hold(program, program.inputs[i].name, Kind::input, spec.space, spec.bytes_per_device());
    }
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      const TensorSpec& spec = program.output_spec(i);
      if (program.outputs[i].alias < 0) {
        hold(program, program.outputs[i].name, Kind::output, spec.space, spec.bytes_per_device());
      }
    }
    if (program.dram_workspace_bytes > 0) {
      hold(program, "workspace", Kind::workspace, Space::dram, program.dram_workspace_bytes);
    }
    if (program.l1_workspace_bytes > 0) {
      hold(program, "workspace", Kind::workspace, Space::l1, program.l1_workspace_bytes);
    }
  }

  void add_scratch(const Program& program, std::int64_t bytes) {
    if (bytes > 0) hold(program, "scratch", PlannedHolder::Kind::scratch, Space::dram, bytes);
  }

  MemoryPlan finish() && {
    MemoryPlan plan;
    for (SpacePlan* space : {&dram_, &l1_}) {
      std::ranges::stable_sort(space->holders, std::greater{}, &PlannedHolder::bytes);
      plan.spaces.push_back(std::move(*space));
    }
    return plan;
  }

 private:
  /// Equal constants that lie alike are resident once.
  bool is_new(const ProgramConstant& constant, const TensorSpec& spec) {
    std::vector<int> shards;
    if (shard_count(spec) > 1) {
      for (int i = 0; i < spec.mesh.device_count(); ++i) {
        shards.push_back(shard_index(spec, spec.mesh.coord_of(i)));
      }
    }
    return constants_.emplace(constant.hash, constant.bytes, spec.space, std::move(shards)).second;
  }

  void hold(const Program& program, const std::string& name, PlannedHolder::Kind kind, Space space,
            std::int64_t bytes) {
    SpacePlan& plan = space == Space::l1 ? l1_ : dram_;
    const std::int64_t all = taken(bytes);
    total_ = checked_add(total_, all);  // so that no sum of a space overflows either
    sum_of(plan, kind) += all;
    plan.holders.push_back({program.name + "." + name, kind, all});
  }

  SpacePlan dram_;
  SpacePlan l1_;
  std::int64_t total_ = 0;
  std::set<std::tuple<std::uint64_t, std::uint64_t, Space, std::vector<int>>> constants_;
};

}  // namespace

std::string_view to_string(PlannedHolder::Kind kind) {
  switch (kind) {
    case PlannedHolder::Kind::constant: return "constant";
    case PlannedHolder::Kind::input: return "input";
    case PlannedHolder::Kind::output: return "output";
    case PlannedHolder::Kind::scratch: return "scratch";
    case PlannedHolder::Kind::workspace: break;
  }
  return "workspace";
}

std::int64_t SpacePlan::peak_bytes() const {
  return constants_bytes + inputs_bytes + outputs_bytes + workspace_bytes + scratch_bytes;
}

bool MemoryPlan::fits() const {
  return std::ranges::all_of(spaces, [](const SpacePlan& space) { return space.fits(); });
}

std::string MemoryPlan::shortage() const {
  std::string text;
  for (const SpacePlan& space : spaces) {
    if (space.fits()) {
      continue;
    }
    text += fmt::format(
        "{}{} doesn't fit: asked {} a device ({} bytes), available {} ({} bytes); "
        "largest holders:",
        text.empty() ? "" : "; ", to_string(space.space), to_bytes_text(space.peak_bytes()),
        space.peak_bytes(), to_bytes_text(space.available_bytes), space.available_bytes);
    const std::size_t shown = std::min(kHoldersShown, space.holders.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const PlannedHolder& holder = space.holders[i];
      text += fmt::format("{} {} \"{}\" {}", i == 0 ? "" : ",", to_string(holder.kind),
                          holder.label, to_bytes_text(holder.bytes));
    }
  }
  return text;
}

MemoryPlan plan_memory(const Program& program, const ArenaSizes& arenas) {
  return plan_memory(std::span(&program, 1), arenas);
}

MemoryPlan plan_memory(const Executable& executable) {
  const DeviceInfo& device = executable.mesh().device(0).info();
  Planner planner({.dram_bytes = device.dram_bytes, .l1_bytes = device.l1_bytes});
  planner.add(executable.program());
  std::int64_t scratch = 0;
  for (const auto& program : executable.state()->device_programs) {
    scratch = std::max(scratch, program->scratch_bytes());
  }
  planner.add_scratch(executable.program(), scratch);
  return std::move(planner).finish();
}

MemoryPlan plan_memory(std::span<const Program> programs, const ArenaSizes& arenas) {
  Planner planner(arenas);
  for (const Program& program : programs) {
    planner.add(program);
  }
  return std::move(planner).finish();
}

}  // namespace tilemesh
