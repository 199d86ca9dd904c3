# One program per folder of tests/, from every .cpp in it. A folder may hold a suite.cmake, included
# after its target `hipflash_<folder>_tests` is made, and programs of its own in *_program.cpp, built
# beside the tests under their file's name.

find_package(GTest REQUIRED)
include(GoogleTest)

set(HIPFLASH_TEST_DIR "${PROJECT_BINARY_DIR}/tests")
set(HIPFLASH_TEST_ENVIRONMENT "HIPFLASH_CACHE_DIR=${PROJECT_BINARY_DIR}/test-cache")
# Whoever tuned this machine tests the same kernels as everybody.
set(HIPFLASH_TEST_TUNING "HIPFLASH_TUNING=set:off")

function(hipflash_test_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE HIPFLASH_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             HIPFLASH_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE hipflash_internal hipflash_settings)
  # Compiling tests takes longer than running them.
  target_compile_options(${name} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${HIPFLASH_TEST_DIR}")
endfunction()

function(hipflash_test_suite folder)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp")
  set(programs ${sources})
  list(FILTER programs INCLUDE REGEX "_program\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_program\\.cpp$")
  if(NOT sources)
    return()
  endif()
  set(target hipflash_${folder}_tests)
  hipflash_test_program(${target} ${sources})
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock)
  if(NOT "${PROJECT_SOURCE_DIR}/tests/${folder}/main.cpp" IN_LIST sources)
    target_link_libraries(${target} PRIVATE GTest::gtest_main)
  endif()
  foreach(program ${programs})
    get_filename_component(name "${program}" NAME_WE)
    hipflash_test_program(${name} "${program}")
    add_dependencies(${target} ${name})
  endforeach()
  if(TARGET hipflash-compile)
    add_dependencies(${target} hipflash-compile)
  endif()
  if(folder STREQUAL "cli")
    target_link_libraries(${target} PRIVATE hipflash_cli)
    add_dependencies(${target} hipflash_command)
  endif()
  gtest_discover_tests(
    ${target}
    TEST_PREFIX "${folder}."
    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 300
    PROPERTIES LABELS ${folder} TIMEOUT 1800 ENVIRONMENT "${HIPFLASH_TEST_ENVIRONMENT}"
               ENVIRONMENT_MODIFICATION "${HIPFLASH_TEST_TUNING}")
  include("${PROJECT_SOURCE_DIR}/tests/${folder}/suite.cmake" OPTIONAL)
endfunction()

foreach(folder unit cache jit autotune numerics cli gpu_compile device api)
  if(TARGET hipflash_command OR NOT folder STREQUAL "cli")
    hipflash_test_suite(${folder})
  endif()
endforeach()

# Every examples/<name>/main.cpp is a program that uses the library as its users do.
file(GLOB HIPFLASH_EXAMPLES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*/main.cpp")
foreach(source ${HIPFLASH_EXAMPLES})
  get_filename_component(name "${source}" DIRECTORY)
  get_filename_component(name "${name}" NAME)
  add_executable(example_${name} "${source}")
  target_link_libraries(example_${name} PRIVATE hipflash::hipflash hipflash_settings)
  set_target_properties(
    example_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  if(TARGET hipflash-compile)
    add_dependencies(example_${name} hipflash-compile)
  endif()
  add_test(NAME example.${name} COMMAND example_${name})
  set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT
                                                  "${HIPFLASH_TEST_ENVIRONMENT}")
endforeach()

# The CPU kernels' text alone, on memory that ends at a protected page.
add_executable(hipflash_check_kernels "${PROJECT_SOURCE_DIR}/tests/cpu_kernels/check_kernels.cpp"
                                      "${PROJECT_SOURCE_DIR}/tests/cpu_kernels/random_problem.cpp")
target_include_directories(
  hipflash_check_kernels PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/kernel_sources"
                                 "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(hipflash_check_kernels
                           PRIVATE HIPFLASH_KERNEL_SOURCES="${PROJECT_SOURCE_DIR}/kernel_sources")
target_link_libraries(hipflash_check_kernels PRIVATE hipflash_settings ${CMAKE_DL_LIBS})
target_compile_options(hipflash_check_kernels PRIVATE -O1)
set_target_properties(hipflash_check_kernels PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${HIPFLASH_TEST_DIR}")
set(watched "")
if(HIPFLASH_SANITIZE MATCHES "address")
  set(watched --options "-O1 -fsanitize=address")
endif()
foreach(isa portable avx2 avx512 avx512_bf16)
  add_test(NAME cpu_kernels.${isa}
           COMMAND hipflash_check_kernels --isa ${isa} --cxx "${CMAKE_CXX_COMPILER}" --kernels 4 --problems 10 --folder
                   "${PROJECT_BINARY_DIR}/check-kernels-${isa}" ${watched})
  set_tests_properties(cpu_kernels.${isa} PROPERTIES LABELS cpu_kernels TIMEOUT 1800 SKIP_RETURN_CODE 77)
endforeach()

include(HipflashGpuTests)
include("${PROJECT_SOURCE_DIR}/tests/install/install.cmake" OPTIONAL)
