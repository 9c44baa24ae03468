# One function per kind of target, so that every part is declared in the same way.

if(TILEMESH_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
  include(GoogleTest)
endif()

# Compiles through ccache, with paths relative to the source tree, so that two checkouts share.
function(tilemesh_use_ccache)
  find_program(TILEMESH_CCACHE ccache)
  if(TILEMESH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${TILEMESH_CCACHE} PARENT_SCOPE)
  endif()
endfunction()

# tilemesh_add_part(<name> HEADERS ... SOURCES ... DEPENDS ... PRIVATE_DEPENDS ... TESTS ...)
#
# Makes the library tilemesh_<name>, known as tilemesh::<name>; a '/' in the name becomes '_'.
# HEADERS are relative to include/tilemesh/<name>/ or to include/; a part without SOURCES is an
# interface library. TESTS become the executable <name>_tests (label unit), those whose name ends in
# _stress_test.cpp the executable <name>_stress_tests (label stress). Select a part with
# `ctest -R ^<part>/`.
function(tilemesh_add_part part)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "HEADERS;SOURCES;DEPENDS;PRIVATE_DEPENDS;TESTS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tilemesh_add_part(${part}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  string(REPLACE "/" "_" name ${part})
  set(target tilemesh_${name})
  set(scope PUBLIC)
  if(ARG_SOURCES)
    add_library(${target} ${ARG_SOURCES})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PRIVATE ${ARG_PRIVATE_DEPENDS})
    tilemesh_set_warnings(${target})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(tilemesh::${name} ALIAS ${target})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${ARG_DEPENDS})
  tilemesh_add_headers(${target} ${scope} ${part} ${ARG_HEADERS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT tilemeshTargets FILE_SET HEADERS)
  set_property(GLOBAL APPEND PROPERTY TILEMESH_PART_TARGETS ${target})

  if(TILEMESH_BUILD_TESTS AND ARG_TESTS)
    set(stress_tests ${ARG_TESTS})
    list(FILTER stress_tests INCLUDE REGEX "_stress_test\\.cpp$")
    list(FILTER ARG_TESTS EXCLUDE REGEX "_stress_test\\.cpp$")
    set(links ${target} ${ARG_PRIVATE_DEPENDS})
    tilemesh_add_tests(${name}_tests PREFIX ${part} LABEL unit TIMEOUT 120
      SOURCES ${ARG_TESTS} DEPENDS ${links})
    tilemesh_add_tests(${name}_stress_tests PREFIX ${part} LABEL stress TIMEOUT 900
      SOURCES ${stress_tests} DEPENDS ${links})
  endif()
endfunction()

# Public headers, installed with the target; each is also compiled alone by the target
# all_verify_interface_header_sets.
function(tilemesh_add_headers target scope part)
  set(base ${PROJECT_SOURCE_DIR}/include)
  set(headers)
  foreach(header IN LISTS ARGN)
    if(EXISTS ${base}/tilemesh/${part}/${header})
      list(APPEND headers ${base}/tilemesh/${part}/${header})
    elseif(EXISTS ${base}/${header})
      list(APPEND headers ${base}/${header})
    else()
      list(APPEND headers ${header})
    endif()
  endforeach()
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${base} FILES ${headers})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# tilemesh_add_tests(<executable> PREFIX <part> LABEL unit|stress TIMEOUT <seconds> SOURCES ...
#                    DEPENDS ... [WORKING_DIRECTORY <dir>])
# One test executable; makes nothing when there are no sources.
function(tilemesh_add_tests target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "PREFIX;LABEL;TIMEOUT;WORKING_DIRECTORY"
    "SOURCES;DEPENDS")
  if(NOT ARG_SOURCES)
    return()
  endif()
  if(NOT ARG_WORKING_DIRECTORY)
    set(ARG_WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  add_executable(${target} ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS} GTest::gtest_main GTest::gmock rapidcheck
    rapidcheck_gtest fmt::fmt)
  tilemesh_set_warnings(${target})
  # One label only: CMake 3.25 loses what follows a list in PROPERTIES.
  gtest_discover_tests(${target} TEST_PREFIX "${ARG_PREFIX}/" DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60 WORKING_DIRECTORY ${ARG_WORKING_DIRECTORY}
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${ARG_LABEL})
endfunction()

