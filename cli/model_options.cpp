#include "model_options.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"
#include "tilemesh/device/backend.hpp"
#include "tilemesh/types/strided.hpp"

#include "command.hpp"
#include "files.hpp"
#include "target_json.hpp"
#include "test_data.hpp"

namespace tilemesh::cli {
namespace {

using Inputs = std::vector<OnnxInputInfo>;

std::int64_t parse_number(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw UsageError(fmt::format("{}: \"{}\" is no size", what, text));
  }
  return value;
}

/// "1,3,48,320"; an empty text is a scalar.
Shape parse_shape(std::string_view text, std::string_view what) {
  std::vector<std::int64_t> sizes;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    sizes.push_back(parse_number(text.substr(0, comma), what));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  try {
    return Shape(std::span<const std::int64_t>(sizes));
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", what, error.what()));
  }
}

void repeated(CLI::App& app, const std::string& name, std::vector<std::string>& into,
              const std::string& type, const std::string& help) {
  app.add_option(name, into, help)->type_name(type)->allow_extra_args(false);
}

/// Names that at least one model knows; `what` is said when none does.
void check_known(const std::string& name, const std::set<std::string>& known,
                 std::string_view option, std::string_view what) {
  if (known.count(name) == 0) {
    throw UsageError(fmt::format("{} {}: no model has {} \"{}\"; there is \"{}\"{}", option, name,
                                 what, name, fmt::join(known, "\", \""),
                                 did_you_mean(name, {known.begin(), known.end()})));
  }
}

/// The number that `text` is, as one element of the input's type and rank; nullopt if it is none.
std::optional<ConstantData> parse_element(std::string_view text, const OnnxInputInfo& input) {
  double number = 0;
  std::int64_t whole = 0;
  const char* last = text.data() + text.size();
  const auto as_whole = std::from_chars(text.data(), last, whole);
  const bool is_whole = as_whole.ec == std::errc() && as_whole.ptr == last;
  if (!is_whole) {
    const auto as_number = std::from_chars(text.data(), last, number);
    if (as_number.ec != std::errc() || as_number.ptr != last) {
      return std::nullopt;
    }
  }
  Dims sizes;
  sizes.resize(input.dims.size(), 1);
  const Shape shape(sizes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(input.dtype)));
  const auto* source = is_whole ? reinterpret_cast<const std::byte*>(&whole)
                                : reinterpret_cast<const std::byte*>(&number);
  const Dims strides = row_major_strides(shape);
  copy_strided({source, is_whole ? DType::i64 : DType::f64, shape, strides},
               {bytes.data(), input.dtype, shape, strides});
  return make_constant_bytes(input.dtype, shape, bytes);
}

ConstantData read_value(const std::string& text, const OnnxInputInfo& input,
                        const std::string& data_root) {
  if (auto element = parse_element(text, input)) {
    return *element;
  }
  return to_constant(read_array(text, input.name, data_root));
}

/// The options that are about ONNX, read; names that no model has are refused.
OnnxOptions read_onnx_options(const ModelOptions& options, const NamedArrays& inputs,
                              const Inputs& all) {
  std::set<std::string> names;
  std::set<std::string> symbols;
  for (const OnnxInputInfo& input : all) {
    names.insert(input.name);
    for (const std::string& dim : input.dims) {
      const bool is_symbol = dim != "?" && dim.find_first_not_of("0123456789") != std::string::npos;
      if (is_symbol) {
        symbols.insert(dim);
      }
    }
  }
  OnnxOptions result;
  result.data_root = options.data_root;
  for (const std::string& text : options.dims) {
    const auto [name, value] = split_pair(text, "--dim");
    check_known(name, symbols, "--dim", "a symbolic dim");
    result.dims[name] = parse_number(value, "--dim " + text);
  }
  for (const std::string& text : options.shapes) {
    const auto [name, value] = split_pair(text, "--shape");
    check_known(name, names, "--shape", "an input");
    result.shapes[name] = parse_shape(value, "--shape " + text);
  }
  for (const std::string& text : options.values) {
    const auto [name, value] = split_pair(text, "--value");
    check_known(name, names, "--value", "an input");
    const auto input = std::ranges::find(all, name, &OnnxInputInfo::name);
    if (!result.values.emplace(name, read_value(value, *input, options.data_root)).second) {
      throw UsageError(fmt::format("--value {}: \"{}\" is given twice", text, name));
    }
  }
  for (const auto& [name, array] : inputs) {
    check_known(name, names, "--input", "an input");
  }
  return result;
}

