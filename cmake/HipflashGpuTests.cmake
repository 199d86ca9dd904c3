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
hipflash_gpu_test(hipflash_gpu_banks_tests "${cdna}/lds_banks_test.cpp" "${rdna}/shared_banks_test.cpp")

if(NOT HIPFLASH_SANITIZE)
  set(harness "${cdna}/host_backend_test.cpp" "${cdna}/host_lanes.cpp" "${cdna}/problem.cpp")
  file(GLOB cdna_kernels CONFIGURE_DEPENDS "${cdna}/host_[bf]*_*.cpp" "${cdna}/host_f16_*.cpp")
  list(FILTER cdna_kernels EXCLUDE REGEX "host_(backend_test|lanes)")
  list(REMOVE_DUPLICATES cdna_kernels)
  file(GLOB dot_kernels CONFIGURE_DEPENDS "${rdna}/host_dot_*.cpp")
  hipflash_gpu_test(hipflash_gpu_host_cdna_tests ${harness} ${cdna_kernels})
  hipflash_gpu_test(hipflash_gpu_host_dot_tests ${harness} ${dot_kernels})
  file(GLOB ragged_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/gpu/ragged/host_*.cpp")
  hipflash_gpu_test(
    hipflash_gpu_host_ragged_tests ${ragged_kernels} "${cdna}/host_lanes.cpp"
    "${PROJECT_SOURCE_DIR}/tests/numerics/ragged_case.cpp"
    "${PROJECT_SOURCE_DIR}/tests/numerics/attention_case.cpp")
  target_link_libraries(hipflash_gpu_host_ragged_tests PRIVATE hipflash_internal)
  foreach(target hipflash_gpu_host_cdna_tests hipflash_gpu_host_dot_tests
                 hipflash_gpu_host_ragged_tests)
    target_compile_options(${target} PRIVATE ${HIPFLASH_HOST_KERNEL_OPTIONS})
    target_link_options(${target} PRIVATE ${HIPFLASH_HOST_KERNEL_OPTIONS})
  endforeach()
endif()
