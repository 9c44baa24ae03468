#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tilemesh::cpu {

/// Where the system tells of control groups.
struct CgroupPaths {
  std::string mount = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

/// Whole cores' worth of time that the process's control group allows, rounded up; nullopt if it
/// sets no limit. Reads versions 1 and 2, and the limits of the groups above.
std::optional<std::int64_t> cgroup_cores(const CgroupPaths& paths = {});
/// Memory that it allows; nullopt if it sets no limit.
std::optional<std::int64_t> cgroup_memory_bytes(const CgroupPaths& paths = {});

}  // namespace tilemesh::cpu