# tilemesh_add_program(<target> [NAME <file name>] SOURCES ... DEPENDS ... [INSTALL])
# An executable in <build>/bin.
function(tilemesh_add_program target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "INSTALL" "NAME" "SOURCES;DEPENDS")
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_DEPENDS})
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(ARG_NAME)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${ARG_NAME})
  endif()
  tilemesh_set_warnings(${target})
  if(ARG_INSTALL)
    install(TARGETS ${target})
  endif()
endfunction()

# tilemesh_flatbuffers(<part> <schema>), after tilemesh_add_part: generates <schema>_generated.h in
# the build tree, to be included by that name from the part's sources and tests alone.
function(tilemesh_flatbuffers part schema)
  string(REPLACE "/" "_" name ${part})
  cmake_path(ABSOLUTE_PATH schema BASE_DIRECTORY ${PROJECT_SOURCE_DIR} NORMALIZE)
  cmake_path(GET schema STEM stem)
  set(folder ${PROJECT_BINARY_DIR}/generated/${name})
  set(header ${folder}/${stem}_generated.h)
  find_program(TILEMESH_FLATC flatc REQUIRED)
  add_custom_command(OUTPUT ${header}
    COMMAND ${TILEMESH_FLATC} --cpp --cpp-std c++17 --scoped-enums -o ${folder} ${schema}
    DEPENDS ${schema} COMMENT "Generating ${stem}_generated.h" VERBATIM)
  add_custom_target(tilemesh_${name}_${stem}_schema DEPENDS ${header})
  foreach(target IN ITEMS tilemesh_${name} ${name}_tests ${name}_stress_tests)
    if(TARGET ${target})
      add_dependencies(${target} tilemesh_${name}_${stem}_schema)
      target_include_directories(${target} SYSTEM PRIVATE ${folder})
    endif()
  endforeach()
endfunction()

# Some parts call functions that builtin alone defines, since it alone knows the backends. So whoever
# links such a part links builtin as well: a cycle of static libraries, which CMake allows.
function(tilemesh_close_cycle)
  foreach(part IN ITEMS mesh runtime compiler)
    if(TARGET tilemesh_builtin AND TARGET tilemesh_${part})
      target_link_libraries(tilemesh_${part} INTERFACE tilemesh::builtin)
    endif()
  endforeach()
endfunction()

# The target tilemesh::tilemesh: all parts, and the header that includes them.
function(tilemesh_add_umbrella)
  get_property(parts GLOBAL PROPERTY TILEMESH_PART_TARGETS)
  add_library(tilemesh_all INTERFACE)
  add_library(tilemesh::tilemesh ALIAS tilemesh_all)
  set_target_properties(tilemesh_all PROPERTIES EXPORT_NAME tilemesh)
  target_compile_features(tilemesh_all INTERFACE cxx_std_20)
  target_link_libraries(tilemesh_all INTERFACE ${parts})
  if(EXISTS ${PROJECT_SOURCE_DIR}/include/tilemesh/tilemesh.hpp)
    tilemesh_add_headers(tilemesh_all INTERFACE . tilemesh/tilemesh.hpp)
    install(TARGETS tilemesh_all EXPORT tilemeshTargets FILE_SET HEADERS)
  else()
    install(TARGETS tilemesh_all EXPORT tilemeshTargets)
  endif()
endfunction()

function(tilemesh_set_warnings target)
  file(RELATIVE_PATH up ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})  # what ccache makes of it
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion
    -Wshadow -Wnon-virtual-dtor -Wold-style-cast $<$<BOOL:${TILEMESH_WERROR}>:-Werror>
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${up}=)
endfunction()
