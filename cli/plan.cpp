// tilemesh plan BINARY.tmb

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/error.hpp"
#include "tilemesh/device/backend.hpp"
#include "tilemesh/program/binary.hpp"
#include "tilemesh/runtime/memory_plan.hpp"

#include "byte_size.hpp"
#include "command.hpp"
#include "model_file.hpp"
#include "model_options.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kHoldersShown = 10;

struct Options {
  std::string binary;
  std::string program;
  std::string mesh;
  std::string dram;
  std::string l1;
  bool json = false;
};

/// A plan, and what it is of.
struct Planned {
  std::string name;
  MeshShape mesh;
  MemoryPlan plan;
};

/// What was said; the rest as this machine would give it to a mesh of that many devices.
ArenaSizes arenas(const Options& options, const Binary& binary, const MeshShape& mesh) {
  ArenaSizes sizes;
  if (options.dram.empty() || options.l1.empty()) {
    const TargetInfo here = find_backend(binary.target().backend).query(mesh.device_count(), 0);
    sizes = {here.dram_bytes, here.l1_bytes};
  }
  if (!options.dram.empty()) {
    sizes.dram_bytes = parse_byte_size(options.dram, "--dram");
  }
  if (!options.l1.empty()) {
    sizes.l1_bytes = parse_byte_size(options.l1, "--l1");
  }
  return sizes;
}

void check_mesh(const Options& options, const Program& program) {
  if (!options.mesh.empty() && !(parse_mesh(options.mesh) == program.mesh)) {
    throw Error(ErrorCode::mismatch,
                fmt::format("program \"{}\" is for a mesh of {}, not {}: compile it with --mesh {}",
                            program.name, program.mesh.to_string(), options.mesh, options.mesh));
  }
}

std::vector<Planned> make_plans(const Options& options, const Binary& binary) {
  std::vector<Planned> plans;
  for (const Program& program : binary.programs()) {
    if (options.program.empty() || program.name == options.program) {
      check_mesh(options, program);
      plans.push_back({program.name, program.mesh,
                       plan_memory(program, arenas(options, binary, program.mesh))});
    }
  }
  return plans;
}

Json to_json(const SpacePlan& space) {
  Json json = {{"space", std::string(to_string(space.space))},
               {"fits", space.fits()},
               {"peak_bytes", space.peak_bytes()},
               {"available_bytes", space.available_bytes},
               {"constants_bytes", space.constants_bytes},
               {"inputs_bytes", space.inputs_bytes},
               {"outputs_bytes", space.outputs_bytes},
               {"workspace_bytes", space.workspace_bytes}};
  json["holders"] = Json::array();
  for (const PlannedHolder& holder : space.holders) {
    json["holders"].push_back({{"label", holder.label},
                               {"kind", std::string(to_string(holder.kind))},
                               {"bytes", holder.bytes}});
  }
  return json;
}

Json to_json(const std::vector<Planned>& plans, const Options& options) {
  Json json = {{"file", options.binary}};
  json["programs"] = Json::array();
  for (const Planned& planned : plans) {
    Json entry = {
        {"name", planned.name}, {"mesh", planned.mesh.to_string()}, {"fits", planned.plan.fits()}};
    for (const SpacePlan& space : planned.plan.spaces) {
      entry["spaces"].push_back(to_json(space));
    }
    json["programs"].push_back(entry);
  }
  return json;
}

void print_holders(const MemoryPlan& plan) {
  Table table({"holder", "kind", "space", "bytes"});
  for (const SpacePlan& space : plan.spaces) {
    std::int64_t rest = 0;
    for (std::size_t i = 0; i < space.holders.size(); ++i) {
      const PlannedHolder& holder = space.holders[i];
      if (i >= kHoldersShown) {
        rest += holder.bytes;
        continue;
      }
      table.add({holder.label, std::string(to_string(holder.kind)),
                 std::string(to_string(space.space)), fmt::format("{}", holder.bytes)});
    }
    if (space.holders.size() > kHoldersShown) {
      table.add({fmt::format("and {} more", space.holders.size() - kHoldersShown), "",
                 std::string(to_string(space.space)), fmt::format("{}", rest)});
    }
  }
  if (!table.empty()) {
    print("\n" + table.to_string());
  }
}

void print_plan(const Planned& planned) {
  print(fmt::format("program {} on mesh {}: {}\n\n", printable_line(planned.name),
                    planned.mesh.to_string(), planned.plan.fits() ? "fits" : "does not fit"));
  Table table({"bytes a device", "peak", "available", "constants", "inputs", "outputs", "workspace",
               "fits"});
  for (const SpacePlan& space : planned.plan.spaces) {
    const auto number = [](std::int64_t bytes) {
      return fmt::format("{}", bytes);
    };
    table.add({std::string(to_string(space.space)), number(space.peak_bytes()),
               number(space.available_bytes), number(space.constants_bytes),
               number(space.inputs_bytes), number(space.outputs_bytes),
               number(space.workspace_bytes), space.fits() ? "yes" : "no"});
  }
  print(table.to_string());
  print_holders(planned.plan);
}

ExitCode run(const Options& options) {
  const Binary binary = Binary::load(options.binary);
  if (!options.program.empty()) {
    find_program(binary, options.program);
  }
  const std::vector<Planned> plans = make_plans(options, binary);
  if (options.json) {
    print_json(to_json(plans, options));
  }
  ExitCode code = ExitCode::ok;
  for (const Planned& planned : plans) {
    if (!options.json) {
      print(&planned == &plans.front() ? "" : "\n");
      print_plan(planned);
    }
    if (!planned.plan.fits()) {
      print_error(fmt::format("program \"{}\": {}", planned.name, planned.plan.shortage()));
      code = ExitCode::failure;
    }
  }
  return code;
}

}  // namespace

void add_plan(CLI::App& app, Outcome& outcome) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan", "Say whether programs fit into the devices' memory, and who takes how much");
  command->add_option("BINARY", options->binary, "The binary")->required()->type_name("FILE.tmb");
  command->add_option("--program", options->program, "Only this program")->type_name("NAME");
  command->add_option("--mesh", options->mesh, "Mesh that the programs must be for")
      ->type_name("RxC");
  command->add_option("--dram", options->dram, "DRAM of each device (what this machine has)")
      ->type_name("SIZE");
  command->add_option("--l1", options->l1, "L1 of each device (what this machine has)")
      ->type_name("SIZE");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &outcome] { outcome.code = run(*options); });
}

}  // namespace tilemesh::cli
