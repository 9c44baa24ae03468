// tilemesh verify [MODEL.onnx|BINARY.tmb] --data DIR ...

#include "verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/base/output_file.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/runtime/submit.hpp"

#include "command.hpp"
#include "counted.hpp"
#include "files.hpp"
#include "model_file.hpp"
#include "test_data.hpp"

namespace tilemesh::cli {
namespace {

namespace fs = std::filesystem;

/// The ONNX tests store bf16 elements as the u16 of the same bits.
void fix_bf16(HostArray& array, DType wanted) {
  if (array.dtype == DType::u16 && wanted == DType::bf16) {
    array.dtype = DType::bf16;
  }
}

bool fits(const Shape& shape, const std::vector<std::string>& dims) {
  if (static_cast<std::size_t>(shape.rank()) != dims.size()) {
    return false;
  }
  for (int i = 0; i < shape.rank(); ++i) {
    const std::string& dim = dims[static_cast<std::size_t>(i)];
    const bool is_number = dim.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && dim != fmt::format("{}", shape[i])) {
      return false;
    }
  }
  return true;
}

/// An array for an input. Some published tests hold data that their model can't take.
void add_input(NamedArrays& result, const OnnxInputInfo& input, HostArray array) {
  fix_bf16(array, input.dtype);
  if (array.dtype != input.dtype || !fits(array.shape, input.dims)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the data contradict the model: they have {} for input \"{}\", the "
                            "model has {}[{}]",
                            to_string(array), input.name, tilemesh::to_string(input.dtype),
                            fmt::join(input.dims, ",")));
  }
  if (!result.emplace(input.name, std::move(array)).second) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the data have input \"{}\" twice", input.name));
  }
}

template <class Item>
const Item& by_number(const std::vector<Item>& items, std::size_t number, std::string_view what) {
  if (number >= items.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the data set has an {} {}, the model has {} {}s", what, number,
                            items.size(), what));
  }
  return items[number];
}

/// The arrays by the inputs' names.
NamedArrays named_inputs(const std::vector<OnnxInputInfo>& inputs, const TestData& data) {
  NamedArrays result;
  for (const auto& [number, array] : data.inputs) {
    add_input(result, by_number(inputs, number, "input"), array);
  }
  for (const auto& [name, array] : data.named) {
    const auto named = std::ranges::find(inputs, name, &OnnxInputInfo::name);
    if (named != inputs.end()) {
      add_input(result, *named, array);
    } else if (const auto number = number_in(name, "input_")) {
      add_input(result, by_number(inputs, *number, "input"), array);
    }
  }
  return result;
}

/// What the outputs should be, by number.
std::map<std::size_t, HostArray> expected_outputs(const Program& program,
                                                  const std::vector<OnnxInputInfo>& inputs,
                                                  const TestData& data) {
  std::map<std::size_t, HostArray> result = data.outputs;
  for (const auto& [name, array] : data.named) {
    const auto named = std::ranges::find(program.outputs, name, &ProgramOutput::name);
    const bool is_input = std::ranges::find(inputs, name, &OnnxInputInfo::name) != inputs.end();
    std::optional<std::size_t> number = number_in(name, "output_");
    if (named != program.outputs.end()) {
      number = static_cast<std::size_t>(named - program.outputs.begin());
    } else if (is_input) {
      continue;
    }
    if (number) {
      result.insert_or_assign(*number, array);
    } else if (!number_in(name, "input_")) {
      std::vector<std::string> names;
      std::ranges::transform(inputs, std::back_inserter(names), &OnnxInputInfo::name);
      std::ranges::transform(program.outputs, std::back_inserter(names), &ProgramOutput::name);
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the data have \"{}\", which is no input or output{}", name,
                              did_you_mean(name, names)));
    }
  }
  if (result.empty()) {
    throw Error(ErrorCode::invalid_argument, "the data have no output to compare with");
  }
  return result;
}

/// What can't be read may be no tensor because the model wants none: then that is the cause.
TestData read_data(const fs::path& model, const fs::path& set, const VerifyOptions& options) {
  try {
    return read_test_data(set, options.compile.data_root);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_file && !is_binary(model)) {
      import_onnx(model);
    }
    throw;
  }
}

/// What a model takes, be it compiled or not.
std::vector<OnnxInputInfo> inputs_of(const Program& program) {
  std::vector<OnnxInputInfo> infos;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorSpec& spec = program.input_spec(i);
    OnnxInputInfo info{program.inputs[i].name, spec.dtype, {}, false};
    for (const std::int64_t size : spec.shape) {
      info.dims.push_back(fmt::format("{}", size));
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

std::vector<Argument> make_arguments(const Executable& executable, const NamedArrays& inputs) {
  const Program& program = executable.program();
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput& input = program.inputs[i];
    const auto found = inputs.find(input.name);
    if (found == inputs.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the data set has nothing for input \"{}\"", input.name));
    }
    check_input(program.name, input.name, found->second, program.input_spec(i));
    Tensor tensor = to_layout(to_tensor(found->second), executable.input(static_cast<int>(i)));
    if (input.kind == InputKind::state) {
      arguments.emplace_back(donate(std::move(tensor)));
    } else {
      arguments.emplace_back(std::move(tensor));
    }
  }
  return arguments;
}

