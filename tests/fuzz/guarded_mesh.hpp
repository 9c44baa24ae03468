#pragma once

#include "tilemesh/mesh/mesh.hpp"

namespace tilemesh::fuzz {

/// A mesh of CPU devices on which every allocation ends, to 64 bytes, at a page that can't be
/// touched, and begins after another: a kernel that leaves its buffers ends the process.
Mesh open_guarded(const MeshShape& shape);

inline constexpr std::int64_t kGuardedDramBytes = 192 << 20;
inline constexpr std::int64_t kGuardedL1Bytes = 8 << 20;

}  // namespace tilemesh::fuzz
