#include "compiler/onnx/tensor.hpp"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include <fmt/format.h>

#include "tilemesh/base/input_file.hpp"
#include "tilemesh/base/math.hpp"
#include "tilemesh/compiler/onnx_tensor.hpp"

#include "compiler/onnx/proto_file.hpp"

namespace tilemesh::onnx_importer {

static_assert(std::endian::native == std::endian::little, "ONNX stores raw data little-endian");

namespace {

struct TypeRow {
  std::int64_t onnx;
  const char* name;
  std::optional<DType> dtype;
};

constexpr TypeRow kTypes[] = {
    {1, "float", DType::f32},
    {2, "uint8", DType::u8},
    {3, "int8", DType::i8},
    {4, "uint16", DType::u16},
    {5, "int16", DType::i16},
    {6, "int32", DType::i32},
    {7, "int64", DType::i64},
    {8, "string", std::nullopt},
    {9, "bool", DType::boolean},
    {10, "float16", DType::f16},
    {11, "double", DType::f64},
    {12, "uint32", DType::u32},
    {13, "uint64", DType::u64},
    {14, "complex64", std::nullopt},
    {15, "complex128", std::nullopt},
    {16, "bfloat16", DType::bf16},
    {17, "float8e4m3fn", DType::f8e4m3fn},
    {18, "float8e4m3fnuz", DType::f8e4m3fnuz},
    {19, "float8e5m2", DType::f8e5m2},
    {20, "float8e5m2fnuz", DType::f8e5m2fnuz},
    {21, "uint4", DType::u4},
    {22, "int4", DType::i4},
    {23, "float4e2m1", DType::f4e2m1},
    {24, "float8e8m0", DType::f8e8m0},
    {25, "uint2", DType::u2},
    {26, "int2", DType::i2},
};

using Bytes = std::vector<std::byte>;

[[noreturn]] void throw_size(const std::string& name, std::int64_t have, const char* unit,
                             std::int64_t want) {
  throw Error(
      ErrorCode::invalid_file,
      fmt::format("tensor \"{}\" holds {} {}, its shape and type want {}", name, have, unit, want));
}

Shape shape_of(const onnx::TensorProto& tensor) {
  try {
    return Shape(std::span<const std::int64_t>(tensor.dims().data(),
                                               static_cast<std::size_t>(tensor.dims_size())));
  } catch (const Error& error) {
    const bool rank = tensor.dims_size() > kMaxRank;
    throw Error(rank ? ErrorCode::unsupported : ErrorCode::invalid_file,
                fmt::format("tensor \"{}\": {}", tensor.name(), error.what()));
  }
}

// One of the typed fields (float_data, ...) as elements of T.
template <class T, class Field>
Bytes from_field(const onnx::TensorProto& tensor, const Field& field, std::int64_t count) {
  if (field.size() != count) throw_size(tensor.name(), field.size(), "values", count);
  Bytes bytes(static_cast<std::size_t>(count) * sizeof(T));
  for (int i = 0; i < field.size(); ++i) {
    const T value = static_cast<T>(field[i]);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

Bytes from_fields(const onnx::TensorProto& tensor, DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::f32: return from_field<float>(tensor, tensor.float_data(), count);
    case DType::f64: return from_field<double>(tensor, tensor.double_data(), count);
    case DType::i64: return from_field<std::int64_t>(tensor, tensor.int64_data(), count);
    case DType::u64: return from_field<std::uint64_t>(tensor, tensor.uint64_data(), count);
    case DType::u32: return from_field<std::uint32_t>(tensor, tensor.uint64_data(), count);
    case DType::i32: return from_field<std::int32_t>(tensor, tensor.int32_data(), count);
    case DType::f16:
    case DType::bf16:
    case DType::u16:
    case DType::i16: return from_field<std::uint16_t>(tensor, tensor.int32_data(), count);
    default: return from_field<std::uint8_t>(tensor, tensor.int32_data(), count);
  }
}

/// How many bits ONNX gives an element where it packs several into a byte; 8 otherwise.
int packed_bits(DType dtype) {
  switch (dtype) {
    case DType::f4e2m1:
    case DType::i4:
    case DType::u4: return 4;
    case DType::i2:
    case DType::u2: return 2;
    default: return 8;
  }
}

/// A byte for each element; the first one of a packed byte is in its lowest bits.
Bytes unpacked(DType dtype, const Bytes& packed, std::int64_t count) {
  const auto bits = static_cast<std::size_t>(packed_bits(dtype));
  const std::size_t per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  const int sign = dtype == DType::i4 || dtype == DType::i2 ? 1 << (bits - 1) : 0;
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto shift = static_cast<int>(i % per_byte * bits);
    const int value = (std::to_integer<int>(packed[i / per_byte]) >> shift) & mask;
    bytes[i] = static_cast<std::byte>((value ^ sign) - sign);
  }
  return bytes;
}

struct External {
  std::string location;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
};

External external_of(const onnx::TensorProto& tensor) {
  External external;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    std::int64_t number = 0;
    const char* end = entry.value().data() + entry.value().size();
    const auto parsed = std::from_chars(entry.value().data(), end, number);
    if (parsed.ec != std::errc{} || parsed.ptr != end || number < 0) {
      throw Error(ErrorCode::invalid_file,
                  fmt::format("tensor \"{}\" has \"{}\" as the {} of its external data: a number "
                              "from 0 is wanted",
                              tensor.name(), entry.value(), entry.key()));
    }
    (entry.key() == "offset" ? external.offset : external.length.emplace()) = number;
  }
  return external;
}

namespace fs = std::filesystem;

// Both without links.
bool lies_in(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

fs::path real_folder(const fs::path& folder) {
  std::error_code failed;
  fs::path real = fs::canonical(folder, failed);
  if (failed) {
    throw Error(ErrorCode::io,
                fmt::format("can't open the folder \"{}\": {}", folder.string(), failed.message()));
  }
  return real;
}

// The file of external data, without links. One that leads out of the model's folder is refused
// unless the user named a folder that it lies in, so that a model can't make us read what isn't its
// own.
fs::path external_path(const std::string& name, const std::string& location,
                       const DataFolders& folders) {
  if (folders.model.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tensor \"{}\" lies in the file \"{}\": name the directory of the model", name,
                    location));
  }
  if (location.empty() || location.find('\0') != std::string::npos) {
    throw Error(
        ErrorCode::invalid_file,
        fmt::format("tensor \"{}\" has its data in \"{}\", which names no file", name, location));
  }
  const fs::path base = real_folder(folders.model);
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(base / location, failed);
  if (failed) {
    throw Error(ErrorCode::io, fmt::format("tensor \"{}\": can't open its data \"{}\": {}", name,
                                           location, failed.message()));
  }
  if (fs::path(location).is_relative() && lies_in(real, base)) return real;
  if (!folders.root.empty() && lies_in(real, real_folder(folders.root))) return real;
  const std::string but = folders.root.empty()
                              ? std::string()
                              : fmt::format(" and of --data-root \"{}\"", folders.root.string());
  throw Error(
      ErrorCode::invalid_file,
      fmt::format("tensor \"{}\" has its data in \"{}\", which leads to \"{}\", out of the "
                  "model's folder \"{}\"{}: if you trust the model, allow it with "
                  "--data-root {} (OnnxOptions::data_root)",
                  name, location, real.string(), base.string(), but, real.parent_path().string()));
}

