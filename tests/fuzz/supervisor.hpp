#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "execute.hpp"

namespace tilemesh::fuzz {

/// What went wrong with a mutant.
struct Fault {
  std::uint64_t number = 0;
  std::string text;
};

struct Tally {
  std::array<std::uint64_t, static_cast<std::size_t>(Outcome::count)> outcomes{};
  std::vector<Fault> faults;
  double slowest_seconds = 0;
  std::uint64_t slowest = 0;
  std::int64_t most_bytes = 0;  ///< resident in one process
};

struct SuperviseOptions {
  std::uint64_t from = 0;
  std::uint64_t count = 0;
  int jobs = 1;
  double seconds_a_mutant = 60;
  std::int64_t most_bytes = std::int64_t{1} << 30;  ///< resident beyond what a fresh process has
  std::uint64_t most_faults = 200;                  ///< after which it gives up
};

/// Tries the mutants [from, from + count) in child processes, `jobs` at a time, each of which goes
/// on until one crashes, hangs or takes too much memory: that is a fault, and another child goes on
/// after it. `attempt` runs in the children; its text is what they had to say of a fault.
Tally supervise(const SuperviseOptions& options,
                const std::function<Outcome(std::uint64_t number, std::string& text)>& attempt);

}  // namespace tilemesh::fuzz
