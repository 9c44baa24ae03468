#pragma once

#include "tilemesh/device/backend.hpp"

namespace tilemesh::null {

/// Devices without threads of their own: commands complete at once, on the thread that enqueues
/// them (or that completes what they wait for). The page to copy for a new backend, and the
/// plainest one to test against.
const Backend& backend();

}  // namespace tilemesh::null
