#include "tilemesh/runtime/executable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/close_names.hpp"

#include "runtime/executable_state.hpp"

namespace tilemesh {

namespace detail {

std::unique_ptr<LaunchScratch> ExecutableState::scratch() {
  {
    const std::lock_guard lock(mutex_);
    if (!pool_.empty()) {
      auto result = std::move(pool_.back());
      pool_.pop_back();
      return result;
    }
  }
  const std::size_t count = inputs.size() + outputs.size();
  auto result = std::make_unique<LaunchScratch>();
  result->bases.reserve(count);
  result->buffers.reserve(count);
  result->after.reserve(count);
  result->arguments.reserve(inputs.size());
  return result;
}

void ExecutableState::recycle(std::unique_ptr<LaunchScratch> used) noexcept {
  used->bases.clear();
  used->buffers.clear();
  used->after.clear();
  used->arguments.clear();
  const std::lock_guard lock(mutex_);
  if (pool_.capacity() == pool_.size()) {
    pool_.reserve(pool_.size() + 4);
  }
  pool_.push_back(std::move(used));
}

}  // namespace detail

namespace {

const ArgumentInfo& by_name(const std::vector<ArgumentInfo>& list, std::string_view name,
                            std::string_view what, const std::string& program) {
  std::vector<std::string> names;
  for (const ArgumentInfo& info : list) {
    if (info.name == name) {
      return info;
    }
    names.push_back(info.name);
  }
  throw Error(ErrorCode::not_found,
              fmt::format("program \"{}\" has no {} \"{}\": it has \"{}\"{}", program, what, name,
                          fmt::join(names, "\", \""), did_you_mean(name, names)));
}

const ArgumentInfo& by_index(const std::vector<ArgumentInfo>& list, int index,
                             std::string_view what, const std::string& program) {
  if (index < 0 || index >= static_cast<int>(list.size())) {
    throw Error(ErrorCode::not_found,
                fmt::format("program \"{}\" has {} {}s, there is no number {}", program,
                            list.size(), what, index));
  }
  return list[static_cast<std::size_t>(index)];
}

}  // namespace

const std::string& Executable::name() const {
  return state_->program->name;
}
const Program& Executable::program() const {
  return *state_->program;
}
const Mesh& Executable::mesh() const {
  return state_->mesh;
}
std::size_t Executable::input_count() const {
  return state_->inputs.size();
}
std::size_t Executable::output_count() const {
  return state_->outputs.size();
}

const ArgumentInfo& Executable::input(std::string_view name) const {
  return by_name(state_->inputs, name, "input", this->name());
}
const ArgumentInfo& Executable::input(int index) const {
  return by_index(state_->inputs, index, "input", name());
}
const ArgumentInfo& Executable::output(std::string_view name) const {
  return by_name(state_->outputs, name, "output", this->name());
}
const ArgumentInfo& Executable::output(int index) const {
  return by_index(state_->outputs, index, "output", name());
}

std::vector<std::string> Executable::implementations() const {
  return state_->device_programs.front()->implementations();
}

Tensor to_layout(const Tensor& tensor, const ArgumentInfo& argument) {
  try {
    return to_spec(tensor, argument.mesh, argument.spec, argument.program + "." + argument.name);
  } catch (const Error& error) {
    throw error.in(fmt::format("input \"{}\" of program \"{}\"", argument.name, argument.program));
  }
}

Tensor to_layout(const Tensor& tensor, const Mesh& mesh, const BoundProgram& program,
                 int input_index) {
  if (input_index < 0 || input_index >= static_cast<int>(program->inputs.size())) {
    throw Error(ErrorCode::not_found,
                fmt::format("program \"{}\" has {} inputs, there is no number {}", program->name,
                            program->inputs.size(), input_index));
  }
  if (!(mesh.shape() == program->mesh)) {
    throw Error(ErrorCode::mismatch,
                fmt::format("program \"{}\" is for a mesh of {}, this one is {}: compile it with "
                            "--mesh {}, or open a mesh of {}",
                            program->name, program->mesh.to_string(), mesh.shape().to_string(),
                            mesh.shape().to_string(), program->mesh.to_string()));
  }
  const auto index = static_cast<std::size_t>(input_index);
  return to_layout(tensor, ArgumentInfo{.program = program->name,
                                        .name = program->inputs[index].name,
                                        .index = input_index,
                                        .kind = program->inputs[index].kind,
                                        .spec = program->input_spec(index),
                                        .mesh = mesh});
}

ConversionPlan plan(const TensorSpec& from, const ArgumentInfo& argument) {
  return plan(from, argument.spec);
}

Tensor empty(const ArgumentInfo& argument) {
  return empty(argument.mesh, argument.spec, argument.program + "." + argument.name);
}

Tensor zeros(const ArgumentInfo& argument) {
  return zeros(argument.mesh, argument.spec, argument.program + "." + argument.name);
}

}  // namespace tilemesh
