#include "compiler/lower.hpp"

#include <set>

#include <fmt/format.h>

#include "compiler/flatten.hpp"
#include "compiler/layout_assignment.hpp"
#include "compiler/partition/shard_rules.hpp"
#include "compiler/placed_graph.hpp"

namespace tilemesh {

Program lower(Graph graph, ConstantPool& constants, const LowerContext& context) {
  const auto report = [&](std::string_view stage, double done) {
    if (context.progress) context.progress(stage, done);
  };
  const std::string where = fmt::format("program \"{}\"", graph.name);
  try {
    report("optimise", 0);
    simplify(graph, context);
    report("partition", 0.2);
    PlacedGraph placed = partition_graph(std::move(graph), context.mesh, context.wishes);
    report("fuse", 0.3);
    fuse(placed.graph, context);
    report("choose layouts", 0.4);
    assign_layouts(placed, context.target);
    if (context.check_between_passes) placed.graph.check();
    report("plan memory", 0.9);
    return assign_storage(flatten(placed, constants));
  } catch (const Error& error) {
    throw error.in(where);
  }
}

namespace {

void check_names(const std::vector<Graph>& graphs) {
  std::set<std::string> names;
  for (const Graph& graph : graphs) {
    if (!names.insert(graph.name).second) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("two programs are named \"{}\": rename one", graph.name));
    }
  }
}

// A key that two graphs give different values gets the program's name before it.
void add_metadata(std::map<std::string, std::string>& all, const Graph& graph) {
  for (const auto& [key, value] : graph.metadata) {
    const auto [it, is_new] = all.emplace(key, value);
    if (!is_new && it->second != value) all[graph.name + "." + key] = value;
  }
}

}  // namespace

Binary compile_for(std::vector<Graph> graphs, const CompileOptions& options, const Target& target) {
  if (graphs.empty()) {
    throw Error(ErrorCode::invalid_argument, "there is no graph to compile: give one or more");
  }
  check_names(graphs);
  apply_options(graphs, options);
  std::vector<std::vector<ShardRule>> rules = rules_by_graph(graphs, options.shards);
  BinaryContents contents;
  contents.target = target.info();
  ConstantPool constants;
  const auto count = static_cast<double>(graphs.size());
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    add_metadata(contents.metadata, graphs[i]);
    LowerContext context{.target = target, .mesh = options.mesh};
    context.wishes = {std::move(rules[i]), options.automatic};
    if (options.progress) {
      context.progress = [&](std::string_view stage, double done) {
        options.progress(stage, (static_cast<double>(i) + done) / count);
      };
    }
    contents.programs.push_back(lower(std::move(graphs[i]), constants, context));
  }
  contents.constants = constants.take();
  if (options.progress) options.progress("done", 1);
  return Binary::from_contents(std::move(contents));
}

}  // namespace tilemesh
