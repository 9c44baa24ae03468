#pragma once

#include <string_view>

namespace bench {

/// Runs a case of the collectives and prints {"value": x, "reference": y}; the names of all cases,
/// a line each, if `name` is empty. False if there is no such case.
bool run_collectives_case(std::string_view name);

}  // namespace bench
