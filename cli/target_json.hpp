#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "tilemesh/ops/target.hpp"

namespace tilemesh::cli {

/// A machine as JSON: what `query` prints, one key a field of TargetInfo.
nlohmann::ordered_json target_json(const TargetInfo& target);

/// The inverse. Missing keys keep their defaults, unknown ones are skipped; throws invalid_file,
/// naming `file` and the key, for wrong types and impossible values.
TargetInfo parse_target(std::string_view text, const std::string& file);

}  // namespace tilemesh::cli
