# The hipflash command, the compile helper, and the general kernels that they make.

file(GLOB HIPFLASH_COMPILE_MAIN CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/jit/compile_main.cpp")
if(HIPFLASH_COMPILE_MAIN)
  add_executable(hipflash-compile ${HIPFLASH_COMPILE_MAIN})
  target_link_libraries(hipflash-compile PRIVATE hipflash_internal hipflash_settings)
  set_target_properties(
    hipflash-compile PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/libexec/hipflash")
endif()

add_executable(hipflash-measure "${PROJECT_SOURCE_DIR}/autotune/measure_main.cpp")
target_link_libraries(hipflash-measure PRIVATE hipflash_internal hipflash_settings)
set_target_properties(
  hipflash-measure PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/libexec/hipflash")

# The command is split so that its tests and fuzzers can link everything but main().
file(GLOB HIPFLASH_CLI_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.cpp")
list(FILTER HIPFLASH_CLI_SOURCES EXCLUDE REGEX "/main\\.cpp$")
if(HIPFLASH_BUILD_COMMAND AND HIPFLASH_CLI_SOURCES)
  hipflash_header_library(CLI11 CLI/CLI.hpp libcli11-dev)
  add_library(hipflash_cli STATIC ${HIPFLASH_CLI_SOURCES})
  # Nothing here is hot, and optimizing JSON takes longer than all else.
  target_compile_options(hipflash_cli PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
  target_link_libraries(
    hipflash_cli
    PUBLIC hipflash_internal hipflash_CLI11
    PRIVATE hipflash_settings)
  hipflash_precompile(hipflash_cli <nlohmann/json.hpp>)
  if(EXISTS "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
    add_executable(hipflash_command "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
    set_target_properties(hipflash_command PROPERTIES OUTPUT_NAME hipflash)
    target_link_libraries(hipflash_command PRIVATE hipflash_cli hipflash_settings)
    if(TARGET hipflash-compile)
      add_dependencies(hipflash_command hipflash-compile)
    endif()
    add_dependencies(hipflash_command hipflash-measure)
  endif()
endif()

# General kernels of the CPU families, for every instruction set and dtype: they serve machines
# without a compiler.
set(HIPFLASH_PREBUILT_DIR "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/hipflash/prebuilt")
if(HIPFLASH_GENERAL_KERNELS AND TARGET hipflash_command AND NOT CMAKE_CROSSCOMPILING)
  file(GLOB_RECURSE HIPFLASH_KERNEL_TEXT CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernel_sources/common/*"
       "${PROJECT_SOURCE_DIR}/kernel_sources/cpu/*")
  set(HIPFLASH_PREBUILT_STAMP "${PROJECT_BINARY_DIR}/prebuilt.stamp")
  add_custom_command(
    OUTPUT "${HIPFLASH_PREBUILT_STAMP}"
    COMMAND ${CMAKE_COMMAND} -E rm -rf "${HIPFLASH_PREBUILT_DIR}"
    COMMAND ${CMAKE_COMMAND} -E env HIPFLASH_COMPILE_TIMEOUT=1200 "HIPFLASH_CXX=${CMAKE_CXX_COMPILER}"
            $<TARGET_FILE:hipflash_command> compile --general --output "${HIPFLASH_PREBUILT_DIR}"
    COMMAND ${CMAKE_COMMAND} -E touch "${HIPFLASH_PREBUILT_STAMP}"
    DEPENDS hipflash_command ${HIPFLASH_KERNEL_TEXT}
    COMMENT "Compiling the general CPU kernels"
    VERBATIM)
  add_custom_target(hipflash_general_kernels ALL DEPENDS "${HIPFLASH_PREBUILT_STAMP}")
endif()
