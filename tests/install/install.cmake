# Tests of the installed tree: once for the library of this build, once for the other kind (shared or
# static), which a build of its own makes without optimization.

find_program(HIPFLASH_BASH bash)
if(HIPFLASH_SANITIZE OR NOT HIPFLASH_BASH)
  return()  # a sanitized library asks its users for the sanitizer's runtime too
endif()

function(hipflash_install_test kind build_dir)
  add_test(
    NAME install.${kind}
    COMMAND "${HIPFLASH_BASH}" "${PROJECT_SOURCE_DIR}/tests/install/check_install.sh" ${kind} "${build_dir}"
            "${PROJECT_SOURCE_DIR}" "${CMAKE_COMMAND}" "${CMAKE_CXX_COMPILER}" "${CMAKE_C_COMPILER}")
  set_tests_properties(install.${kind} PROPERTIES LABELS install TIMEOUT 900 PROCESSORS 2)
endfunction()

if(BUILD_SHARED_LIBS)
  hipflash_install_test(shared "${PROJECT_BINARY_DIR}")
  set(other static)
else()
  hipflash_install_test(static "${PROJECT_BINARY_DIR}")
  set(other shared)
endif()

set(other_build "${PROJECT_BINARY_DIR}/${other}")
add_test(
  NAME install.build_${other}
  COMMAND
    ${CMAKE_CTEST_COMMAND} --build-and-test "${PROJECT_SOURCE_DIR}" "${other_build}" --build-generator
    "${CMAKE_GENERATOR}" --build-noclean --build-options -DBUILD_SHARED_LIBS=$<STREQUAL:${other},shared>
    -DHIPFLASH_BUILD_TESTS=OFF -DHIPFLASH_GENERAL_KERNELS=OFF -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER})
set_tests_properties(install.build_${other} PROPERTIES LABELS install TIMEOUT 3600 PROCESSORS 2 FIXTURES_SETUP
                                                       other_kind)
hipflash_install_test(${other} "${other_build}")
set_tests_properties(install.${other} PROPERTIES FIXTURES_REQUIRED other_kind)

# The example in a root without a compiler.
if(BUILD_SHARED_LIBS AND TARGET hipflash_command AND TARGET example_link_and_call)
  add_test(NAME install.deployment COMMAND "${HIPFLASH_BASH}" "${PROJECT_SOURCE_DIR}/tests/install/check_deployment.sh"
                                           "${PROJECT_BINARY_DIR}")
  set_tests_properties(install.deployment PROPERTIES LABELS install TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# From tuning to a machine without hipRTC, on the AMD GPU that HIPFLASH_TEST_DEVICE names.
if(BUILD_SHARED_LIBS AND TARGET hipflash_command AND TARGET example_hip_device)
  add_test(NAME install.gpu_deployment COMMAND "${HIPFLASH_BASH}" "${PROJECT_SOURCE_DIR}/tests/install/check_gpu_deployment.sh"
                                               "${PROJECT_BINARY_DIR}")
  set_tests_properties(install.gpu_deployment PROPERTIES LABELS install TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()