/// What of the options is about this model, and the arrays at hand for it.
OnnxOptions options_for(const Inputs& model, const OnnxOptions& all, const NamedArrays& inputs) {
  OnnxOptions result;
  result.dims = all.dims;
  result.data_root = all.data_root;
  for (const OnnxInputInfo& input : model) {
    if (const auto shape = all.shapes.find(input.name); shape != all.shapes.end()) {
      result.shapes.insert(*shape);
    }
    if (const auto value = all.values.find(input.name); value != all.values.end()) {
      result.values.insert(*value);
    }
    const auto array = inputs.find(input.name);
    if (array == inputs.end() || result.values.count(input.name) != 0) {
      continue;
    }
    if (input.value_needed) {
      result.values[input.name] = to_constant(array->second);
    } else {
      result.shapes.emplace(input.name, array->second.shape);
    }
  }
  return result;
}

CompileOptions read_compile_options(const ModelOptions& options, Progress& progress) {
  CompileOptions result;
  result.mesh = options.mesh.shape().value_or(MeshShape{1, 1});
  for (const std::string& text : options.spaces) {
    const auto [name, space] = split_pair(text, "--space");
    try {
      result.spaces[name] = parse_space(space);
    } catch (const Error& error) {
      throw UsageError(fmt::format("--space {}: {}", text, error.what()));
    }
  }
  try {
    for (const std::string& text : options.shards) {
      for (ShardRule& rule : parse_shard_rules(text))
        result.shards.push_back(std::move(rule));
    }
  } catch (const Error& error) {
    throw UsageError(fmt::format("--shard: {}", error.what()));
  }
  try {
    if (!options.automatic.empty()) result.automatic = parse_auto_shard(options.automatic);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--auto: {}", error.what()));
  }
  for (const std::string& text : options.states) {
    result.states.insert(split_pair(text, "--state"));
  }
  result.progress = [&progress](std::string_view stage, double done) {
    progress.show(stage, done);
  };
  return result;
}

std::unique_ptr<Target> read_target(const std::filesystem::path& path) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const TargetInfo info = parse_target(read_file(path, kMostBytes), path.string());
  try {
    return find_backend(info.backend).target(info);
  } catch (const Error& error) {
    throw error.in(fmt::format("\"{}\"", path.string()));
  }
}

/// A name on the command line that nothing has is a mistake there.
Binary compile_named(std::vector<Graph> graphs, const CompileOptions& options) {
  try {
    return compile(std::move(graphs), options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) {
      throw UsageError(error.what());
    }
    throw;
  }
}

void check_program_names(const std::vector<std::filesystem::path>& models) {
  std::set<std::string> names;
  for (const std::filesystem::path& model : models) {
    if (!names.insert(model.stem().string()).second) {
      throw UsageError(
          fmt::format("two models are named \"{}\", and programs are named after "
                      "their files: rename one",
                      model.stem().string()));
    }
  }
}

}  // namespace

std::pair<std::string, std::string> split_pair(const std::string& text, std::string_view option) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0) {
    throw UsageError(fmt::format("{} {}: should be NAME=VALUE", option, text));
  }
  return {text.substr(0, sign), text.substr(sign + 1)};
}

MeshShape parse_mesh(const std::string& text) {
  try {
    return MeshShape::parse(text);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--mesh {}: {}", text, error.what()));
  }
}

NamedArrays read_named_arrays(const std::vector<std::string>& pairs, std::string_view option,
                              const std::string& data_root) {
  NamedArrays arrays;
  for (const std::string& text : pairs) {
    const auto [name, file] = split_pair(text, option);
    if (!arrays.emplace(name, read_array(file, name, data_root)).second) {
      throw UsageError(fmt::format("{} {}: \"{}\" is given twice", option, text, name));
    }
  }
  return arrays;
}

