# Every .cpp of tests/fuzz/ is one libFuzzer program of the same name, in <build>/fuzz. A folder
# tests/fuzz/<name>.corpus/ holds its seeds.

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "The fuzzers need clang: use the preset fuzz")
endif()
file(GLOB HIPFLASH_FUZZ_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*.cpp")
foreach(source ${HIPFLASH_FUZZ_SOURCES})
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" name "${name}")
  add_executable(fuzz_${name} "${source}")
  target_include_directories(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(fuzz_${name} PRIVATE hipflash_internal hipflash_settings)
  if(TARGET hipflash_cli)
    target_link_libraries(fuzz_${name} PRIVATE hipflash_cli)
  endif()
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(
    fuzz_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
endforeach()
