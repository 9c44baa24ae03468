# Everything that comes from outside, as imported targets. Used by the build and, once installed, by
# tilemeshConfig.cmake: the static parts name these targets as what they link to.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(hwy REQUIRED CONFIG)
find_package(FlatBuffers REQUIRED CONFIG)
find_package(Protobuf REQUIRED)

# oneDNN's own config file asks for the OpenCL headers, which its CPU engine doesn't need.
if(NOT TARGET DNNL::dnnl)
  find_path(TILEMESH_DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
  find_library(TILEMESH_DNNL_LIBRARY dnnl REQUIRED)
  add_library(DNNL::dnnl SHARED IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${TILEMESH_DNNL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${TILEMESH_DNNL_INCLUDE_DIR})
endif()
if(NOT TARGET dnnl::dnnl)
  add_library(dnnl::dnnl ALIAS DNNL::dnnl)
endif()

if(NOT TARGET hwloc::hwloc)
  find_path(TILEMESH_HWLOC_INCLUDE_DIR hwloc.h REQUIRED)
  find_library(TILEMESH_HWLOC_LIBRARY hwloc REQUIRED)
  add_library(hwloc::hwloc UNKNOWN IMPORTED)
  set_target_properties(hwloc::hwloc PROPERTIES
    IMPORTED_LOCATION ${TILEMESH_HWLOC_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${TILEMESH_HWLOC_INCLUDE_DIR})
endif()

# Only the messages of ONNX, not its checker or its shape inference.
if(NOT TARGET tilemesh_onnx_proto)
  find_path(TILEMESH_ONNX_INCLUDE_DIR onnx/onnx_pb.h REQUIRED)
  find_library(TILEMESH_ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
  add_library(tilemesh_onnx_proto UNKNOWN IMPORTED)
  set_target_properties(tilemesh_onnx_proto PROPERTIES
    IMPORTED_LOCATION ${TILEMESH_ONNX_PROTO_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${TILEMESH_ONNX_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS "ONNX_NAMESPACE=onnx;ONNX_ML=1"
    INTERFACE_LINK_LIBRARIES protobuf::libprotobuf)
endif()