void MeshChoice::add_to(CLI::App& app) {
  app.add_option("--mesh", mesh, "Shape of the mesh of devices, like 1x2 (1x1)")->type_name("RxC");
  app.add_option("--threads-per-device", threads_per_device,
                 "Threads of each device (0: the cores that the process may use, divided evenly)")
      ->check(CLI::Range(0, 1024));
}

std::optional<MeshShape> MeshChoice::shape() const {
  return mesh.empty() ? std::nullopt : std::optional(parse_mesh(mesh));
}

void ModelOptions::add_to(CLI::App& app) {
  repeated(app, "--dim", dims, "NAME=N", "Size of a symbolic dim; may be repeated");
  repeated(app, "--shape", shapes, "INPUT=N,N,...", "Whole shape of an input; may be repeated");
  repeated(app, "--value", values, "INPUT=NUMBER|FILE",
           "Fix an input to a value, so that it is no input any more; may be repeated");
  repeated(app, "--space", spaces, "NAME=host|dram|l1",
           "Where an input or output lives; may be repeated");
  repeated(app, "--shard", shards, "NAME=DIM[@AXIS]",
           "Cut a value along a dim over a mesh axis (over all without one); NAME may be re: and a "
           "regular expression; may be repeated");
  app.add_option(
         "--auto", automatic,
         "Cut without naming values: data (the batch), tensor (weights of matmuls, attention "
         "by heads), or data,tensor")
      ->type_name("HOW");
  repeated(app, "--state", states, "INPUT=OUTPUT",
           "An input kept on the mesh, and the output that replaces it; may be repeated");
  app.add_option("--data-root", data_root,
                 "Folder in which external data may lie too, beside the model's own: what a link, "
                 "an absolute path or .. leads to has to be in one of the two")
      ->type_name("DIR");
  app.add_option("--target", target_file, "Machine to compile for, as saved by `tilemesh query`")
      ->type_name("FILE");
  mesh.add_to(app);
}

void ModelOptions::check_compiled(const std::string& file) const {
  const bool said = !dims.empty() || !shapes.empty() || !values.empty() || !spaces.empty() ||
                    !shards.empty() || !states.empty() || !automatic.empty() ||
                    !target_file.empty();
  if (said) {
    throw UsageError(fmt::format(
        "\"{}\" is compiled already: --dim, --shape, --value, --space, --shard, --auto, "
        "--state and --target are for models",
        file));
  }
}

Binary compile_models(const std::vector<std::filesystem::path>& models, const ModelOptions& options,
                      const NamedArrays& inputs, Progress& progress) {
  check_program_names(models);
  CompileOptions compile_options = read_compile_options(options, progress);
  std::vector<Inputs> model_inputs;
  Inputs all;
  for (const std::filesystem::path& model : models) {
    model_inputs.push_back(onnx_inputs(model));
    all.insert(all.end(), model_inputs.back().begin(), model_inputs.back().end());
  }
  const OnnxOptions onnx_options = read_onnx_options(options, inputs, all);
  std::vector<Graph> graphs;
  for (std::size_t i = 0; i < models.size(); ++i) {
    progress.show("importing " + models[i].filename().string(),
                  0.2 * static_cast<double>(i) / static_cast<double>(models.size()));
    OnnxOptions own = options_for(model_inputs[i], onnx_options, inputs);
    own.name = models[i].stem().string();
    graphs.push_back(import_onnx(models[i], own));
  }
  std::unique_ptr<Target> target;
  if (options.target_file.empty()) {
    compile_options.target =
        &default_target(compile_options.mesh.device_count(), options.mesh.threads_per_device);
  } else {
    target = read_target(options.target_file);
    compile_options.target = target.get();
  }
  Binary binary = compile_named(std::move(graphs), compile_options);
  progress.clear();
  return binary;
}

}  // namespace tilemesh::cli
