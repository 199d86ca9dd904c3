# One instruction set each, whatever the build is for; options as in kernel_sources/cpu/tiles.h.
set(kernel_options -ffp-contract=off -Wno-psabi -Wno-unused-function)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2_options -mavx2 -mfma -mf16c)
  set(avx512_options ${avx2_options} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  set_source_files_properties(
    "${PROJECT_SOURCE_DIR}/tests/numerics/kernel_math_avx2.cpp"
    PROPERTIES COMPILE_OPTIONS "${kernel_options};${avx2_options}")
  set_source_files_properties(
    "${PROJECT_SOURCE_DIR}/tests/numerics/kernel_math_avx512.cpp"
    PROPERTIES COMPILE_OPTIONS "${kernel_options};${avx512_options}")
else()
  set_source_files_properties(
    "${PROJECT_SOURCE_DIR}/tests/numerics/kernel_math_avx2.cpp"
    "${PROJECT_SOURCE_DIR}/tests/numerics/kernel_math_avx512.cpp"
    PROPERTIES HEADER_FILE_ONLY ON)
endif()
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/numerics/kernel_math_portable.cpp"
                            PROPERTIES COMPILE_OPTIONS "${kernel_options}")
