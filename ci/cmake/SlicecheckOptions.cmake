# Options, packages and the one flags target. AUTO turns a transport on where its toolkit is found.
include(CTest)
include(GNUInstallDirs)

set(SLICECHECK_MPI AUTO CACHE STRING "MPI transport: ON, OFF or AUTO")
set(SLICECHECK_CUDA AUTO CACHE STRING "device memory: ON, OFF or AUTO")
set(SLICECHECK_NCCL AUTO CACHE STRING "NCCL transport (needs MPI and CUDA): ON, OFF or AUTO")
option(SLICECHECK_WERROR "warnings are errors" OFF)
set(SLICECHECK_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")
set_property(CACHE SLICECHECK_MPI SLICECHECK_CUDA SLICECHECK_NCCL PROPERTY STRINGS ON OFF AUTO)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "build type" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

set(SLICECHECK_HAVE_MPI OFF)
if(NOT SLICECHECK_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX)
  if(SLICECHECK_MPI STREQUAL "ON" AND NOT MPI_CXX_FOUND)
    message(FATAL_ERROR "SLICECHECK_MPI is ON and no MPI was found")
  endif()
  set(SLICECHECK_HAVE_MPI ${MPI_CXX_FOUND})
endif()

add_library(slicecheck_flags INTERFACE)
target_compile_options(slicecheck_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion;-Wnon-virtual-dtor>)
if(SLICECHECK_WERROR)
  target_compile_options(slicecheck_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(SLICECHECK_SANITIZE)
  target_compile_options(slicecheck_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SLICECHECK_SANITIZE};-fno-sanitize-recover=all>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  target_link_options(slicecheck_flags INTERFACE -fsanitize=${SLICECHECK_SANITIZE})
endif()
