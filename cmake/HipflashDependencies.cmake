# The libraries that hipflash is made of, as targets hipflash_<name>. Headers only, or static archives
# that end inside libhipflash.so, so that a deployed library needs nothing but the C++ runtime.

include(CMakePushCheckState)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)

function(hipflash_header_library name header package)
  find_path(HIPFLASH_${name}_INCLUDE_DIR "${header}")
  mark_as_advanced(HIPFLASH_${name}_INCLUDE_DIR)
  if(NOT HIPFLASH_${name}_INCLUDE_DIR)
    message(FATAL_ERROR "${header} was not found. On Debian and Ubuntu: apt-get install ${package}, or ./dev setup")
  endif()
  add_library(hipflash_${name} INTERFACE)
  target_include_directories(hipflash_${name} SYSTEM INTERFACE "${HIPFLASH_${name}_INCLUDE_DIR}")
endfunction()

# The static archive if there is one, else the shared library.
function(hipflash_archive name header package)
  find_path(HIPFLASH_${name}_INCLUDE_DIR "${header}")
  find_library(HIPFLASH_${name}_LIBRARY NAMES "lib${name}.a" ${name})
  mark_as_advanced(HIPFLASH_${name}_INCLUDE_DIR HIPFLASH_${name}_LIBRARY)
  if(NOT HIPFLASH_${name}_INCLUDE_DIR OR NOT HIPFLASH_${name}_LIBRARY)
    message(FATAL_ERROR "lib${name} was not found. On Debian and Ubuntu: apt-get install ${package}, or ./dev setup")
  endif()
  add_library(hipflash_${name} INTERFACE)
  target_include_directories(hipflash_${name} SYSTEM INTERFACE "${HIPFLASH_${name}_INCLUDE_DIR}")
  target_link_libraries(hipflash_${name} INTERFACE "${HIPFLASH_${name}_LIBRARY}")
endfunction()

hipflash_header_library(fmt fmt/format.h libfmt-dev)
hipflash_header_library(spdlog spdlog/spdlog.h libspdlog-dev)
hipflash_archive(sodium sodium.h libsodium-dev)
hipflash_archive(zstd zstd.h libzstd-dev)

# Header-only use of fmt and of spdlog on that fmt.
target_compile_definitions(hipflash_fmt INTERFACE FMT_HEADER_ONLY=1)
target_compile_definitions(hipflash_spdlog INTERFACE SPDLOG_FMT_EXTERNAL=1)
target_link_libraries(hipflash_spdlog INTERFACE hipflash_fmt)

if(HIPFLASH_BUILD_COMMAND OR HIPFLASH_BUILD_TESTS)
  find_path(HIPFLASH_CLI11_INCLUDE_DIR CLI/CLI.hpp)
endif()
