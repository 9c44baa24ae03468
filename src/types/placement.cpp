#include "tilemesh/types/placement.hpp"

#include <array>

#include <fmt/format.h>

namespace tilemesh {
namespace {

constexpr std::array<std::string_view, 5> kReduceNames = {"sum", "max", "min", "mean", "prod"};

}  // namespace

std::string Placement::to_string() const {
  switch (kind_) {
    case Kind::replicate: return "replicate";
    case Kind::shard: return fmt::format("shard {}", dim());
    case Kind::partial: break;
  }
  return fmt::format("partial {}", value_ < kReduceNames.size() ? kReduceNames[value_] : "?");
}

}  // namespace tilemesh