void merge(TestResult& result, const std::string& output, const Comparison& comparison) {
  result.max_error = std::max(result.max_error.value_or(0), comparison.max_error);
  result.details.push_back(
      fmt::format("{}: largest error {:.3g} absolute, {:.3g} relative, "
                  "{:.3g} of the tensor's largest element{}",
                  output, comparison.max_error, comparison.max_relative_error,
                  comparison.max_scaled_error, comparison.equal ? "" : "; " + comparison.reason));
  if (!comparison.equal && result.status != TestStatus::differed) {
    result.status = TestStatus::differed;
    result.reason = fmt::format("output \"{}\": {}", output, comparison.reason);
  }
}

/// What the outputs NAME.count (or NAME.count.DIM) say of an output.
std::vector<std::int64_t> counts_of(const Executable& executable,
                                    const std::vector<Tensor>& outputs, const std::string& name) {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& other = executable.output(static_cast<int>(i)).name;
    if (other != name + ".count" && !other.starts_with(name + ".count.")) continue;
    const HostArray count = to_array(outputs[i]);
    if (count.dtype != DType::i64 || count.shape.element_count() != 1) continue;
    std::memcpy(&counts.emplace_back(), count.bytes.data(), sizeof(std::int64_t));
  }
  return counts;
}

void run_program(TestResult& result, const BoundProgram& program,
                 const std::vector<OnnxInputInfo>& infos, const TestData& data,
                 const VerifyOptions& options) {
  const NamedArrays inputs = named_inputs(infos, data);
  const auto expected_by_number = expected_outputs(*program, infos, data);
  const Mesh mesh = Mesh::open({.shape = options.compile.mesh.shape().value_or(program->mesh),
                                .threads_per_device = options.compile.mesh.threads_per_device});
  const Executable executable = prepare(mesh, program);
  const std::vector<Tensor> outputs = run(executable, make_arguments(executable, inputs));
  for (auto [number, expected] : expected_by_number) {
    const Tensor& output = by_number(outputs, number, "output");
    fix_bf16(expected, output.dtype());
    const std::string& name = executable.output(static_cast<int>(number)).name;
    const HostArray got =
        counted_part(to_array(output), expected.shape, counts_of(executable, outputs, name));
    merge(result, name, compare(got, expected, options.tolerance));
  }
}

void run_data_set(TestResult& result, const fs::path& model, const fs::path& set,
                  const VerifyOptions& options) {
  const TestData data = read_data(model, set, options);
  if (is_binary(model)) {
    options.compile.check_compiled(model.string());
    const BoundProgram program = find_program(Binary::load(model), options.program);
    run_program(result, program, inputs_of(*program), data, options);
    return;
  }
  const std::vector<OnnxInputInfo> infos = onnx_inputs(model);
  Progress progress;
  const Binary binary =
      compile_models({model}, options.compile, named_inputs(infos, data), progress);
  run_program(result, find_program(binary, options.program), infos, data, options);
}

void print_result(const TestResult& result) {
  print(fmt::format("{}: {}\n", printable_line(result.name), to_string(result.status)));
  for (const std::string& line : result.details) {
    print(fmt::format("  {}\n", printable_block(line)));
  }
  if (result.details.empty()) {
    print(fmt::format("  {}\n", printable_block(result.reason)));
  }
}

/// Runs the data sets of one model and prints each output's largest error.
std::vector<TestResult> verify_model(const VerifyOptions& options) {
  std::vector<TestResult> results;
  for (const std::string& data : options.data) {
    for (const fs::path& set : find_data_sets(data)) {
      results.push_back(run_test(set.string(), options.model, {set}, options));
      if (!options.prints_json()) {
        print_result(results.back());
      }
    }
  }
  return results;
}

ExitCode exit_code(const std::vector<TestResult>& results, bool unsupported_fails) {
  const auto any = [&](TestStatus status) {
    return std::any_of(results.begin(), results.end(),
                       [&](const TestResult& result) { return result.status == status; });
  };
  if (any(TestStatus::failed) || (unsupported_fails && any(TestStatus::unsupported))) {
    return ExitCode::failure;
  }
  return any(TestStatus::differed) ? ExitCode::mismatch : ExitCode::ok;
}

