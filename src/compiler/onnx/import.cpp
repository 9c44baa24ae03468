#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "tilemesh/base/input_file.hpp"
#include "tilemesh/compiler/compile.hpp"

#include "compiler/onnx/dims.hpp"
#include "compiler/onnx/importer.hpp"
#include "compiler/onnx/live.hpp"
#include "compiler/onnx/model.hpp"

namespace tilemesh {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// Runs `body`; what goes wrong names the model.
template <class Body>
auto named(const std::string& name, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Error& error) {
    throw name.empty() ? error : error.in(name);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory,
                fmt::format("{}: not enough memory to read the model", name));
  }
}

}  // namespace

Graph import_onnx(const std::filesystem::path& path, const OnnxOptions& options) {
  const InputFile file(path);
  return named(path.string(), [&] {
    onnx::ModelProto model = onnx_importer::read_model(file);
    OnnxOptions with_name = options;
    if (with_name.name.empty()) with_name.name = path.stem().string();
    return onnx_importer::Importer(model, folder_of(path), with_name).run();
  });
}

Graph import_onnx_bytes(std::string_view bytes, const OnnxOptions& options,
                        const std::filesystem::path& directory) {
  return named("", [&] {
    onnx::ModelProto model = onnx_importer::parse_model(bytes);
    return onnx_importer::Importer(model, directory, options).run();
  });
}

std::vector<OnnxInputInfo> onnx_inputs(const std::filesystem::path& path) {
  const InputFile file(path);
  return named(path.string(), [&] {
    const onnx::ModelProto model = onnx_importer::read_model(file);
    const std::vector<std::string_view> needed = onnx_importer::needed_inputs(model);
    std::vector<OnnxInputInfo> infos;
    for (const auto& input : onnx_importer::declared_inputs(model.graph())) {
      OnnxInputInfo info{input.name, input.dtype, {}, false};
      for (const auto& dim : input.dims)
        info.dims.push_back(dim.to_string());
      info.value_needed = std::find(needed.begin(), needed.end(), input.name) != needed.end();
      infos.push_back(std::move(info));
    }
    return infos;
  });
}

}  // namespace tilemesh
