#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tilemesh/program/program.hpp"

namespace tilemesh::cli {

/// A reshard of a program: what moves, how, and why.
struct Collective {
  std::size_t op = 0;      ///< its number in the program
  std::string value;       ///< that lies otherwise afterwards
  std::string movement;    ///< "all_reduce"; "fill" where only padding is set
  std::vector<int> axes;   ///< of the mesh, along which placements change
  std::int64_t bytes = 0;  ///< that a device receives from others, at most
  std::string placements;  ///< "(replicate, partial sum) -> (replicate, replicate)"
  std::string reason;

  /// Whether devices read each other's memory.
  bool between_devices() const { return bytes > 0; }
};

/// Op number `op` as a movement; requires is_reshard.
Collective collective_of(const Program& program, std::size_t op);
/// Every reshard, in order of execution.
std::vector<Collective> collectives_of(const Program& program);

/// A table, and a line with the sum; empty if there are none.
std::string collectives_text(const Program& program);
/// {"count", "between_devices", "bytes_per_device", "reshards": [{"op", "value", "movement",
/// "axes", "placements", "bytes_per_device", "reason"}]}
nlohmann::ordered_json collectives_json(const Program& program);

}  // namespace tilemesh::cli
