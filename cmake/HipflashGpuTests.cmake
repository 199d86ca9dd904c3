# The text of the GPU families as host code, under AddressSanitizer and UndefinedBehaviorSanitizer in
# every preset, and the bank patterns of their shared memory. No GPU and no GPU compiler is needed.

# Kernel text reads memory by other types, as GPU compilers allow.
set(HIPFLASH_HOST_KERNEL_OPTIONS -O1 -g1 -fno-strict-aliasing -fsanitize=address,undefined
                                 -fno-sanitize-recover=all)

function(hipflash_gpu_test name)
  add_executable(${name} ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(
    ${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/tests/gpu/cdna"
                    "${PROJECT_SOURCE_DIR}/kernel_sources")
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gtest_main Threads::Threads)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${HIPFLASH_TEST_DIR}")
  gtest_discover_tests(
    ${name}
    TEST_PREFIX "gpu."
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 300
    PROPERTIES LABELS gpu TIMEOUT 1800)
endfunction()

set(cdna "${PROJECT_SOURCE_DIR}/tests/gpu/cdna")
set(rdna "${PROJECT_SOURCE_DIR}/tests/gpu/rdna")
hipflash_gpu_test(hipflash_gpu_banks_tests "${cdna}/lds_banks_test.cpp" "${rdna}/shared_banks_test.cpp"
                  "${rdna}/dot_banks_test.cpp")

if(NOT HIPFLASH_SANITIZE)
  set(gpu "${PROJECT_SOURCE_DIR}/tests/gpu")
  # The threads of a block, for programs and for the libraries of host_device/.
  add_library(hipflash_host_block OBJECT "${gpu}/fibers.cpp" "${gpu}/host_block.cpp" "${gpu}/host_lanes.cpp")
  target_compile_features(hipflash_host_block PUBLIC cxx_std_20)
  target_include_directories(hipflash_host_block PUBLIC "${PROJECT_SOURCE_DIR}/tests")
  target_compile_options(hipflash_host_block PUBLIC ${HIPFLASH_HOST_KERNEL_OPTIONS})
  target_link_options(hipflash_host_block PUBLIC ${HIPFLASH_HOST_KERNEL_OPTIONS})
  set_target_properties(hipflash_host_block PROPERTIES POSITION_INDEPENDENT_CODE ON)

  file(GLOB cdna_kernels CONFIGURE_DEPENDS "${cdna}/host_bf16_*.cpp" "${cdna}/host_f*.cpp")
  file(GLOB dot_kernels CONFIGURE_DEPENDS "${rdna}/host_dot_*.cpp")
  # Problems and the reference are those of the numerics tests.
  set(numerics "${PROJECT_SOURCE_DIR}/tests/numerics")
  set(harness "${gpu}/no_targets.cpp" "${numerics}/attention_case.cpp")
  hipflash_gpu_test(hipflash_gpu_host_cdna_tests "${cdna}/host_backend_test.cpp" ${harness} ${cdna_kernels})
  hipflash_gpu_test(hipflash_gpu_host_dot_tests "${cdna}/host_backend_test.cpp" ${harness} ${dot_kernels})
  file(GLOB ragged_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/gpu/ragged/host_*.cpp")
  hipflash_gpu_test(hipflash_gpu_host_ragged_tests ${harness} "${numerics}/ragged_case.cpp" ${ragged_kernels})
  hipflash_gpu_test(hipflash_gpu_host_block_tests "${gpu}/host_block_test.cpp"
                    "${gpu}/host_device/cuda_threads_test.cpp" "${gpu}/host_device/cuda_threads.cpp"
                    "${gpu}/host_device/async_engines.cpp"
                    "${gpu}/host_device/cuda_driver_test.cpp" "${gpu}/host_device/cuda_driver.cpp")
  add_library(hipflash_host_image MODULE "${gpu}/host_device/cuda_driver_image.cpp")
  set_target_properties(hipflash_host_image PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${HIPFLASH_TEST_DIR}")
  add_dependencies(hipflash_gpu_host_block_tests hipflash_host_image)
  target_compile_definitions(hipflash_gpu_host_block_tests PRIVATE
                             HOST_GPU_IMAGE="$<TARGET_FILE:hipflash_host_image>")
  foreach(target hipflash_gpu_host_cdna_tests hipflash_gpu_host_dot_tests hipflash_gpu_host_ragged_tests)
    target_link_libraries(${target} PRIVATE hipflash_internal hipflash_host_block)
  endforeach()
  target_link_libraries(hipflash_gpu_host_block_tests PRIVATE hipflash_host_block ${CMAKE_DL_LIBS})
  include("${PROJECT_SOURCE_DIR}/tests/gpu/host_device/suite.cmake")
endif()
