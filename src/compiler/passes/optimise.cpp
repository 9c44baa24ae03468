#include <array>

#include <fmt/format.h>

#include "compiler/lower.hpp"
#include "compiler/passes/pass.hpp"

namespace tilemesh {

std::span<const passes::NamedPass> passes::simplifications() {
  static constexpr std::array kPasses = {
      NamedPass{"fold_constants", fold_constants},
      NamedPass{"inline_known_branches", inline_known_branches},
      NamedPass{"merge_equal", merge_equal},
      NamedPass{"remove_no_ops", remove_no_ops},
      NamedPass{"simplify_arithmetic", simplify_arithmetic},
      NamedPass{"find_activations", find_activations},
      NamedPass{"find_layer_norm", find_layer_norm},
      NamedPass{"fold_into_weights", fold_into_weights},
      NamedPass{"fold_before_conv", fold_before_conv},
      NamedPass{"simplify_linear_algebra", simplify_linear_algebra},
      NamedPass{"split_products", split_products},
  };
  return kPasses;
}

namespace {

// Copies of a graph share the blocks of its branches; passes change only what is their own.
void own_blocks(GraphBlock& block) {
  for (GraphNode& node : block.nodes) {
    for (std::shared_ptr<GraphBlock>& inner : node.blocks) {
      inner = std::make_shared<GraphBlock>(*inner);
      own_blocks(*inner);
    }
  }
}

void check_after(std::string_view pass, const Graph& graph, const LowerContext& context) {
  if (!context.check_between_passes) return;
  try {
    graph.check();
  } catch (const Error& error) {
    throw error.in(fmt::format("after pass {}", pass));
  }
}

}  // namespace

void simplify(Graph& graph, const LowerContext& context) {
  own_blocks(graph.body);
  const auto check = [&](std::string_view pass) {
    check_after(pass, graph, context);
  };
  check("import");
  passes::remove_dead_code(graph);
  if (passes::widen_arithmetic(graph, context.target)) {
    passes::remove_dead_code(graph);
    check("widen_arithmetic");
  }
  // A pass can make work for one before it; what they do shrinks the graph, so few rounds are
  // enough, and stopping early costs speed alone.
  constexpr int kMaxRounds = 10;
  bool changed = true;
  for (int round = 0; changed && round < kMaxRounds; ++round) {
    changed = false;
    for (const passes::NamedPass& pass : passes::simplifications()) {
      if (!pass.run(graph)) continue;
      changed = true;
      passes::remove_dead_code(graph);
      check(pass.name);
    }
  }
}

void fuse(Graph& graph, const LowerContext& context) {
  passes::fuse_elementwise(graph, context.target);
  check_after("fuse_elementwise", graph, context);
}

void optimise(Graph& graph, const LowerContext& context) {
  simplify(graph, context);
  fuse(graph, context);
}

}  // namespace tilemesh
