#pragma once

#include <cstdint>

#include "tilemesh/program/binary.hpp"

namespace tilemesh::fuzz {

/// How far a mutant came. A count of each is kept; the last ones are faults of ours.
enum class Outcome : std::uint8_t {
  refused,     ///< by an Error where the file is read, verified or compiled
  unprepared,  ///< by an Error of prepare
  large,       ///< accepted, but larger than is worth running
  not_run,     ///< by an Error when it ran
  ran,
  internal,   ///< a check of ours has found a bug
  exception,  ///< something that is no Error was thrown
  leak,       ///< memory is still held afterwards
  count
};
const char* to_string(Outcome outcome);
constexpr bool is_fault(Outcome outcome) {
  return outcome >= Outcome::internal;
}

/// Prepares every program of a verified binary on guarded meshes and runs it with random inputs,
/// drawn by `number`; gives the worst outcome, and its message.
Outcome run_programs(const Binary& binary, std::uint64_t number, std::string& message);

}  // namespace tilemesh::fuzz
