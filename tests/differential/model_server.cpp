// Compiles and runs models that come through the standard input, one after the other: a process
// start for each would cost more than all the rest.
//
// A request is a line of JSON {"model": bytes, "mesh": [1, 1], "shards": ["x=0@1"],
// "inputs": [{"name", "dtype", "shape", "bytes"}]} and then the model's bytes and those of each
// input. The answer is a line {"status": "ok" | "refused" | "failed", "code", "message", "outputs":
// [{"name", "dtype", "shape", "bytes"}]} and then the bytes of each output. "refused" is what
// Tilemesh says it doesn't support; every other error is "failed".

#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tilemesh/tilemesh.hpp"

namespace tilemesh::differential {
namespace {

using Json = nlohmann::json;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kArenaBytes = 256 << 20;

struct Request {
  std::string model;
  MeshShape mesh;
  std::vector<ShardRule> shards;
  std::map<std::string, Tensor> inputs;
};

struct Reply {
  Json header;
  std::vector<Bytes> outputs;
};

Bytes read_bytes(std::size_t count) {
  Bytes bytes(count);
  std::cin.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
  if (!std::cin) throw std::runtime_error("the request ends early");
  return bytes;
}

Shape shape_of(const Json& json) {
  Dims dims;
  for (const Json& size : json)
    dims.push_back(size.get<std::int64_t>());
  return Shape(dims);
}

Request read_request(const std::string& line) {
  const Json json = Json::parse(line);
  const Bytes model = read_bytes(json["model"].get<std::size_t>());
  Request request{.model = {reinterpret_cast<const char*>(model.data()), model.size()},
                  .mesh = {json["mesh"][0].get<int>(), json["mesh"][1].get<int>()},
                  .shards = {},
                  .inputs = {}};
  for (const Json& rule : json["shards"]) {
    for (ShardRule& one : parse_shard_rules(rule.get<std::string>()))
      request.shards.push_back(std::move(one));
  }
  for (const Json& input : json["inputs"]) {
    const Bytes bytes = read_bytes(input["bytes"].get<std::size_t>());
    request.inputs[input["name"].get<std::string>()] =
        Tensor::copy_bytes(bytes, parse_dtype(input["dtype"].get<std::string>()).value(),
                           {.shape = shape_of(input["shape"])});
  }
  return request;
}

/// One for each shape; opened once.
const Mesh& mesh_of(const MeshShape& shape) {
  static std::map<std::string, Mesh> meshes;
  const std::string key = shape.to_string();
  auto found = meshes.find(key);
  if (found == meshes.end()) {
    const MeshOptions options{.shape = shape, .threads_per_device = 1, .dram_bytes = kArenaBytes};
    found = meshes.emplace(key, Mesh::open(options)).first;
  }
  return found->second;
}

std::vector<Argument> arguments_of(const Executable& executable, const Request& request) {
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < executable.input_count(); ++i) {
    arguments.emplace_back(request.inputs.at(executable.input(static_cast<int>(i)).name));
  }
  return arguments;
}

void add_output(Reply& reply, const std::string& name, const Tensor& tensor) {
  const Tensor host = tensor.to_host();
  Bytes bytes(static_cast<std::size_t>(host.shape().element_count() * size_of(host.dtype())));
  host.read(bytes);
  reply.header["outputs"].push_back(
      {{"name", name},
       {"dtype", std::string(to_string(host.dtype()))},
       {"shape", std::vector<std::int64_t>(host.shape().begin(), host.shape().end())},
       {"bytes", bytes.size()}});
  reply.outputs.push_back(std::move(bytes));
}

Reply run(const Request& request) {
  Reply reply{{{"status", "ok"}, {"outputs", Json::array()}}, {}};
  Graph graph = import_onnx_bytes(request.model, {});
  const Binary binary =
      compile({std::move(graph)}, {.mesh = request.mesh, .shards = request.shards});
  // As a file would be: what is compiled has to pass the verifier.
  const Binary loaded = Binary::from_bytes(binary.to_bytes());
  const Executable executable = prepare(mesh_of(request.mesh), loaded.program());
  const std::vector<Tensor> outputs = run(executable, arguments_of(executable, request));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    add_output(reply, executable.output(static_cast<int>(i)).name, outputs[i]);
  }
  return reply;
}

Reply answer(const Request& request) {
  try {
    return run(request);
  } catch (const Error& error) {
    const bool refused = error.code() == ErrorCode::unsupported;
    return {{{"status", refused ? "refused" : "failed"},
             {"code", std::string(to_string(error.code()))},
             {"message", error.what()},
             {"outputs", Json::array()}},
            {}};
  } catch (const std::exception& error) {
    return {{{"status", "failed"},
             {"code", "exception"},
             {"message", error.what()},
             {"outputs", Json::array()}},
            {}};
  }
}

void write(const Reply& reply) {
  const std::string line = reply.header.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  for (const Bytes& bytes : reply.outputs)
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

/// Until the input ends.
void serve() {
  for (std::string line; std::getline(std::cin, line);)
    write(answer(read_request(line)));
}

}  // namespace
}  // namespace tilemesh::differential

int main() {
  try {
    tilemesh::differential::serve();
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_server: {}\n", error.what());
    return 2;
  }
  return 0;
}
