#include "collectives.hpp"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tilemesh/types/redistribution.hpp"

#include "table.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

struct Sum {
  std::size_t between_devices = 0;
  std::int64_t bytes = 0;
};

Sum sum_of(const std::vector<Collective>& all) {
  Sum sum;
  for (const Collective& one : all) {
    sum.between_devices += one.between_devices() ? 1U : 0U;
    sum.bytes += one.bytes;
  }
  return sum;
}

std::string count_text(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

Collective collective_of(const Program& program, std::size_t op) {
  const ProgramOp& reshard = program.ops[op];
  const ProgramValue& from = program.values[reshard.inputs[0]];
  const TensorSpec& to = program.values[reshard.outputs[0]].spec;
  Collective result;
  result.op = op;
  result.value = from.name;
  const Movement movement = movement_between(from.spec, to);
  result.movement = movement == Movement::none ? "fill" : std::string(to_string(movement));
  for (int axis = 0; axis < program.mesh.axes(); ++axis) {
    const bool changes = !(from.spec.placement(axis) == to.placement(axis));
    if (changes && program.mesh[axis] > 1) {
      result.axes.push_back(axis);
    }
  }
  result.bytes = plan_reshard(from.spec, to).bytes();
  result.placements =
      fmt::format("{} -> {}", placements_to_string(from.spec), placements_to_string(to));
  result.reason = reshard.message;
  return result;
}

std::vector<Collective> collectives_of(const Program& program) {
  std::vector<Collective> result;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (is_reshard(program.ops[i])) {
      result.push_back(collective_of(program, i));
    }
  }
  return result;
}

std::string collectives_text(const Program& program) {
  const std::vector<Collective> all = collectives_of(program);
  if (all.empty()) {
    return {};
  }
  Table table({"#", "reshard", "axes", "bytes a device", "value"});
  for (const Collective& one : all) {
    table.add({fmt::format("{}", one.op), one.movement, fmt::format("{}", fmt::join(one.axes, ",")),
               fmt::format("{}", one.bytes), one.value});
  }
  // Reasons are too long for a column.
  std::istringstream lines(table.to_string());
  std::string text;
  std::string line;
  for (std::size_t row = 0; std::getline(lines, line); ++row) {
    text += line + "\n";
    if (row > 0 && !all[row - 1].reason.empty()) {
      text += fmt::format("      {}\n", printable_line(all[row - 1].reason));
    }
  }
  const Sum sum = sum_of(all);
  const std::size_t local = all.size() - sum.between_devices;
  return fmt::format("{}  {} between devices, {} bytes received by a device{}\n", text,
                     count_text(sum.between_devices, "movement"), sum.bytes,
                     local == 0 ? "" : fmt::format("; {} on each device alone", local));
}

nlohmann::ordered_json collectives_json(const Program& program) {
  const std::vector<Collective> all = collectives_of(program);
  const Sum sum = sum_of(all);
  nlohmann::ordered_json json = {{"count", all.size()},
                                 {"between_devices", sum.between_devices},
                                 {"bytes_per_device", sum.bytes},
                                 {"reshards", nlohmann::ordered_json::array()}};
  for (const Collective& one : all) {
    json["reshards"].push_back({{"op", one.op},
                                {"value", one.value},
                                {"movement", one.movement},
                                {"axes", one.axes},
                                {"placements", one.placements},
                                {"bytes_per_device", one.bytes},
                                {"reason", one.reason}});
  }
  return json;
}

}  // namespace tilemesh::cli
