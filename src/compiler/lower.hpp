#pragma once

#include <functional>
#include <string_view>

#include "tilemesh/compiler/compile.hpp"

#include "compiler/constant_pool.hpp"
#include "compiler/placed_graph.hpp"

namespace tilemesh {

/// What lowering one graph needs besides the graph.
struct LowerContext {
  const Target& target;
  MeshShape mesh = {1, 1};
  bool check_between_passes = false;  ///< for tests: Graph::check after every pass
  std::function<void(std::string_view stage, double done)> progress = {};
  ShardWishes wishes = {};
};

/// Sets kinds, spaces, cuts and states of inputs and outputs as the options say. Throws not_found,
/// with the names there are, for a name that no graph has.
void apply_options(std::vector<Graph>& graphs, const CompileOptions& options);

/// The passes that simplify a graph and keep its meaning: clean-up, folding, patterns.
void simplify(Graph& graph, const LowerContext& context);
/// Fuses elementwise chains, the last pass.
void fuse(Graph& graph, const LowerContext& context);
/// Both.
void optimise(Graph& graph, const LowerContext& context);

/// One graph to one program: simplify, partition, fuse, choose layouts, flatten, plan memory.
Program lower(Graph graph, ConstantPool& constants, const LowerContext& context);

/// `compile` for a target that is given.
Binary compile_for(std::vector<Graph> graphs, const CompileOptions& options, const Target& target);

}  // namespace tilemesh
