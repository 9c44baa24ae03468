#include "values.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tilemesh/types/redistribution.hpp"

#include "collectives.hpp"
#include "describe.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

bool contains(const std::vector<std::uint32_t>& values, std::uint32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::vector<std::size_t> makers(const Program& program, std::uint32_t value) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (contains(program.ops[i].outputs, value)) {
      result.push_back(i);
    }
  }
  return result;
}

std::vector<std::size_t> readers(const Program& program, std::uint32_t value) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (contains(program.ops[i].inputs, value)) {
      result.push_back(i);
    }
  }
  return result;
}

std::string_view storage_text(Storage::Kind kind) {
  switch (kind) {
    case Storage::Kind::input: return "input";
    case Storage::Kind::output: return "output";
    case Storage::Kind::constant: return "constant";
    case Storage::Kind::workspace: return "workspace";
    case Storage::Kind::none: break;
  }
  return "none";
}

std::string op_title(const Program& program, std::size_t op) {
  const ProgramOp& made = program.ops[op];
  return made.name.empty() ? fmt::format("op {}, {}", op, printable_line(made.op))
                           : fmt::format("op {}, {} \"{}\"", op, printable_line(made.op),
                                         printable_line(made.name));
}

/// "x" (replicate, shard 0)
std::string operand_title(const Program& program, std::uint32_t value) {
  const ProgramValue& operand = program.values[value];
  const std::string name = operand.name.empty()
                               ? fmt::format("value {}", value)
                               : fmt::format("\"{}\"", printable_line(operand.name));
  return program.mesh.device_count() == 1
             ? name
             : fmt::format("{} {}", name, placements_to_string(operand.spec));
}

std::string operand_titles(const Program& program, const std::vector<std::uint32_t>& values) {
  std::string text;
  for (const std::uint32_t value : values) {
    if (value != ProgramOp::kAbsent) {
      text += (text.empty() ? "" : ", ") + operand_title(program, value);
    }
  }
  return text.empty() ? "nothing" : text;
}

std::string why_text(const Program& program, const ProgramValue& value) {
  if (!value.reason.empty()) {
    return printable_line(value.reason);
  }
  if (program.mesh.device_count() == 1) {
    return "the mesh has one device, which has all of it";
  }
  return value.spec.is_replicated() ? "nothing asks for a cut, so each device has all of it"
                                    : "the binary says no reason";
}

/// Where it comes from.
std::string origin_text(const Program& program, std::uint32_t value) {
  for (const ProgramInput& input : program.inputs) {
    if (input.value == value) {
      return fmt::format("It is input \"{}\" ({}).", printable_line(input.name),
                         to_string(input.kind));
    }
  }
  std::string text;
  for (const std::size_t op : makers(program, value)) {
    text += text.empty() ? "It is made by " : ", or by ";
    text += fmt::format("{}, from {}", op_title(program, op),
                        operand_titles(program, program.ops[op].inputs));
  }
  if (!text.empty()) {
    return text + ".";
  }
  const Storage& storage = program.values[value].storage;
  if (storage.kind == Storage::Kind::constant) {
    return "It is a parameter, stored in the binary.";
  }
  return fmt::format("No op makes it: it shows bytes of the {} in another shape or order.",
                     storage_text(storage.kind));
}

std::string operand_numbers(const ProgramOp& op, std::uint32_t value) {
  std::string text;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == value) {
      text += fmt::format("{}{}", text.empty() ? "" : " and ", i);
    }
  }
  return text;
}