void check_usage(const VerifyOptions& options) {
  static_cast<void>(options.compile.mesh.shape());  // throws for what is no mesh
  const ModelOptions& compile = options.compile;
  const bool names_inputs = !compile.dims.empty() || !compile.shapes.empty() ||
                            !compile.values.empty() || !compile.spaces.empty() ||
                            !compile.shards.empty() || !compile.states.empty();
  if (options.model.empty() && names_inputs) {
    throw UsageError("options that name inputs need a MODEL: a folder of tests has many");
  }
  if (options.model.empty() && !options.program.empty()) {
    throw UsageError("--program is for a MODEL: a folder of tests has many");
  }
}

void run_verify(const VerifyOptions& options, Outcome& outcome) {
  check_usage(options);
  if (!options.json_file.empty() && !options.prints_json()) {
    check_writable(options.json_file);  // before the work
  }
  const bool folders = options.model.empty();
  const std::vector<TestResult> results = folders ? verify_folders(options) : verify_model(options);
  if (!options.json_file.empty()) {
    write_results(options.json_file, results);
  }
  outcome.code = exit_code(results, !folders);
}

}  // namespace

std::string_view to_string(TestStatus status) {
  switch (status) {
    case TestStatus::passed: return "passed";
    case TestStatus::differed: return "differed";
    case TestStatus::unsupported: return "unsupported";
    case TestStatus::failed: break;
  }
  return "failed";
}

TestResult run_test(const std::string& name, const fs::path& model,
                    const std::vector<fs::path>& data_sets, const VerifyOptions& options) {
  TestResult result;
  result.name = name;
  result.status = TestStatus::passed;
  try {
    for (const fs::path& folder : data_sets) {
      run_data_set(result, model, folder, options);
    }
  } catch (const Error& error) {
    result.status =
        error.code() == ErrorCode::unsupported ? TestStatus::unsupported : TestStatus::failed;
    result.reason = error.what();
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    result.status = TestStatus::failed;
    result.reason = error.what();
  }
  return result;
}

void write_results(const std::string& path, const std::vector<TestResult>& results) {
  using Json = nlohmann::ordered_json;
  Json json = Json::array();
  for (const TestResult& result : results) {
    Json entry = {{"name", result.name},
                  {"status", std::string(to_string(result.status))},
                  {"reason", result.reason},
                  {"max_error", nullptr}};
    if (result.max_error && std::isfinite(*result.max_error)) {
      entry["max_error"] = *result.max_error;
    }
    json.push_back(entry);
  }
  if (path == "-") {
    print_json(json);
  } else {
    write_file(path, to_text(json));
  }
}

void add_verify(CLI::App& app, Outcome& outcome) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "Compare what a model or a binary gives with what it should give");
  command
      ->add_option("MODEL", options->model,
                   "The model or binary; without it --data are folders of tests")
      ->type_name("FILE.onnx|FILE.tmb");
  command
      ->add_option("--data", options->data,
                   "Inputs and expected outputs: a .npz file of arrays named as they are (or "
                   "input_0, output_0 ...), a folder of NAME.npy, a folder of input_0.pb, "
                   "output_0.pb ..., or a folder of such; without MODEL a folder of tests, each "
                   "with model.onnx and test_data_set_*")
      ->required()
      ->type_name("DIR|FILE.npz");
  command->add_option("--program", options->program, "Which program of the binary")
      ->type_name("NAME");
  const auto tolerance = [&](const char* name, double& value, const char* help) {
    command->add_option(name, value, help)->check(CLI::NonNegativeNumber)->capture_default_str();
  };
  tolerance("--rtol", options->tolerance.relative,
            "A float is right if |got - expected| <= atol + rtol * |expected|, or <= rtol-scale * "
            "the largest finite |expected| of its tensor; NaN and infinity must be where they are "
            "expected; for f16 and bf16 both relative ones are at least a unit in the last place");
  tolerance("--atol", options->tolerance.absolute, "See --rtol");
  tolerance("--rtol-scale", options->tolerance.scale, "See --rtol; 0 turns this rule off");
  command
      ->add_option("--steps", options->tolerance.steps,
                   "Integers have to be the same, but those of 8 and 16 bits, as quantised results "
                   "are, may differ by so many steps")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option("--json", options->json_file,
                   "Write [{name, status, reason, max_error}]; - is the standard output, with "
                   "nothing else on it")
      ->type_name("FILE");
  command
      ->add_option("--timeout", options->timeout_seconds,
                   "Seconds after which a test of a folder is given up")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command->add_option("--jobs", options->jobs, "Tests of a folder at a time (0: one per core)")
      ->check(CLI::Range(0, 1024));
  options->compile.add_to(*command);
  command->footer(
      "Exit codes: 0 all right (in folders of tests also what isn't supported), 1 something can't "
      "be run, 2 usage, 3 results differ.");
  command->callback([options, &outcome] { run_verify(*options, outcome); });
}

}  // namespace tilemesh::cli