Bytes from_external(const onnx::TensorProto& tensor, const DataFolders& folders,
                    std::int64_t bytes) {
  const External external = external_of(tensor);
  const fs::path path = external_path(tensor.name(), external.location, folders);
  if (external.length && *external.length != bytes) {
    throw_size(tensor.name(), *external.length, "bytes of external data", bytes);
  }
  try {
    const InputFile file(path);
    // Checked before the memory is taken: a small file can't ask for much.
    if (std::cmp_less(file.size(), external.offset) ||
        std::cmp_less(file.size() - static_cast<std::uint64_t>(external.offset), bytes)) {
      throw Error(ErrorCode::invalid_file,
                  fmt::format("it wants {} bytes from byte {} of \"{}\", which has {}", bytes,
                              external.offset, path.string(), file.size()));
    }
    return file.bytes(static_cast<std::uint64_t>(external.offset),
                      static_cast<std::uint64_t>(bytes));
  } catch (const Error& error) {
    throw error.in(fmt::format("tensor \"{}\"", tensor.name()));
  }
}

}  // namespace

DType dtype_of(std::int64_t onnx_type, const std::string& what) {
  for (const TypeRow& row : kTypes) {
    if (row.onnx != onnx_type) continue;
    if (row.dtype) return *row.dtype;
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the element type {} isn't supported", what, row.name));
  }
  throw Error(ErrorCode::invalid_file,
              fmt::format("{}: there is no element type {}", what, onnx_type));
}

