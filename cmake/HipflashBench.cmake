# Every .cpp of bench/ but peak.cpp is one Google Benchmark program of the same name, in <build>/bench.

find_package(benchmark REQUIRED)
add_library(hipflash_bench_support STATIC "${PROJECT_SOURCE_DIR}/bench/peak.cpp")
target_link_libraries(hipflash_bench_support PUBLIC hipflash_internal PRIVATE hipflash_settings)

file(GLOB HIPFLASH_BENCH_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
list(REMOVE_ITEM HIPFLASH_BENCH_SOURCES "${PROJECT_SOURCE_DIR}/bench/peak.cpp")
foreach(source ${HIPFLASH_BENCH_SOURCES})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(bench_${name} "${source}")
  target_link_libraries(bench_${name} PRIVATE hipflash_bench_support hipflash_settings
                                              benchmark::benchmark)
  set_target_properties(
    bench_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endforeach()

# The CPU kernels' text alone, without the library.
add_executable(bench_cpu_kernels "${PROJECT_SOURCE_DIR}/bench/cpu_kernels/bench_kernels.cpp")
target_include_directories(bench_cpu_kernels PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/kernel_sources")
target_compile_definitions(bench_cpu_kernels
                           PRIVATE HIPFLASH_KERNEL_SOURCES="${PROJECT_SOURCE_DIR}/kernel_sources")
target_link_libraries(bench_cpu_kernels PRIVATE hipflash_bench_support hipflash_settings ${CMAKE_DL_LIBS})
set_target_properties(bench_cpu_kernels PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench/kernels")
