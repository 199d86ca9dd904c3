# The hip platform over a stand-in for the runtime and its compiler, which the tests link under the
# names that the library opens.
set(stub_hip "${PROJECT_SOURCE_DIR}/tests/api/stub_hip")
function(hipflash_stub_library name version source)
  add_library(stub_${name} SHARED "${stub_hip}/${source}")
  target_compile_features(stub_${name} PRIVATE cxx_std_20)
  target_include_directories(stub_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests"
                                                  "${PROJECT_SOURCE_DIR}/kernel_sources")
  set_target_properties(
    stub_${name} PROPERTIES CXX_VISIBILITY_PRESET default OUTPUT_NAME ${name} VERSION ${version} SOVERSION ${version}
                            LIBRARY_OUTPUT_DIRECTORY "${HIPFLASH_TEST_DIR}/stub_hip")
  # Kept although the tests call nothing of the compiler: it must be in the process.
  target_link_libraries(hipflash_api_tests PRIVATE -Wl,--no-as-needed stub_${name} -Wl,--as-needed)
endfunction()
hipflash_stub_library(amdhip64 7 runtime.cpp)
hipflash_stub_library(hiprtc 7 hiprtc.cpp)
hipflash_stub_library(amd_comgr 3 comgr.cpp)
