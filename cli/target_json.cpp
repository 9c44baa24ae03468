#include "target_json.hpp"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/error.hpp"

namespace tilemesh::cli {
namespace {

/// Both included; texts have none.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
constexpr std::int64_t kMostDevices = 1 << 16;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

/// Calls `field(name, member, range)` for every field, so that reading and writing can't drift
/// apart.
template <class Target, class Field>
void each_field(Target& target, Field field) {
  field("backend", target.backend, Range{});
  field("processor", target.processor, Range{});
  field("features", target.features, Range{});
  field("cores", target.cores, Range{1, kMostDevices});
  field("threads_per_device", target.threads_per_device, Range{1, kMostDevices});
  field("l1_bytes", target.l1_bytes, Range{0, kMostBytes});
  field("dram_bytes", target.dram_bytes, Range{0, kMostBytes});
  field("l1d_cache_bytes", target.l1d_cache_bytes, Range{0, kMostBytes});
  field("l2_cache_bytes", target.l2_cache_bytes, Range{0, kMostBytes});
  field("l3_cache_bytes", target.l3_cache_bytes, Range{0, kMostBytes});
  field("memory_bytes", target.memory_bytes, Range{0, kMostBytes});
  field("numa_nodes", target.numa_nodes, Range{0, kMostDevices});
}

/// A whole number in the range, whatever the JSON library would make of others.
std::optional<std::int64_t> number_in(const nlohmann::json& json, const Range& range) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    const bool fits =
        std::cmp_greater_equal(value, range.least) && std::cmp_less_equal(value, range.most);
    return fits ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
  }
  if (!json.is_number_integer()) {
    return std::nullopt;
  }
  const auto value = json.get<std::int64_t>();
  return value >= range.least && value <= range.most ? std::optional(value) : std::nullopt;
}

/// False if the value isn't what the member takes.
template <class Member>
bool read_member(const nlohmann::json& json, Member& member, const Range& range) {
  if constexpr (std::is_integral_v<Member>) {
    const std::optional<std::int64_t> number = number_in(json, range);
    member = static_cast<Member>(number.value_or(0));
    return number.has_value();
  } else {
    try {
      json.get_to(member);
      return true;
    } catch (const nlohmann::json::exception&) {
      return false;
    }
  }
}

}  // namespace

nlohmann::ordered_json target_json(const TargetInfo& target) {
  nlohmann::ordered_json json;
  each_field(target, [&](const char* name, const auto& member, const Range& /*range*/) {
    json[name] = member;
  });
  return json;
}

TargetInfo parse_target(std::string_view text, const std::string& file) {
  const auto broken = [&](const std::string& what) {
    return Error(ErrorCode::invalid_file,
                 fmt::format("\"{}\" is no target of `tilemesh query`: {}", file, what));
  };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw broken("it is no JSON object");
  }
  TargetInfo target;
  std::size_t known = 0;
  each_field(target, [&](const char* name, auto& member, const Range& range) {
    const auto found = json.find(name);
    if (found == json.end()) {
      return;
    }
    ++known;
    if (!read_member(*found, member, range)) {
      throw broken(range.most == 0 ? fmt::format("\"{}\" has the wrong type", name)
                                   : fmt::format("\"{}\" is no whole number from {} to {}", name,
                                                 range.least, range.most));
    }
  });
  if (known == 0) {
    throw broken("it has none of its keys");
  }
  return target;
}

}  // namespace tilemesh::cli
