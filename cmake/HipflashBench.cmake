# Every .cpp of bench/ is one Google Benchmark program of the same name, in <build>/bench.

find_package(benchmark REQUIRED)
file(GLOB HIPFLASH_BENCH_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.cpp")
foreach(source ${HIPFLASH_BENCH_SOURCES})
  get_filename_component(name "${source}" NAME_WE)
  add_executable(bench_${name} "${source}")
  target_link_libraries(bench_${name} PRIVATE hipflash_internal hipflash_settings benchmark::benchmark)
  set_target_properties(
    bench_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endforeach()
