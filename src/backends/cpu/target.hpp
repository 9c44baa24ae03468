#pragma once

#include <memory>

#include "tilemesh/ops/target.hpp"

namespace tilemesh::cpu {

/// What the compiler asks about a CPU, which needn't be this one: for this one the kernel lists and
/// oneDNN are asked what they take, for another the rules that they usually follow.
std::unique_ptr<Target> make_target(const TargetInfo& info);

}  // namespace tilemesh::cpu
