# usage: cmake -D build=... -D source=... -D scratch=... -D compiler=... -D generator=... -P this

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed: ${command}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${scratch})
step(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix)
# Moved, so that a path of the build or of the first prefix in the package shows.
file(RENAME ${scratch}/prefix ${scratch}/moved)
step(${CMAKE_COMMAND} -G ${generator} -S ${source} -B ${scratch}/build
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${scratch}/moved)
step(${CMAKE_COMMAND} --build ${scratch}/build)
step(${scratch}/build/consumer)
