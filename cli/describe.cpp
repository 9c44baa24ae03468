#include "describe.hpp"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tilemesh::cli {

std::string type_text(const TensorSpec& spec) {
  return fmt::format("{}{}", to_string(spec.dtype), spec.shape.to_string());
}

std::string placement_text(const TensorSpec& spec) {
  if (spec.mesh.device_count() == 1) {
    return "-";
  }
  std::string text;
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    text += (axis == 0 ? "" : ", ") + spec.placement(axis).to_string();
  }
  return text;
}

std::string short_placement_text(const TensorSpec& spec) {
  if (spec.is_replicated()) {
    return {};
  }
  std::string text;
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    const Placement placement = spec.placement(axis);
    const std::string word = placement.to_string();  // "shard 0", "partial sum"
    text += axis == 0 ? "(" : ",";
    if (placement.is_replicate()) {
      text += "R";
    } else {
      text += (placement.is_shard() ? "S" : "P") + word.substr(word.find(' ') + 1);
    }
  }
  return text + ")";
}

std::string layout_text(const TensorSpec& spec) {
  return spec.layout.to_string(spec.shape.rank());
}

nlohmann::ordered_json spec_json(const TensorSpec& spec) {
  nlohmann::ordered_json json;
  json["dtype"] = std::string(to_string(spec.dtype));
  json["shape"] = std::vector<std::int64_t>(spec.shape.begin(), spec.shape.end());
  json["layout"] = layout_text(spec);
  json["placements"] = nlohmann::ordered_json::array();
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    json["placements"].push_back(spec.placement(axis).to_string());
  }
  json["space"] = std::string(to_string(spec.space));
  json["bytes_per_device"] = spec.bytes_per_device();
  return json;
}

std::vector<SpaceUse> memory_plan(const Program& program) {
  std::array<SpaceUse, 3> spaces = {SpaceUse{Space::host}, SpaceUse{Space::dram},
                                    SpaceUse{Space::l1}};
  const auto use_of = [&](const TensorSpec& spec) -> SpaceUse& {
    return spaces[static_cast<std::size_t>(spec.space)];
  };
  for (const ProgramConstant& constant : program.constants) {
    const TensorSpec& spec = program.values[constant.value].spec;
    use_of(spec).constants += spec.bytes_per_device();  // of a cut one a device has its shard alone
  }
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    use_of(program.input_spec(i)).inputs += program.input_spec(i).bytes_per_device();
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.outputs[i].alias < 0) {
      use_of(program.output_spec(i)).outputs += program.output_spec(i).bytes_per_device();
    }
  }
  for (const ProgramValue& value : program.values) {
    if (value.storage.kind == Storage::Kind::workspace) {
      use_of(value.spec).unshared += value.spec.bytes_per_device();
    }
  }
  spaces[static_cast<std::size_t>(Space::dram)].workspace = program.dram_workspace_bytes;
  spaces[static_cast<std::size_t>(Space::l1)].workspace = program.l1_workspace_bytes;
  std::vector<SpaceUse> used;
  for (const SpaceUse& space : spaces) {
    if (space.total() > 0) {
      used.push_back(space);
    }
  }
  return used;
}

}  // namespace tilemesh::cli
