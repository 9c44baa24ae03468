// tilemesh inspect BINARY.tmb

#include <algorithm>
#include <memory>
#include <numeric>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/program/binary.hpp"

#include "collectives.hpp"
#include "command.hpp"
#include "describe.hpp"
#include "model_file.hpp"
#include "table.hpp"
#include "target_json.hpp"
#include "terminal.hpp"
#include "values.hpp"

namespace tilemesh::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string binary;
  std::string program;
  std::string explain;
  bool values = false;
  bool json = false;

  bool shows(const Program& shown) const { return program.empty() || shown.name == program; }
};

std::string kind_of_output(const Program& program, const ProgramOutput& output) {
  if (output.alias < 0) {
    return "output";
  }
  return fmt::format("output, in place of {}",
                     program.inputs[static_cast<std::size_t>(output.alias)].name);
}

std::string operand_text(const Program& program, std::uint32_t value) {
  if (value == ProgramOp::kAbsent) {
    return "-";
  }
  const TensorSpec& spec = program.values[value].spec;
  return type_text(spec) + short_placement_text(spec);
}

std::string operands_text(const Program& program, const std::vector<std::uint32_t>& operands) {
  std::string text;
  for (const std::uint32_t operand : operands) {
    text += (text.empty() ? "" : ", ") + operand_text(program, operand);
  }
  return text;
}

/// "f32[2,3](R,S0), f32[3] -> f32[2,3](R,S0)", or where a jump leads.
std::string operands_text(const Program& program, const ProgramOp& op) {
  if (op.kind == ProgramOp::Kind::fail) {
    return op.message;
  }
  if (op.kind == ProgramOp::Kind::repeat) {
    return fmt::format("from op {}, {}at most {} times", op.target,
                       op.inputs[2] == ProgramOp::kAbsent ? "" : "while it holds, ", op.limit);
  }
  if (op.kind != ProgramOp::Kind::call) {
    return fmt::format("to op {}", op.target);
  }
  return fmt::format("{} -> {}", operands_text(program, op.inputs),
                     operands_text(program, op.outputs));
}

bool is_cut(const Program& program, const ProgramOp& op) {
  const auto any = [&](const std::vector<std::uint32_t>& operands) {
    return std::any_of(operands.begin(), operands.end(), [&](std::uint32_t operand) {
      return operand != ProgramOp::kAbsent && !program.values[operand].spec.is_replicated();
    });
  };
  return any(op.inputs) || any(op.outputs);
}

std::string op_text(const ProgramOp& op) {
  switch (op.kind) {
    case ProgramOp::Kind::jump: return "jump";
    case ProgramOp::Kind::jump_if_false: return "jump if false";
    case ProgramOp::Kind::repeat: return "repeat";
    case ProgramOp::Kind::fail: return "fail";
    case ProgramOp::Kind::call: break;
  }
  return op.epilogue.empty() ? op.op : fmt::format("{} {}", op.op, to_string(op.epilogue));
}

Json to_json(const Program& program, const ProgramOp& op) {
  Json json;
  json["op"] = op.kind == ProgramOp::Kind::call ? op.op : op_text(op);
  json["name"] = op.name;
  if (!op.epilogue.empty()) {
    json["epilogue"] = to_string(op.epilogue);
  }
  json["implementation"] = op.implementation;
  json["operands"] = operands_text(program, op);
  return json;
}

Json to_json(const SpaceUse& use) {
  return {{"space", std::string(to_string(use.space))},
          {"constants_bytes", use.constants},
          {"inputs_bytes", use.inputs},
          {"outputs_bytes", use.outputs},
          {"workspace_bytes", use.workspace},
          {"workspace_without_reuse_bytes", use.unshared},
          {"total_bytes", use.total()}};
}