ConstantData read_tensor(const onnx::TensorProto& tensor, const DataFolders& folders) {
  ConstantData data;
  data.dtype = dtype_of(tensor.data_type(), fmt::format("tensor \"{}\"", tensor.name()));
  if (tensor.has_segment()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("tensor \"{}\" is a segment of a larger one", tensor.name()));
  }
  data.shape = shape_of(tensor);
  const std::int64_t count = data.shape.element_count();
  std::int64_t wanted = 0;
  if (__builtin_mul_overflow(count, size_of(data.dtype), &wanted)) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("tensor \"{}\" is larger than 2^63 bytes", tensor.name()));
  }
  const int bits = packed_bits(data.dtype);
  const int per_byte = 8 / bits;
  const std::int64_t stored_count = count / per_byte + (count % per_byte != 0 ? 1 : 0);
  if (bits != 8) wanted = stored_count;
  Bytes bytes;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    bytes = from_external(tensor, folders, wanted);
  } else if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    if (std::cmp_not_equal(raw.size(), wanted)) {
      throw_size(tensor.name(), static_cast<std::int64_t>(raw.size()), "bytes", wanted);
    }
    bytes.resize(raw.size());
    if (!raw.empty()) std::memcpy(bytes.data(), raw.data(), raw.size());
  } else {
    bytes = from_fields(tensor, data.dtype, stored_count);
  }
  if (bits != 8) bytes = unpacked(data.dtype, bytes, count);
  if (data.dtype == DType::boolean) {
    for (std::byte& value : bytes)
      value = value == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  data.bytes = std::make_shared<const Bytes>(std::move(bytes));
  return data;
}

}  // namespace tilemesh::onnx_importer

namespace tilemesh {

ConstantData read_onnx_tensor(const std::filesystem::path& path,
                              const std::filesystem::path& data_root) {
  const InputFile file(path);
  // Sequences and optionals begin with their name (field 1, a string); read as a tensor that is a
  // list of dims without data.
  const bool named_first = file.size() > 0 && file.bytes(0, 1)[0] == std::byte{0x0a};
  onnx::TensorProto tensor;
  const bool small = std::cmp_less_equal(file.size(), std::numeric_limits<int>::max());
  if (!small || !onnx_importer::parse_file(file, tensor) || tensor.data_type() == 0) {
    throw Error(ErrorCode::invalid_file, fmt::format("\"{}\" holds no tensor", path.string()));
  }
  if (named_first && !tensor.has_raw_data()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("\"{}\" holds a sequence or an optional, not a tensor", path.string()));
  }
  const std::filesystem::path folder = path.parent_path();
  try {
    return onnx_importer::read_tensor(tensor, {folder.empty() ? "." : folder, data_root});
  } catch (const Error& error) {
    throw error.in(fmt::format("\"{}\"", path.string()));
  }
}

}  // namespace tilemesh
