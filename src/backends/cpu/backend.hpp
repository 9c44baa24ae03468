#pragma once

#include "tilemesh/device/backend.hpp"

namespace tilemesh::cpu {

/// Devices of this machine's cores.
const Backend& backend();

}  // namespace tilemesh::cpu
