#include "tilemesh/runtime/profile.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_queue.hpp"

#include "runtime/executable_state.hpp"

namespace tilemesh {
namespace {

using detail::ExecutableState;
using detail::LaunchScratch;

/// A run of ops as a program of its own.
struct Part {
  std::size_t first = 0;
  std::size_t count = 1;
  std::vector<std::shared_ptr<DeviceProgram>> programs;  // by device
  std::vector<double> seconds;
};

bool is_same(const StepOperand& a, const StepOperand& b) {
  return a.base == b.base && a.offset == b.offset && a.space == b.space;
}

/// For each op one past the end of the loop that it sets the counter of; 0 if it does no such
/// thing.
std::vector<std::size_t> ends_of_loops(std::span<const DeviceStep> steps) {
  std::vector<std::size_t> ends(steps.size(), 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != DeviceStep::Kind::repeat) continue;
    auto first = static_cast<std::size_t>(steps[i].target);
    while (first > 0) {
      const DeviceStep& before = steps[--first];
      const bool sets = before.kind == DeviceStep::Kind::call && before.call.outputs.size() == 1 &&
                        is_same(before.operands.back(), steps[i].operands[0]);
      if (sets) break;
    }
    ends[first] = std::max(ends[first], i + 1);
  }
  return ends;
}

/// One past the last op that has to run together with op `first`, since jumps lead over it.
std::size_t end_of_part(std::span<const DeviceStep> steps, std::span<const std::size_t> loops,
                        std::size_t first) {
  std::size_t end = first + 1;
  for (std::size_t i = first; i < end; ++i) {
    end = std::max(end, loops[i]);
    const bool jumps =
        steps[i].kind == DeviceStep::Kind::jump || steps[i].kind == DeviceStep::Kind::jump_if_false;
    if (jumps) {
      end = std::max(end, static_cast<std::size_t>(steps[i].target));
    }
  }
  return end;
}

std::vector<Part> make_parts(const ExecutableState& state) {
  const std::vector<DeviceStep> steps = detail::make_steps(state);
  const std::vector<std::size_t> loops = ends_of_loops(steps);
  std::vector<Part> parts;
  for (std::size_t first = 0; first < steps.size();) {
    const std::size_t end = end_of_part(steps, loops, first);
    std::vector<DeviceStep> own(steps.begin() + static_cast<std::ptrdiff_t>(first),
                                steps.begin() + static_cast<std::ptrdiff_t>(end));
    for (DeviceStep& step : own) {
      step.target -= static_cast<int>(first);
    }
    parts.push_back({first, end - first, detail::prepare_steps(state.mesh, std::move(own)), {}});
    first = end;
  }
  return parts;
}

void run_part(const Executable& executable, const Part& part, const LaunchScratch& scratch) {
  const ExecutableState& state = *executable.state();
  MeshQueue& queue = state.mesh.queue(0);
  if (queue.try_run_inline(part.programs, scratch.bases)) {
    return;
  }
  struct Held {
    std::shared_ptr<ExecutableState> executable;
    std::vector<std::shared_ptr<MeshBufferView>> buffers;
    std::vector<std::shared_ptr<DeviceProgram>> programs;
  };
  auto held = std::make_shared<Held>(Held{executable.state(), scratch.buffers, part.programs});
  queue.wait(queue.enqueue_launch(
      part.programs, scratch.bases,
      {.after = {}, .label = fmt::format("profile of program \"{}\"", state.program->name)},
      std::move(held)));
}

void run_parts(const Executable& executable, std::vector<Part>& parts,
               const LaunchScratch& scratch) {
  for (const Event& event : scratch.after) {
    executable.mesh().queue(0).wait(event);
  }
  for (Part& part : parts) {
    const auto start = std::chrono::steady_clock::now();
    run_part(executable, part, scratch);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    part.seconds.push_back(spent.count());
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void check(const Program& program, std::span<const Argument> arguments, int repeats) {
  if (repeats < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a profile of program \"{}\" wants at least 1 repeat, got {}",
                            program.name, repeats));
  }
  for (const ProgramOutput& output : program.outputs) {
    if (output.alias >= 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("program \"{}\" keeps state in \"{}\", which a run takes over: "
                              "compile it without --state to profile it",
                              program.name, output.name));
    }
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].donated) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("argument {} of program \"{}\" is donated, and a profile runs more "
                              "than once: pass it without donate()",
                              i, program.name));
    }
  }
}

}  // namespace

Profile profile(const Executable& executable, std::span<const Argument> arguments, int repeats) {
  check(executable.program(), arguments, repeats);
  std::vector<Part> parts = make_parts(*executable.state());
  Profile result;
  for (int i = 0; i <= repeats; ++i) {
    result.outputs = detail::run_with(executable, arguments, {}, [&](const LaunchScratch& scratch) {
      run_parts(executable, parts, scratch);
    });
    if (i == 0) {
      for (Part& part : parts) {
        part.seconds.clear();
      }
    }
  }
  for (const Part& part : parts) {
    result.parts.push_back({part.first, part.count, median(part.seconds)});
  }
  return result;
}

}  // namespace tilemesh
