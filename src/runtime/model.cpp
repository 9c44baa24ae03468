#include "tilemesh/runtime/model.hpp"

#include <fmt/format.h>

namespace tilemesh {

namespace {

/// The output that takes over input `i`, or -1.
int alias_of(const Program& program, int input) {
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    if (program.outputs[k].alias == input) {
      return static_cast<int>(k);
    }
  }
  return -1;
}

bool is_kept(const ArgumentInfo& input) {
  return input.kind != InputKind::activation;
}

}  // namespace

Model Model::load(const Mesh& mesh, const std::filesystem::path& path, std::string_view program) {
  return Model(prepare(mesh, Binary::load(path).program(program)));
}

Model::Model(Executable executable) : executable_(std::move(executable)) {
  reset();
}

void Model::set(std::string_view name, const Tensor& value) {
  const ArgumentInfo& input = executable_.input(name);
  if (!is_kept(input)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("input \"{}\" of program \"{}\" is an activation and isn't kept: pass it "
                    "to run",
                    name, executable_.name()));
  }
  kept_[input.index] = to_layout(value, input);
}

void Model::reset() {
  for (std::size_t i = 0; i < executable_.input_count(); ++i) {
    const ArgumentInfo& input = executable_.input(static_cast<int>(i));
    if (input.kind == InputKind::state) {
      kept_[input.index] = zeros(input);
    }
  }
}

NamedTensors Model::run(const NamedTensors& inputs) {
  for (const auto& [name, tensor] : inputs) {
    if (is_kept(executable_.input(name))) {
      set(name, tensor);
    }
  }
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < executable_.input_count(); ++i) {
    const ArgumentInfo& input = executable_.input(static_cast<int>(i));
    if (is_kept(input)) {
      const auto found = kept_.find(input.index);
      if (found == kept_.end()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("parameter \"{}\" of program \"{}\" has no value: set it once",
                                input.name, input.program));
      }
      if (alias_of(executable_.program(), input.index) >= 0) {
        arguments.emplace_back(donate(std::move(found->second)));
      } else {
        arguments.emplace_back(found->second);
      }
      continue;
    }
    const auto found = inputs.find(input.name);
    if (found == inputs.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("program \"{}\" wants input \"{}\" ({}): it wasn't given",
                              input.program, input.name, input.spec.to_string()));
    }
    arguments.emplace_back(found->second);
  }
  std::vector<Tensor> results = tilemesh::run(executable_, arguments);
  NamedTensors outputs;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const int alias = executable_.program().outputs[k].alias;
    if (alias >= 0) {
      kept_[alias] = std::move(results[k]);
    } else {
      outputs.emplace(executable_.output(static_cast<int>(k)).name, std::move(results[k]));
    }
  }
  return outputs;
}

}  // namespace tilemesh
