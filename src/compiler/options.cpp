#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/close_names.hpp"

#include "compiler/lower.hpp"

namespace tilemesh {
namespace {

template <class Named>
Named* find_named(std::vector<Named>& items, const std::string& name) {
  const auto it = std::ranges::find(items, name, &Named::name);
  return it == items.end() ? nullptr : &*it;
}

[[noreturn]] void no_such(std::string_view what, const std::string& name,
                          const std::vector<Graph>& graphs, bool inputs, bool outputs) {
  std::set<std::string> names;
  for (const Graph& graph : graphs) {
    for (const GraphInput& input : graph.inputs) {
      if (inputs) names.insert(input.name);
    }
    for (const GraphOutput& output : graph.outputs) {
      if (outputs) names.insert(output.name);
    }
  }
  throw Error(ErrorCode::not_found, fmt::format("there is no {} \"{}\": there are {}{}", what, name,
                                                fmt::join(names, ", "),
                                                did_you_mean(name, {names.begin(), names.end()})));
}

void apply_spaces(std::vector<Graph>& graphs, const CompileOptions& options) {
  for (const auto& [name, space] : options.spaces) {
    bool found = false;
    for (Graph& graph : graphs) {
      if (GraphInput* input = find_named(graph.inputs, name)) {
        input->space = space;
        found = true;
      }
      if (GraphOutput* output = find_named(graph.outputs, name)) {
        output->space = space;
        found = true;
      }
    }
    if (!found) no_such("input or output", name, graphs, true, true);
  }
}

void apply_states(std::vector<Graph>& graphs, const CompileOptions& options) {
  for (const auto& [input_name, output_name] : options.states) {
    bool found = false;
    for (Graph& graph : graphs) {
      GraphInput* input = find_named(graph.inputs, input_name);
      if (input == nullptr) continue;
      GraphOutput* output = find_named(graph.outputs, output_name);
      if (output == nullptr) no_such("output", output_name, {graph}, false, true);
      input->kind = InputKind::state;
      output->alias = static_cast<int>(input - graph.inputs.data());
      found = true;
    }
    if (!found) no_such("input", input_name, graphs, true, false);
  }
}

}  // namespace

void apply_options(std::vector<Graph>& graphs, const CompileOptions& options) {
  apply_spaces(graphs, options);
  apply_states(graphs, options);
  for (Graph& graph : graphs) {
    for (GraphOutput& output : graph.outputs) {
      if (output.alias < 0) continue;
      output.space = graph.inputs[static_cast<std::size_t>(output.alias)].space;
    }
  }
}

}  // namespace tilemesh
