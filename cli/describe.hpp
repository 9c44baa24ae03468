#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tilemesh/ops/op.hpp"
#include "tilemesh/program/program.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh::cli {

/// "f32[2,3]"
std::string type_text(const TensorSpec& spec);
/// "replicate, shard 0"; "-" on one device
std::string placement_text(const TensorSpec& spec);
/// "(R,S0)": R replicated, S0 cut along dim 0, Psum parts of a sum; empty if replicated along all
/// axes
std::string short_placement_text(const TensorSpec& spec);
/// "rows", "aBcd16b"
std::string layout_text(const TensorSpec& spec);

/// {"dtype", "shape", "layout", "placements", "space", "bytes_per_device"}
nlohmann::ordered_json spec_json(const TensorSpec& spec);

/// What a device holds for a program, in one memory space.
struct SpaceUse {
  Space space = Space::dram;
  std::int64_t constants = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t workspace = 0;
  std::int64_t unshared = 0;  ///< what the workspace would need without reuse

  std::int64_t total() const { return constants + inputs + outputs + workspace; }
};
/// Per space, those that nothing uses left out.
std::vector<SpaceUse> memory_plan(const Program& program);

}  // namespace tilemesh::cli
