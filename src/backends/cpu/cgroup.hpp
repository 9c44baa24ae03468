#pragma once

#include <cstdint>
#include <optional>

namespace tilemesh::cpu {

/// Whole cores' worth of time that the process's control group allows, rounded up; nullopt if it
/// sets no limit.
std::optional<std::int64_t> cgroup_cores();
/// Memory that it allows; nullopt if it sets no limit.
std::optional<std::int64_t> cgroup_memory_bytes();

}  // namespace tilemesh::cpu
