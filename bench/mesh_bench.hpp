#pragma once

#include <string_view>

namespace bench {

/// Runs one case of the mesh's memory and command layer and prints {"value": x, "reference": y},
/// medians of what was measured in turns. False if there is no such case; an empty name prints the
/// cases there are, one a line.
bool run_mesh_case(std::string_view name);

}  // namespace bench
