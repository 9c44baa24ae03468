// tilemesh run MODEL.onnx|BINARY.tmb

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/base/output_file.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/runtime/profile.hpp"
#include "tilemesh/runtime/submit.hpp"

#include "command.hpp"
#include "describe.hpp"
#include "files.hpp"
#include "model_file.hpp"
#include "model_options.hpp"
#include "npy.hpp"
#include "output_names.hpp"
#include "profile_report.hpp"
#include "random_arrays.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProfileRepeats = 20;  // unless more are asked for

struct Options {
  std::string model;
  std::string program;
  std::vector<std::string> inputs;
  std::string output_dir;
  ModelOptions compile;
  int repeat = 1;
  std::uint64_t seed = 0;
  bool profile = false;
  bool json = false;
};

Binary get_binary(const Options& options, const NamedArrays& inputs, Progress& progress) {
  if (!is_binary(options.model)) {
    return compile_models({options.model}, options.compile, inputs, progress);
  }
  options.compile.check_compiled(options.model);
  return Binary::load(options.model);
}

/// Where an input's elements come from.
enum class Source { file, random, zeros };

std::string_view to_string(Source source) {
  switch (source) {
    case Source::file: return "file";
    case Source::random: return "random";
    case Source::zeros: break;
  }
  return "zeros";
}

struct InputArray {
  HostArray array;
  Source source = Source::file;
};

void check_names(const Program& program, const NamedArrays& given, bool from_model) {
  std::vector<std::string> names;
  for (const ProgramInput& input : program.inputs) {
    names.push_back(input.name);
  }
  for (const auto& [name, array] : given) {
    // A model's input that isn't the program's was taken as a value, or the model ignores it.
    if (!from_model && std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(fmt::format("program \"{}\" has no input \"{}\"; it has \"{}\"{}",
                                   program.name, name, fmt::join(names, "\", \""),
                                   did_you_mean(name, names)));
    }
  }
}

HostArray zeros(const TensorSpec& spec) {
  HostArray array{spec.dtype, spec.shape, {}};
  array.bytes.resize(static_cast<std::size_t>(spec.shape.element_count() * size_of(spec.dtype)));
  return array;
}

/// One array per input of the program: all given ones, or all random. A state that isn't given
/// starts as zeros.
std::vector<InputArray> make_inputs(const Program& program, const NamedArrays& given,
                                    std::uint64_t seed) {
  RandomArrays random(seed);
  std::vector<InputArray> result;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string& name = program.inputs[i].name;
    const TensorSpec& spec = program.input_spec(i);
    if (const auto found = given.find(name); found != given.end()) {
      const HostArray array = as_stored(found->second, spec.dtype);
      check_input(program.name, name, array, spec);
      result.push_back({array, Source::file});
    } else if (program.inputs[i].kind == InputKind::state) {
      result.push_back({zeros(spec), Source::zeros});
    } else {
      missing.push_back(name);
      result.push_back({random.make(spec.dtype, spec.shape), Source::random});
    }
  }
  if (!given.empty() && !missing.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("program \"{}\" has no array for its input \"{}\": add --input "
                            "NAME=FILE for each, or give none for random ones",
                            program.name, fmt::join(missing, "\", \"")));
  }
  return result;
}

/// Runs with resident inputs. What a run takes over (states) is replaced by what it gave.
class Runner {
 public:
  Runner(Executable executable, const std::vector<InputArray>& inputs, Progress& progress)
      : executable_(std::move(executable)), arrays_(inputs), donated_(inputs.size(), false) {
    const Program& program = executable_.program();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      progress.show("uploading inputs",
                    static_cast<double>(i) / static_cast<double>(inputs.size()));
      donated_[i] = program.inputs[i].kind == InputKind::state;
      tensors_.push_back(upload(i));
    }
    for (const ProgramOutput& output : program.outputs) {
      if (output.alias >= 0) {
        donated_[static_cast<std::size_t>(output.alias)] = true;
      }
    }
    progress.clear();
  }

  /// One run; the outputs, and how long it took.
  std::pair<std::vector<Tensor>, double> run() {
    std::vector<Argument> arguments;
    arguments.reserve(tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!donated_[i]) {
        arguments.emplace_back(tensors_[i]);
        continue;
      }
      if (!tensors_[i]) {
        tensors_[i] = upload(i);
      }
      arguments.emplace_back(donate(std::move(tensors_[i])));
      tensors_[i] = Tensor();
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<Tensor> outputs = tilemesh::run(executable_, arguments);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    keep_states(outputs);
    return {std::move(outputs), spent.count()};
  }

  /// Times op by op.
  Profile profile(int repeats) {
    const std::vector<Argument> arguments(tensors_.begin(), tensors_.end());
    return tilemesh::profile(executable_, arguments, repeats);
  }

  const Executable& executable() const { return executable_; }

 private:
  Tensor upload(std::size_t i) {
    Tensor tensor = to_layout(to_tensor(arrays_[i].array), executable_.input(static_cast<int>(i)));
    tensor.wait();
    return tensor;
  }

  void keep_states(const std::vector<Tensor>& outputs) {
    const Program& program = executable_.program();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::int32_t alias = program.outputs[i].alias;
      if (alias >= 0) {
        tensors_[static_cast<std::size_t>(alias)] = outputs[i];
      }
    }
  }

  Executable executable_;
  const std::vector<InputArray>& arrays_;
  std::vector<bool> donated_;
  std::vector<Tensor> tensors_;
};

