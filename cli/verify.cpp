// tilemesh verify [MODEL.onnx] --data DIR ...

#include "verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tilemesh/base/error.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/runtime/submit.hpp"

#include "command.hpp"
#include "counted.hpp"
#include "files.hpp"
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

/// The arrays by the inputs' names. Some published tests hold data that their model can't take.
NamedArrays named_inputs(const std::vector<OnnxInputInfo>& inputs, const TestData& data) {
  NamedArrays result;
  for (const auto& [number, array] : data.inputs) {
    if (number >= inputs.size()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the data set has an input {}, the model has {} inputs", number,
                              inputs.size()));
    }
    const OnnxInputInfo& input = inputs[number];
    HostArray& named = result[input.name] = array;
    fix_bf16(named, input.dtype);
    if (named.dtype != input.dtype || !fits(named.shape, input.dims)) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("the data contradict the model: they have {} for input \"{}\", the "
                              "model has {}[{}]",
                              to_string(named), input.name, tilemesh::to_string(input.dtype),
                              fmt::join(input.dims, ",")));
    }
  }
  return result;
}

/// What can't be read may be no tensor because the model wants none: then that is the cause.
TestData read_data(const fs::path& model, const fs::path& folder) {
  try {
    return read_test_data(folder);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_file) {
      import_onnx(model);
    }
    throw;
  }
}

std::vector<Argument> make_arguments(const Executable& executable, const NamedArrays& inputs) {
  const Program& program = executable.program();
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput& input = program.inputs[i];
    const auto found = inputs.find(input.name);
    if (found == inputs.end()) {
      throw Error(ErrorCode::not_found,
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
  result.details.push_back(fmt::format("{}: largest error {:.3g} absolute, {:.3g} relative{}",
                                       output, comparison.max_error, comparison.max_relative_error,
                                       comparison.equal ? "" : "; " + comparison.reason));
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

void run_data_set(TestResult& result, const fs::path& model, const fs::path& folder,
                  const VerifyOptions& options) {
  const TestData data = read_data(model, folder);
  const NamedArrays inputs = named_inputs(onnx_inputs(model), data);
  Progress progress;
  const Binary binary = compile_models({model}, options.compile, inputs, progress);
  const Mesh mesh = Mesh::open({.shape = binary.program()->mesh,
                                .threads_per_device = options.compile.mesh.threads_per_device});
  const Executable executable = prepare(mesh, binary.program());
  const std::vector<Tensor> outputs = run(executable, make_arguments(executable, inputs));
  for (auto [number, expected] : data.outputs) {
    if (number >= outputs.size()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the data set has an output {}, the model has {} outputs", number,
                              outputs.size()));
    }
    fix_bf16(expected, outputs[number].dtype());
    const std::string& name = executable.output(static_cast<int>(number)).name;
    const HostArray got = counted_part(to_array(outputs[number]), expected.shape,
                                       counts_of(executable, outputs, name));
    merge(result, name, compare(got, expected, options.tolerance));
  }
}

/// Runs the data sets of one model and prints each output's largest error.
std::vector<TestResult> verify_model(const VerifyOptions& options) {
  std::vector<TestResult> results;
  for (const std::string& data : options.data) {
    for (const fs::path& folder : find_data_sets(data)) {
      results.push_back(run_test(folder.string(), options.model, {folder}, options));
      const TestResult& result = results.back();
      print(fmt::format("{}: {}\n", printable(result.name), to_string(result.status)));
      for (const std::string& line : result.details) {
        print(printable(fmt::format("  {}\n", line)));
      }
      if (result.details.empty()) {
        print(printable(fmt::format("  {}\n", result.reason)));
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
  const ModelOptions& compile = options.compile;
  const bool names_inputs = !compile.dims.empty() || !compile.shapes.empty() ||
                            !compile.values.empty() || !compile.spaces.empty() ||
                            !compile.shards.empty() || !compile.states.empty();
  if (options.model.empty() && names_inputs) {
    throw UsageError("options that name inputs need a MODEL: a folder of tests has many");
  }
}

void run_verify(const VerifyOptions& options, Outcome& outcome) {
  check_usage(options);
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
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (path == "-") {
    print(text);
  } else {
    write_file(path, text);
  }
}

void add_verify(CLI::App& app, Outcome& outcome) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify",
      "Compare a model's outputs with expected ones, in the layout of the ONNX backend tests");
  command->add_option("MODEL", options->model, "The model; without it --data are folders of tests")
      ->type_name("FILE.onnx");
  command
      ->add_option("--data", options->data,
                   "A test_data_set_* with input_0.pb, output_0.pb ..., or a folder of them; "
                   "without MODEL a folder of tests, each with model.onnx and test_data_set_*")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--rtol", options->tolerance.relative,
                   "Floats may differ by atol + rtol * |expected|")
      ->capture_default_str();
  command->add_option("--atol", options->tolerance.absolute, "See --rtol")->capture_default_str();
  command
      ->add_option("--json", options->json_file,
                   "Write [{name, status, reason, max_error}]; - is the standard output")
      ->type_name("FILE");
  command
      ->add_option("--timeout", options->timeout_seconds,
                   "Seconds after which a test of a folder is given up")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command->add_option("--jobs", options->jobs, "Tests of a folder at a time (0: one per core)")
      ->check(CLI::Range(0, 1024));
  options->compile.add_to(*command);
  command->callback([options, &outcome] { run_verify(*options, outcome); });
}

}  // namespace tilemesh::cli
