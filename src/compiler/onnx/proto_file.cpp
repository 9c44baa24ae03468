#include "compiler/onnx/proto_file.hpp"

#include <system_error>

#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/message_lite.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::onnx_importer {

bool parse_file(const InputFile& file, google::protobuf::MessageLite& message) {
  constexpr int kBlockBytes = 1 << 20;
  google::protobuf::io::FileInputStream stream(file.descriptor(), kBlockBytes);
  google::protobuf::io::LimitingInputStream limited(&stream,
                                                    static_cast<std::int64_t>(file.size()));
  const bool parsed = message.ParseFromZeroCopyStream(&limited);
  if (stream.GetErrno() != 0) {
    throw Error(ErrorCode::io, fmt::format("can't read \"{}\": {}", file.path().string(),
                                           std::generic_category().message(stream.GetErrno())));
  }
  return parsed;
}

}  // namespace tilemesh::onnx_importer
