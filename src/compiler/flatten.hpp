#pragma once

#include <cstdint>
#include <vector>

#include "tilemesh/program/program.hpp"

#include "compiler/constant_pool.hpp"
#include "compiler/placed_graph.hpp"

namespace tilemesh {

/// A program with its ops in one list, whose values don't lie anywhere yet.
struct FlatProgram {
  static constexpr std::uint32_t kOwn = 0xffffffff;

  Program program;
  /// By value: the value whose bytes it shows in another shape, or kOwn.
  std::vector<std::uint32_t> view_of;
  std::vector<Space> output_spaces;
};

/// Turns branches into jumps; both sides of a branch write its outputs. Constants go into `pool`.
FlatProgram flatten(const PlacedGraph& placed, ConstantPool& pool);

/// Decides where every value lies: in an input, an output, a constant or the workspace, so that
/// nothing is overwritten while it is needed. Outputs are written by their producers where that is
/// possible, and copied at the end where not; an output with an alias goes into its input's buffer
/// once the input has been read for the last time. Throws invalid_argument for an alias whose types
/// differ.
Program assign_storage(FlatProgram flat);

}  // namespace tilemesh
