#include "backends/cpu/cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "tilemesh/base/math.hpp"

namespace tilemesh::cpu {

namespace {

/// The first line's words of a control file; empty if there is no such file.
std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) {
    words.push_back(word);
  }
  return words;
}

/// A non-negative number; nullopt for "max", -1 and anything else that means no limit.
std::optional<std::int64_t> number(const std::string& word) {
  constexpr std::size_t kMostDigits = 18;  // version 1 writes 2^63 for no limit
  if (word.empty() || word.size() > kMostDigits ||
      word.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoll(word);
}

/// The group of a version 1 controller ("" asks for version 2): "/user.slice/...".
std::string group_of(const CgroupPaths& paths, const std::string& controller) {
  std::ifstream file(paths.membership);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (names.find("," + controller + ",") != std::string::npos) {
      return line.substr(second + 1);
    }
  }
  return {};
}

/// Folders whose limits apply, from the group up to the root of its hierarchy. In a container the
/// group's path may be the host's, and only the root be there.
std::vector<std::string> folders(const std::string& mount, std::string group) {
  std::vector<std::string> result;
  while (group.size() > 1) {
    result.push_back(mount + group);
    group.erase(group.rfind('/'));
  }
  result.push_back(mount);
  return result;
}

void lower(std::optional<std::int64_t>& limit, std::optional<std::int64_t> other) {
  if (other && (!limit || *other < *limit)) {
    limit = other;
  }
}

std::optional<std::int64_t> cores(std::optional<std::int64_t> quota,
                                  std::optional<std::int64_t> period) {
  if (!quota || !period || *period == 0) {
    return std::nullopt;
  }
  return std::max<std::int64_t>(1, ceil_div(*quota, *period));
}

}  // namespace

std::optional<std::int64_t> cgroup_cores(const CgroupPaths& paths) {
  std::optional<std::int64_t> limit;
  for (const std::string& folder : folders(paths.mount, group_of(paths, ""))) {
    if (const auto words = words_of(folder + "/cpu.max"); words.size() == 2) {
      lower(limit, cores(number(words[0]), number(words[1])));
    }
  }
  for (const std::string& folder : folders(paths.mount + "/cpu", group_of(paths, "cpu"))) {
    const auto quota = words_of(folder + "/cpu.cfs_quota_us");
    const auto period = words_of(folder + "/cpu.cfs_period_us");
    if (!quota.empty() && !period.empty()) {
      lower(limit, cores(number(quota[0]), number(period[0])));
    }
  }
  return limit;
}

std::optional<std::int64_t> cgroup_memory_bytes(const CgroupPaths& paths) {
  std::optional<std::int64_t> limit;
  for (const std::string& folder : folders(paths.mount, group_of(paths, ""))) {
    if (const auto words = words_of(folder + "/memory.max"); !words.empty()) {
      lower(limit, number(words[0]));
    }
  }
  for (const std::string& folder : folders(paths.mount + "/memory", group_of(paths, "memory"))) {
    if (const auto words = words_of(folder + "/memory.limit_in_bytes"); !words.empty()) {
      lower(limit, number(words[0]));
    }
  }
  return limit;
}

}  // namespace tilemesh::cpu
