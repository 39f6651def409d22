# Options, packages and the one flags target. AUTO turns a transport on where its toolkit is found.
include(CTest)
include(GNUInstallDirs)

set(SLICECHECK_MPI AUTO CACHE STRING "MPI transport: ON, OFF or AUTO")
set(SLICECHECK_CUDA AUTO CACHE STRING "device memory: ON, OFF or AUTO")
set(SLICECHECK_NCCL AUTO CACHE STRING "NCCL transport (needs MPI and CUDA): ON, OFF or AUTO")
set(SLICECHECK_BACKWARD AUTO CACHE STRING "stacks of stuck ranks, by backward-cpp: ON, OFF or AUTO")
option(SLICECHECK_WERROR "warnings are errors" OFF)
set(SLICECHECK_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")
set_property(CACHE SLICECHECK_MPI SLICECHECK_CUDA SLICECHECK_NCCL SLICECHECK_BACKWARD
  PROPERTY STRINGS ON OFF AUTO)

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

# Device code: sm_80 to sm_120 where a list is given, e.g. "80-real;90-real;100-real;120".
set(SLICECHECK_CUDA_ARCHITECTURES 90 CACHE STRING "what device code is built for, a list")
set(SLICECHECK_HAVE_CUDA OFF)
if(NOT SLICECHECK_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  set(CMAKE_CUDA_ARCHITECTURES ${SLICECHECK_CUDA_ARCHITECTURES})
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})
    check_language(CUDA)
  endif()
  if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(SLICECHECK_HAVE_CUDA ON)
  elseif(SLICECHECK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SLICECHECK_CUDA is ON and no CUDA toolkit was found")
  endif()
endif()

set(SLICECHECK_HAVE_NCCL OFF)
if(NOT SLICECHECK_NCCL STREQUAL "OFF")
  find_path(SLICECHECK_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(SLICECHECK_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(SLICECHECK_HAVE_CUDA AND SLICECHECK_HAVE_MPI AND SLICECHECK_NCCL_INCLUDE
      AND SLICECHECK_NCCL_LIBRARY)
    add_library(slicecheck_nccl_library INTERFACE)
    target_include_directories(slicecheck_nccl_library SYSTEM INTERFACE ${SLICECHECK_NCCL_INCLUDE})
    target_link_libraries(slicecheck_nccl_library INTERFACE ${SLICECHECK_NCCL_LIBRARY})
    set(SLICECHECK_HAVE_NCCL ON)
  elseif(SLICECHECK_NCCL STREQUAL "ON")
    message(FATAL_ERROR "SLICECHECK_NCCL is ON and NCCL, CUDA or MPI was not found")
  endif()
endif()

# Stacks of stuck ranks: a header alone.
set(SLICECHECK_HAVE_BACKWARD OFF)
if(NOT SLICECHECK_BACKWARD STREQUAL "OFF")
  find_path(SLICECHECK_BACKWARD_INCLUDE backward.hpp)
  if(SLICECHECK_BACKWARD_INCLUDE)
    set(SLICECHECK_HAVE_BACKWARD ON)
  elseif(SLICECHECK_BACKWARD STREQUAL "ON")
    message(FATAL_ERROR "SLICECHECK_BACKWARD is ON and backward-cpp was not found")
  endif()
endif()

# fmt: compiled once where its text is known (fmt.cpp says why), else its headers.
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(slicecheck_fmt STATIC ${PROJECT_SOURCE_DIR}/ci/cmake/fmt.cpp)
  target_include_directories(slicecheck_fmt SYSTEM PUBLIC
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  set_target_properties(slicecheck_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20)
else()
  add_library(slicecheck_fmt INTERFACE)
  target_link_libraries(slicecheck_fmt INTERFACE fmt::fmt-header-only)
endif()

add_library(slicecheck_flags INTERFACE)
target_compile_options(slicecheck_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion;-Wnon-virtual-dtor;-Woverloaded-virtual>)
# CMake 3.25 does not know C++20 for this compiler; layout's constexpr maps run in kernels.
target_compile_options(slicecheck_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra>)
if(SLICECHECK_WERROR)
  target_compile_options(slicecheck_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
  target_compile_options(slicecheck_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(SLICECHECK_SANITIZE)
  target_compile_options(slicecheck_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${SLICECHECK_SANITIZE};-fno-sanitize-recover=all>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  # In sanitised code g++ 13 sees copies and reads out of bounds that are none.
  target_compile_options(slicecheck_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overread>)
  target_link_options(slicecheck_flags INTERFACE -fsanitize=${SLICECHECK_SANITIZE})
endif()