/// The values that --explain names, or all.
std::vector<std::uint32_t> listed_values(const Program& program, const Options& options) {
  if (!options.explain.empty()) {
    return values_named(program, options.explain);
  }
  std::vector<std::uint32_t> all(program.values.size());
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

Json to_json(const Program& program, const Options& options) {
  Json json;
  json["name"] = program.name;
  json["mesh"] = program.mesh.to_string();
  json["inputs"] = Json::array();
  for (const ProgramInput& input : program.inputs) {
    Json entry = {{"name", input.name}, {"kind", std::string(to_string(input.kind))}};
    entry.update(spec_json(program.values[input.value].spec));
    json["inputs"].push_back(entry);
  }
  json["outputs"] = Json::array();
  for (const ProgramOutput& output : program.outputs) {
    Json entry = {{"name", output.name}};
    if (output.alias >= 0) {
      entry["alias"] = program.inputs[static_cast<std::size_t>(output.alias)].name;
    }
    entry.update(spec_json(program.values[output.value].spec));
    json["outputs"].push_back(entry);
  }
  json["ops"] = Json::array();
  for (const ProgramOp& op : program.ops) {
    json["ops"].push_back(to_json(program, op));
  }
  json["collectives"] = collectives_json(program);
  json["values"] = values_json(program, listed_values(program, options));
  json["parameters"] = Json::array();
  for (const ProgramConstant& constant : program.constants) {
    const ProgramValue& value = program.values[constant.value];
    Json entry = {{"name", value.name}, {"offset", constant.offset}, {"bytes", constant.bytes}};
    entry.update(spec_json(value.spec));
    json["parameters"].push_back(entry);
  }
  json["memory"] = Json::array();
  for (const SpaceUse& use : memory_plan(program)) {
    json["memory"].push_back(to_json(use));
  }
  return json;
}

Json to_json(const Binary& binary, const Options& options) {
  Json json;
  json["file"] = options.binary;
  json["constants_bytes"] = binary.constants().size();
  json["target"] = target_json(binary.target());
  json["metadata"] = binary.metadata();
  json["programs"] = Json::array();
  for (const Program& program : binary.programs()) {
    if (options.shows(program)) {
      json["programs"].push_back(to_json(program, options));
    }
  }
  return json;
}

void print_arguments(const Program& program) {
  Table table({"argument", "kind", "type", "layout", "placement", "space", "bytes a device"});
  const auto add = [&](const std::string& name, const std::string& kind, const TensorSpec& spec) {
    table.add({name, kind, type_text(spec), layout_text(spec), placement_text(spec),
               std::string(to_string(spec.space)), fmt::format("{}", spec.bytes_per_device())});
  };
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    add(program.inputs[i].name, std::string(to_string(program.inputs[i].kind)),
        program.input_spec(i));
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    add(program.outputs[i].name, kind_of_output(program, program.outputs[i]),
        program.output_spec(i));
  }
  print("\n" + table.to_string());
}

/// Two lines an op: what it does, and below it how, and its name in the model. Operands that are
/// cut take more room, and their results a line of their own.
void print_ops(const Program& program) {
  Table table({"#", "op", "operands"});
  bool any_cut = false;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const ProgramOp& op = program.ops[i];
    const bool cut = op.kind == ProgramOp::Kind::call && is_cut(program, op);
    any_cut = any_cut || cut;
    const std::string how = op.implementation.empty() ? "" : "by " + op.implementation;
    if (cut) {
      table.add({fmt::format("{}", i), op_text(op), operands_text(program, op.inputs)});
      table.add({"", how, "-> " + operands_text(program, op.outputs)});
      table.add({"", "", op.name});
      continue;
    }
    table.add({fmt::format("{}", i), op_text(op), operands_text(program, op)});
    if (!op.implementation.empty() || !op.name.empty()) {
      table.add({"", how, op.name});
    }
  }
  if (!table.empty()) {
    print("\n" + table.to_string());
  }
  if (any_cut) {
    print(
        "  one placement a mesh axis: R whole on each device, S0 cut along dim 0, Psum parts of a "
        "sum\n");
  }
}

/// The largest, and the sum of the rest.
void print_parameters(const Program& program) {
  constexpr std::size_t kShown = 10;
  std::vector<ProgramConstant> constants = program.constants;
  std::stable_sort(constants.begin(), constants.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (constants.empty()) {
    return;
  }
  Table table({"parameter", "type", "layout", "placement", "bytes"});
  std::uint64_t rest = 0;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const ProgramValue& value = program.values[constants[i].value];
    if (i >= kShown) {
      rest += constants[i].bytes;
      continue;
    }
    table.add({value.name, type_text(value.spec), layout_text(value.spec),
               placement_text(value.spec), fmt::format("{}", constants[i].bytes)});
  }
  if (constants.size() > kShown) {
    table.add({fmt::format("and {} more", constants.size() - kShown), "", "", "",
               fmt::format("{}", rest)});
  }
  print("\n" + table.to_string());
}