struct Timing {
  std::size_t runs = 0;
  double median = 0;
  double min = 0;
  double p90 = 0;
};

Timing summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double part) {
    return seconds[static_cast<std::size_t>(part * static_cast<double>(seconds.size() - 1) + 0.5)];
  };
  return {seconds.size(), at(0.5), seconds.front(), at(0.9)};
}

struct OutputReport {
  std::string name;
  TensorSpec spec;
  HostArray array;
  std::string file;
};

/// Where each output goes. What can't be written is refused now, before anything runs.
std::vector<std::string> output_files(const Program& program, const std::string& folder) {
  std::vector<std::string> names;
  for (const ProgramOutput& output : program.outputs) {
    names.push_back(output.name);
  }
  std::vector<std::string> files = output_file_names(names);
  for (std::string& file : files) {
    file += ".npy";
  }
  if (!folder.empty()) {
    make_folder(folder);
    for (const std::string& file : files) {
      check_writable(std::filesystem::path(folder) / file);
    }
  }
  return files;
}

/// The outputs of the first run, read back.
std::vector<OutputReport> read_outputs(const Program& program, const std::vector<Tensor>& outputs,
                                       const std::vector<std::string>& files) {
  std::vector<OutputReport> result;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    result.push_back({program.outputs[i].name, outputs[i].spec(), to_array(outputs[i]), files[i]});
  }
  return result;
}

struct Report {
  const Options& options;
  const Executable& executable;
  const std::vector<InputArray>& inputs;
  std::vector<OutputReport> outputs;
  Timing timing;
  Counters first;  ///< of the run whose outputs are shown, the reading back included
  std::optional<Profile> profile;
};

bool any_random(const std::vector<InputArray>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const InputArray& input) { return input.source == Source::random; });
}

void print_report(const Report& report) {
  const Program& program = report.executable.program();
  print(fmt::format("program {} on mesh {}\n", printable_line(program.name),
                    program.mesh.to_string()));
  if (any_random(report.inputs)) {
    print(fmt::format("no input given: random ones, seed {}\n", report.options.seed));
  }
  Table inputs({"input", "from", "kind", "type", "layout", "placement", "space"});
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorSpec& spec = program.input_spec(i);
    inputs.add({program.inputs[i].name, std::string(to_string(report.inputs[i].source)),
                std::string(to_string(program.inputs[i].kind)), type_text(spec), layout_text(spec),
                placement_text(spec), std::string(tilemesh::to_string(spec.space))});
  }
  if (!inputs.empty()) {
    print("\n" + inputs.to_string());
  }
  Table outputs({"output", "type", "layout", "placement", "space", "file"});
  for (const OutputReport& output : report.outputs) {
    outputs.add({output.name, type_text(output.spec), layout_text(output.spec),
                 placement_text(output.spec), std::string(tilemesh::to_string(output.spec.space)),
                 report.options.output_dir.empty() ? "" : output.file});
  }
  print("\n" + outputs.to_string());
  const Timing& timing = report.timing;
  if (timing.runs == 1) {
    print(fmt::format("\ntime {} (one run, the first; --repeat N for a median)\n",
                      format_seconds(timing.median)));
  } else {
    print(fmt::format("\ntime {} median, {} min, {} 90th percentile of {} runs after a first one\n",
                      format_seconds(timing.median), format_seconds(timing.min),
                      format_seconds(timing.p90), timing.runs));
  }
  if (report.profile) {
    print(profile_text(report.executable, *report.profile));
  }
}