/// One sentence an op that reads it.
std::string reader_text(const Program& program, std::uint32_t value, std::size_t i) {
  const ProgramOp& op = program.ops[i];
  if (op.kind == ProgramOp::Kind::jump_if_false) {
    return fmt::format("Op {} decides by it whether to go on at op {}.", i, op.target);
  }
  if (op.kind == ProgramOp::Kind::repeat) {
    return fmt::format("Op {} decides by it whether to go back to op {}.", i, op.target);
  }
  if (is_reshard(op)) {
    const Collective one = collective_of(program, i);
    return fmt::format("Op {}, {}, brings it to {}: {} bytes received by a device, since {}.", i,
                       one.movement, placements_to_string(program.values[op.outputs[0]].spec),
                       one.bytes,
                       one.reason.empty() ? "its readers want it so" : printable_line(one.reason));
  }
  const std::string title = op_title(program, i);
  return fmt::format("O{} takes it as input {}{}.", title.substr(1), operand_numbers(op, value),
                     program.mesh.device_count() == 1 ? "" : ", as it lies");
}

}  // namespace

std::vector<std::uint32_t> values_named(const Program& program, const std::string& name) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t i = 0; i < program.values.size(); ++i) {
    const bool is_output =
        std::any_of(program.outputs.begin(), program.outputs.end(),
                    [&](const auto& output) { return output.value == i && output.name == name; });
    if (program.values[i].name == name || is_output) {
      result.push_back(i);
    }
  }
  return result;
}

std::vector<std::string> value_names(const Program& program) {
  std::vector<std::string> names;
  for (const ProgramValue& value : program.values) {
    names.push_back(value.name);
  }
  for (const ProgramOutput& output : program.outputs) {
    names.push_back(output.name);
  }
  return names;
}

// Names stand on lines of their own: they are what other options take, so nothing may be cut off.
std::string values_text(const Program& program) {
  Table table({"type", "placement", "layout", "where", "bytes a device"});
  for (const ProgramValue& value : program.values) {
    table.add({type_text(value.spec), placement_text(value.spec), layout_text(value.spec),
               std::string(storage_text(value.storage.kind)),
               fmt::format("{}", value.spec.bytes_per_device())});
  }
  std::istringstream lines(table.to_string(6));
  std::string line;
  std::string text = "  value\n";
  for (std::size_t row = 0; std::getline(lines, line); ++row) {
    if (row == 0) {
      text += line + "\n      why\n";
      continue;
    }
    const ProgramValue& value = program.values[row - 1];
    text += fmt::format("  {}\n{}\n", printable_line(value.name), line);
    if (!value.reason.empty()) {
      text += fmt::format("      {}\n", printable_line(value.reason));
    }
  }
  return text;
}

std::string explain_text(const Program& program, std::uint32_t value) {
  const ProgramValue& explained = program.values[value];
  std::string text =
      fmt::format("{}: {}\n",
                  explained.name.empty() ? fmt::format("value {}", value)
                                         : fmt::format("\"{}\"", printable_line(explained.name)),
                  explained.spec.to_string());
  text += fmt::format("  Why: {}.\n", why_text(program, explained));
  text += fmt::format("  {}\n", origin_text(program, value));
  const std::vector<std::size_t> ops = readers(program, value);
  for (const std::size_t op : ops) {
    text += fmt::format("  {}\n", reader_text(program, value, op));
  }
  bool is_output = false;
  for (const ProgramOutput& output : program.outputs) {
    if (output.value == value) {
      text += fmt::format("  It is output \"{}\".\n", printable_line(output.name));
      is_output = true;
    }
  }
  if (ops.empty() && !is_output) {
    text += "  No op reads it by this name.\n";
  }
  return text;
}

nlohmann::ordered_json values_json(const Program& program,
                                   const std::vector<std::uint32_t>& values) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::uint32_t value : values) {
    const ProgramValue& listed = program.values[value];
    nlohmann::ordered_json entry = {{"value", value}, {"name", listed.name}};
    entry.update(spec_json(listed.spec));
    entry["reason"] = listed.reason;
    entry["storage"] = std::string(storage_text(listed.storage.kind));
    entry["made_by"] = makers(program, value);
    entry["read_by"] = readers(program, value);
    json.push_back(entry);
  }
  return json;
}

}  // namespace tilemesh::cli