void print_memory(const Program& program) {
  Table table(
      {"bytes a device", "constants", "inputs", "outputs", "workspace", "without reuse", "total"});
  for (const SpaceUse& use : memory_plan(program)) {
    const auto number = [](std::int64_t bytes) {
      return fmt::format("{}", bytes);
    };
    table.add({std::string(to_string(use.space)), number(use.constants), number(use.inputs),
               number(use.outputs), number(use.workspace), number(use.unshared),
               number(use.total())});
  }
  if (!table.empty()) {
    print("\n" + table.to_string());
  }
}

void print_collectives(const Program& program) {
  if (const std::string text = collectives_text(program); !text.empty()) {
    print("\n" + text);
  }
}

std::string title(const Program& program) {
  return fmt::format("program {} on mesh {}: {} inputs, {} outputs, {} ops, {} parameters\n",
                     printable_line(program.name), program.mesh.to_string(), program.inputs.size(),
                     program.outputs.size(), program.ops.size(), program.constants.size());
}

void print_program(const Program& program) {
  print("\n" + title(program));
  print_arguments(program);
  print_ops(program);
  print_collectives(program);
  print_parameters(program);
  print_memory(program);
}

void print_binary(const Binary& binary, const Options& options) {
  const TargetInfo& target = binary.target();
  print(fmt::format("{}: {} programs, {} of constants\n", printable_line(options.binary),
                    binary.program_count(),
                    format_bytes(static_cast<std::int64_t>(binary.constants().size()))));
  print(printable_line(fmt::format("compiled for {}: {}, {} cores, {} threads a device, {}",
                                   target.backend, target.processor, target.cores,
                                   target.threads_per_device, fmt::join(target.features, " "))) +
        "\n");
  Table metadata({"metadata", "value"});
  for (const auto& [key, value] : binary.metadata()) {
    metadata.add({key, value});
  }
  if (!metadata.empty()) {
    print("\n" + metadata.to_string());
  }
  for (const Program& program : binary.programs()) {
    if (options.shows(program)) {
      print_program(program);
    }
  }
}

/// --values and --explain, for each program.
void print_values(const Binary& binary, const Options& options) {
  std::string between;
  for (const Program& program : binary.programs()) {
    if (!options.shows(program)) {
      continue;
    }
    std::string text = options.values ? "\n" + values_text(program) : "";
    if (!options.explain.empty()) {
      for (const std::uint32_t value : values_named(program, options.explain)) {
        text += "\n" + explain_text(program, value);
      }
    }
    if (!text.empty()) {
      print(between + title(program) + text);
      between = "\n";
    }
  }
}

/// Throws UsageError, with names that are close, unless a program has the value to explain.
void check_explained(const Binary& binary, const Options& options) {
  std::vector<std::string> names;
  for (const Program& program : binary.programs()) {
    if (!options.shows(program)) {
      continue;
    }
    if (!values_named(program, options.explain).empty()) {
      return;
    }
    const std::vector<std::string> own = value_names(program);
    names.insert(names.end(), own.begin(), own.end());
  }
  throw UsageError(
      fmt::format("\"{}\" has no value \"{}\"{} (--values lists all; what is inside a "
                  "fused op is none any more)",
                  options.binary, options.explain, did_you_mean(options.explain, names)));
}

void run(const Options& options) {
  const Binary binary = Binary::load(options.binary);
  if (!options.program.empty()) {
    find_program(binary, options.program);
  }
  if (!options.explain.empty()) {
    check_explained(binary, options);
  }
  if (options.json) {
    print_json(to_json(binary, options));
  } else if (options.values || !options.explain.empty()) {
    print_values(binary, options);
  } else {
    print_binary(binary, options);
  }
}

}  // namespace

void add_inspect(CLI::App& app, Outcome& /*outcome*/) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "Show programs, arguments, ops, collectives, parameters and the memory plan of a binary");
  command->add_option("BINARY", options->binary, "The binary")->required()->type_name("FILE.tmb");
  command->add_option("--program", options->program, "Only this program")->type_name("NAME");
  command->add_flag("--values", options->values,
                    "List every value with its type, its placement on the mesh, and why it is so");
  command
      ->add_option("--explain", options->explain,
                   "Say of a value why it lies as it does, what makes it and what reads it")
      ->type_name("VALUE");
  command->add_flag("--json", options->json,
                    "Print JSON; with --explain, values of that name only");
  command->callback([options] { run(*options); });
}

}  // namespace tilemesh::cli
