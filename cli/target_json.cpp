#include "target_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/error.hpp"

namespace tilemesh::cli {
namespace {

/// Calls `field(name, member)` for every field, so that reading and writing can't drift apart.
template <class Target, class Field>
void each_field(Target& target, Field field) {
  field("backend", target.backend);
  field("processor", target.processor);
  field("features", target.features);
  field("cores", target.cores);
  field("threads_per_device", target.threads_per_device);
  field("l1_bytes", target.l1_bytes);
  field("dram_bytes", target.dram_bytes);
  field("l1d_cache_bytes", target.l1d_cache_bytes);
  field("l2_cache_bytes", target.l2_cache_bytes);
  field("l3_cache_bytes", target.l3_cache_bytes);
  field("memory_bytes", target.memory_bytes);
  field("numa_nodes", target.numa_nodes);
}

}  // namespace

nlohmann::ordered_json target_json(const TargetInfo& target) {
  nlohmann::ordered_json json;
  each_field(target, [&](const char* name, const auto& member) { json[name] = member; });
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
  each_field(target, [&](const char* name, auto& member) {
    const auto found = json.find(name);
    if (found == json.end()) {
      return;
    }
    ++known;
    try {
      found->get_to(member);
    } catch (const nlohmann::json::exception&) {
      throw broken(fmt::format("\"{}\" has the wrong type", name));
    }
  });
  if (known == 0) {
    throw broken("it has none of its keys");
  }
  if (target.cores < 1 || target.threads_per_device < 1 || target.dram_bytes < 0 ||
      target.l1_bytes < 0) {
    throw broken("its cores, threads or sizes are impossible");
  }
  return target;
}

}  // namespace tilemesh::cli