Json to_json(const Report& report) {
  const Program& program = report.executable.program();
  Json json;
  json["program"] = program.name;
  json["mesh"] = program.mesh.to_string();
  if (any_random(report.inputs)) {
    json["seed"] = report.options.seed;
  }
  json["inputs"] = Json::array();
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    Json entry = {{"name", program.inputs[i].name},
                  {"from", std::string(to_string(report.inputs[i].source))},
                  {"kind", std::string(to_string(program.inputs[i].kind))}};
    entry.update(spec_json(program.input_spec(i)));
    json["inputs"].push_back(entry);
  }
  json["outputs"] = Json::array();
  for (const OutputReport& output : report.outputs) {
    Json entry = {{"name", output.name}};
    entry.update(spec_json(output.spec));
    if (!report.options.output_dir.empty()) {
      entry["file"] = output.file;
    }
    json["outputs"].push_back(entry);
  }
  json["time"] = {{"runs", report.timing.runs},
                  {"median_us", report.timing.median * 1e6},
                  {"min_us", report.timing.min * 1e6},
                  {"p90_us", report.timing.p90 * 1e6}};
  json["first_run"] = {{"host_to_device_bytes", report.first.host_to_device_bytes},
                       {"device_to_host_bytes", report.first.device_to_host_bytes},
                       {"conversions", report.first.conversions}};
  if (report.profile) {
    json["profile"] = profile_json(report.executable, *report.profile);
  }
  return json;
}

/// Runs once for the outputs and, when asked for more, so many times again for the time.
void run(const Options& options) {
  const std::optional<MeshShape> shape = options.compile.mesh.shape();
  Progress progress;
  const NamedArrays given = read_named_arrays(options.inputs, "--input", options.compile.data_root);
  const Binary binary = get_binary(options, given, progress);
  const BoundProgram program = find_program(binary, options.program);
  check_names(*program, given, !is_binary(options.model));
  const std::vector<std::string> files = output_files(*program, options.output_dir);

  const Mesh mesh = Mesh::open({.shape = shape.value_or(program->mesh),
                                .threads_per_device = options.compile.mesh.threads_per_device});
  // Before arrays are made for it: a program may be too large for the devices.
  const Executable executable = prepare(mesh, program);
  const std::vector<InputArray> inputs = make_inputs(*program, given, options.seed);
  Runner runner(executable, inputs, progress);
  const Counters before = mesh.counters();
  auto [outputs, seconds] = runner.run();
  Report report{
      options, runner.executable(), inputs, read_outputs(*program, outputs, files), {}, {}, {}};
  report.first = mesh.counters() - before;
  outputs.clear();

  std::vector<double> times;
  for (int i = 0; options.repeat > 1 && i < options.repeat; ++i) {
    progress.show("running", static_cast<double>(i) / options.repeat);
    times.push_back(runner.run().second);
  }
  if (options.profile) {
    progress.show("profiling", 0);
    report.profile = runner.profile(std::max(options.repeat, kProfileRepeats));
  }
  progress.clear();
  report.timing = summarize(times.empty() ? std::vector<double>{seconds} : times);
  if (!options.output_dir.empty()) {
    for (const OutputReport& output : report.outputs) {
      write_npy(std::filesystem::path(options.output_dir) / output.file, output.array);
    }
  }
  if (options.json) {
    print_json(to_json(report));
  } else {
    print_report(report);
  }
}

}  // namespace

void add_run(CLI::App& app, Outcome& /*outcome*/) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("run", "Run a program of a binary, or a model that is compiled for it");
  command->add_option("MODEL", options->model, "The binary or model")
      ->required()
      ->type_name("FILE.tmb|FILE.onnx");
  command->add_option("--program", options->program, "Which program of the binary")
      ->type_name("NAME");
  command
      ->add_option("--input", options->inputs,
                   "An input's elements: a .npy file, a tensor's .pb file, or a .npz file that has "
                   "an array of the name; may be repeated; without any, random ones are made")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  command->add_option("--output-dir", options->output_dir, "Folder for OUTPUT.npy files")
      ->type_name("DIR");
  command->add_option("--repeat", options->repeat, "Run so many times for the time")
      ->check(CLI::Range(1, 1000000000));
  command->add_option("--seed", options->seed, "Of random inputs");
  command->add_flag("--profile", options->profile,
                    "Time each op as well: median of --repeat runs, at least 20");
  command->add_flag("--json", options->json, "Print JSON");
  options->compile.add_to(*command);
  command->callback([options] { run(*options); });
}

}  // namespace tilemesh::cli
