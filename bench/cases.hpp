#pragma once

#include <cstdio>
#include <span>
#include <string_view>

namespace bench {

/// What was measured, and what it is held against; 0 for nothing.
struct Result {
  double value = 0;
  double reference = 0;
};

struct Case {
  std::string_view name;
  Result (*run)();
};

/// Runs the case of that name and prints {"value": x, "reference": y}. False if there is none; an
/// empty name prints the cases there are, one a line.
inline bool run_case(std::span<const Case> cases, std::string_view name) {
  for (const Case& c : cases) {
    if (name.empty()) {
      std::printf("%.*s\n", static_cast<int>(c.name.size()), c.name.data());
    } else if (name == c.name) {
      const Result result = c.run();
      std::printf("{\"value\": %.4f, \"reference\": %.4f}\n", result.value, result.reference);
      return true;
    }
  }
  return name.empty();
}

}  // namespace bench
