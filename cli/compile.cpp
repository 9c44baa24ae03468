// tilemesh compile MODEL.onnx ... -o OUT.tmb

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/output_file.hpp"

#include "command.hpp"
#include "describe.hpp"
#include "model_options.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

struct Options {
  std::vector<std::string> models;
  std::string output;
  ModelOptions model;
  bool json = false;
};

nlohmann::ordered_json to_json(const Binary& binary, const std::string& path) {
  nlohmann::ordered_json json;
  json["file"] = path;
  json["bytes"] = std::filesystem::file_size(path);
  json["constants_bytes"] = binary.constants().size();
  for (const Program& program : binary.programs()) {
    json["programs"].push_back({{"name", program.name},
                                {"mesh", program.mesh.to_string()},
                                {"inputs", program.inputs.size()},
                                {"outputs", program.outputs.size()},
                                {"ops", program.ops.size()},
                                {"dram_workspace_bytes", program.dram_workspace_bytes},
                                {"l1_workspace_bytes", program.l1_workspace_bytes}});
  }
  return json;
}

void report(const Binary& binary, const std::string& path) {
  print(fmt::format("wrote {}: {}, {} of it constants\n", printable_line(path),
                    format_bytes(static_cast<std::int64_t>(std::filesystem::file_size(path))),
                    format_bytes(static_cast<std::int64_t>(binary.constants().size()))));
  Table table({"program", "mesh", "inputs", "outputs", "ops", "workspace"});
  for (const Program& program : binary.programs()) {
    table.add({program.name, program.mesh.to_string(), fmt::format("{}", program.inputs.size()),
               fmt::format("{}", program.outputs.size()), fmt::format("{}", program.ops.size()),
               format_bytes(program.dram_workspace_bytes + program.l1_workspace_bytes)});
  }
  print(table.to_string());
}

void check_output(const Options& options) {
  for (const std::string& model : options.models) {
    std::error_code ignored;
    if (std::filesystem::equivalent(model, options.output, ignored)) {
      throw UsageError(
          fmt::format("--output {}: that is the model: name another file", options.output));
    }
  }
  check_writable(options.output);
}

void run(const Options& options) {
  check_output(options);
  Progress progress;
  const std::vector<std::filesystem::path> models(options.models.begin(), options.models.end());
  const Binary binary = compile_models(models, options.model, {}, progress);
  binary.save(options.output);
  if (options.json) {
    print_json(to_json(binary, options.output));
  } else {
    report(binary, options.output);
  }
}

}  // namespace

void add_compile(CLI::App& app, Outcome& /*outcome*/) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compile", "Compile ONNX models into one binary of programs named after their files");
  command->add_option("MODEL", options->models, "ONNX models")->required()->type_name("FILE.onnx");
  command->add_option("-o,--output", options->output, "The binary to write")
      ->required()
      ->type_name("OUT.tmb");
  options->model.add_to(*command);
  command->add_flag("--json", options->json, "Print what was written as JSON");
  command->callback([options] { run(*options); });
}

}  // namespace tilemesh::cli
