# The whole library on the hip and cuda platforms, over a HIP runtime and a hipRTC (hip_runtime.cpp),
# a CUDA driver and an NVRTC (cuda_driver.cpp) that run kernels on the host: the device tests, with
# kernels and their memory under AddressSanitizer and UndefinedBehaviorSanitizer.

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # whose sanitizers are shared libraries, to be there before the program
  return()
endif()

set(host_device "${PROJECT_SOURCE_DIR}/tests/gpu/host_device")
set(host_device_libraries "${PROJECT_BINARY_DIR}/tests/host_device")
function(hipflash_host_library name soversion)
  add_library(${name} SHARED ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${host_device_libraries}" SOVERSION ${soversion}
                                           VERSION ${soversion})
  add_dependencies(hipflash_device_tests ${name})
endfunction()
hipflash_host_library(amdhip64 7 "${host_device}/hip_runtime.cpp")
hipflash_host_library(cuda 1 "${host_device}/cuda_driver.cpp" "${host_device}/cuda_threads.cpp" "${host_device}/async_engines.cpp")
target_link_libraries(amdhip64 PRIVATE hipflash_host_block)
target_link_libraries(cuda PRIVATE hipflash_host_block)
hipflash_host_library(hiprtc 7 "${host_device}/hiprtc.cpp")
hipflash_host_library(nvrtc 13 "${host_device}/nvrtc.cpp")
list(JOIN HIPFLASH_HOST_KERNEL_OPTIONS " " options)
function(hipflash_host_compiler name runtime)
  target_compile_definitions(${name} PRIVATE HOST_GPU_CXX="${CMAKE_CXX_COMPILER}" HOST_GPU_OPTIONS="${options}"
                                             HOST_GPU_RUNTIME="$<TARGET_FILE:${runtime}>")
endfunction()
hipflash_host_compiler(hiprtc amdhip64)
hipflash_host_compiler(nvrtc cuda)
hipflash_host_library(amd_comgr 3 "${host_device}/comgr.cpp")

execute_process(
  COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libasan.so
  OUTPUT_VARIABLE host_device_asan
  OUTPUT_STRIP_TRAILING_WHITESPACE)
# Which tests there are depends on the device, so they are named here, not found. `archs` are those of the platform's
# devices, of which the first is tested.
function(hipflash_host_device_test name platform archs filter)
  add_test(NAME host_device.${name} COMMAND hipflash_device_tests "--gtest_filter=${filter}")
  set_tests_properties(
    host_device.${name}
    PROPERTIES
      LABELS host_device
      TIMEOUT 1800
      FAIL_REGULAR_EXPRESSION "Running 0 tests;SKIPPED"
      ENVIRONMENT
      "HIPFLASH_TEST_DEVICE=${platform}:0;HOST_GPU_ARCHS=${archs};HIPFLASH_COMPILE=inline;HIPFLASH_TUNING=off;HIPFLASH_CACHE_DIR=${PROJECT_BINARY_DIR}/host-device-cache;LD_LIBRARY_PATH=${host_device_libraries};LD_PRELOAD=${host_device_asan};ASAN_OPTIONS=detect_leaks=0;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()
set(cdna_archs "gfx942:sramecc+:xnack-,gfx90a:sramecc+:xnack-")
hipflash_host_device_test(dense hip ${cdna_archs} "Small.*")
hipflash_host_device_test(tiny hip ${cdna_archs} "SmallTiny.*")
hipflash_host_device_test(operations hip ${cdna_archs} "*Operations*")
# (without the tests of the longest rows, whose kernels take longest to compile)
hipflash_host_device_test(ragged hip ${cdna_archs} "*SmallRagged.*-*LongRows*")
hipflash_host_device_test(graphs hip ${cdna_archs} "Graph.*:Full.MemoryOfAnotherDevice*")
# The matrix units of both generations of RDNA: operands of 16 elements in both halves of a wave, and of 8.
set(rdna_tests
    "Small.*:SmallGeneral.OneKernelServes*:*SmallNumbers.NanIn*:*SmallRagged.ModifiersAndMasks*:*SmallRaggedFaults.*")
hipflash_host_device_test(rdna3 hip gfx1100 "${rdna_tests}:*ListedConfigs*/f16_d64")
hipflash_host_device_test(rdna4 hip gfx1201 "${rdna_tests}:*ListedConfigs*/bf16_d64")
# sm_80: products of f16 for f32. sm_120: multiply-adds, and launches that begin before those ahead of them have ended.
hipflash_host_device_test(cuda_dense cuda "sm_80,sm_120" "Small.*:SmallGeneral.*:SmallTiny.*:Full.MemoryOfAnotherDevice*")
hipflash_host_device_test(cuda_numbers cuda "sm_80" "*SmallNumbers.*Nan*:*SmallNumbers.*See*:*SmallNumbers.Huge*:*SmallNumbers.GroupedHeads*")
hipflash_host_device_test(
  cuda_ragged cuda "sm_80"
  "*SmallRagged.HeadDimensions*:*SmallRagged.Modifiers*:*SmallRagged.Slots*:*SmallRagged.ManyTiny*:*SmallRagged.SinksOfADense*:*SmallRaggedPages*:*SmallRaggedFaults*"
)
hipflash_host_device_test(
  cuda_multiply_adds cuda "sm_120,sm_80" "Small.*:*SmallRagged.Modifiers*:*SmallRagged.SinksOfADense*:*SmallReruns.SplitKeys*")
# wgmma and TMA, of a device of two multiprocessors, whose blocks take several pieces of work each.
hipflash_host_device_test(cuda_wgmma cuda "sm_90a" "Small.*:ListedWindows.*:*PackedSequencesOfManyRows*:*NanInAnotherSequence*:*RaggedFaults.OfOffsets*")
