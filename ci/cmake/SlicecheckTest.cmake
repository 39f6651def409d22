# Tests by room: slicecheck_test(room.subject SOURCES ... USES ... [LABELS ...] [TIMEOUT s]) runs in
# one process; slicecheck_rank_test(room.subject RANKS 1 2 3 ...) runs the same program under mpirun
# once a rank count, as room.subject.npN; slicecheck_python_test(room.subject SCRIPT ...) runs a
# script, which finds the tree in SLICECHECK_SOURCE_DIR. Every test has a time limit.
find_package(GTest REQUIRED)
set(SLICECHECK_PYTHON /usr/bin/python3 CACHE FILEPATH "a python3 that has jsonschema, for tests")

set(SLICECHECK_MPIRUN_FLAGS "--oversubscribe;--bind-to;none;--allow-run-as-root" CACHE STRING
  "what mpirun is given by the tests")
set(SLICECHECK_RANK_TIMEOUT 60 CACHE STRING "seconds that a rank test may take; MPICH's ranks spin")
option(SLICECHECK_DEVICE_REQUIRED "a test that finds no device fails; else it is not run" OFF)

# Sanitizers give null where memory is out, as the tests of that expect; MPI's leaks are its own.
set(SLICECHECK_TEST_ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1"
  "TSAN_OPTIONS=allocator_may_return_null=1")
set(SLICECHECK_RANK_ENVIRONMENT "OMPI_MCA_mpi_yield_when_idle=1"
  "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1"
  "TSAN_OPTIONS=allocator_may_return_null=1")

function(slicecheck_test_program target)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "MAIN" "SOURCES;USES" )
  add_executable(${target} ${test_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_definitions(${target} PRIVATE SLICECHECK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # A test's own text is compiled in half the time; what it tests keeps its optimisation.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${target} PRIVATE slicecheck_flags ${test_USES} ${test_MAIN})
endfunction()

function(slicecheck_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "TIMEOUT" "SOURCES;USES;LABELS")
  string(REPLACE "." "_" target test_${name})
  slicecheck_test_program(${target} MAIN GTest::gtest_main SOURCES ${test_SOURCES}
    USES ${test_USES} GTest::gtest)
  add_test(NAME ${name} COMMAND ${target})
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
  endif()
  if(NOT test_LABELS)
    set(test_LABELS unit)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}"
    ENVIRONMENT "${SLICECHECK_TEST_ENVIRONMENT}")
endfunction()

# The program brings its own main (MPI_Init, agreement of the verdict, the same exit code on all).
function(slicecheck_rank_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "TIMEOUT" "RANKS;SOURCES;USES;LABELS")
  if(NOT SLICECHECK_HAVE_MPI)
    return()
  endif()
  string(REPLACE "." "_" target test_${name})
  slicecheck_test_program(${target} SOURCES ${test_SOURCES} USES ${test_USES} GTest::gtest)
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT ${SLICECHECK_RANK_TIMEOUT})
  endif()
  foreach(ranks ${test_RANKS})
    add_test(NAME ${name}.np${ranks} COMMAND ${MPIEXEC_EXECUTABLE} ${SLICECHECK_MPIRUN_FLAGS}
      ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${target}>)
    set_tests_properties(${name}.np${ranks} PROPERTIES TIMEOUT ${test_TIMEOUT}
      LABELS "rank;${test_LABELS}" PROCESSORS ${ranks}
      ENVIRONMENT "${SLICECHECK_RANK_ENVIRONMENT}")
  endforeach()
endfunction()

function(slicecheck_python_test name script)
  cmake_parse_arguments(PARSE_ARGV 2 test "" "TIMEOUT" "LABELS;ENVIRONMENT")
  add_test(NAME ${name} COMMAND ${SLICECHECK_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
  endif()
  set(environment "SLICECHECK_SOURCE_DIR=${PROJECT_SOURCE_DIR}" ${SLICECHECK_RANK_ENVIRONMENT}
    ${test_ENVIRONMENT})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}"
    ENVIRONMENT "${environment}")
endfunction()

# Tests that exit 77 where there is no device.
function(slicecheck_device_tests)
  set_tests_properties(${ARGV} PROPERTIES RESOURCE_LOCK device)
  if(NOT SLICECHECK_DEVICE_REQUIRED)
    set_tests_properties(${ARGV} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()
