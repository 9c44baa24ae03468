#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tilemesh/runtime/profile.hpp"

namespace tilemesh::cli {

/// Two tables: what each implementation takes in all, and the ops that take most.
std::string profile_text(const Executable& executable, const Profile& profile);

/// One object for each part, in order of execution:
/// {"first", "count", "op", "name", "implementation", "median_us", "share"}
nlohmann::ordered_json profile_json(const Executable& executable, const Profile& profile);

}  // namespace tilemesh::cli
