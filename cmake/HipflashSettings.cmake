# How everything is compiled: the language, warnings, sanitizers. `hipflash_settings` carries it to
# the project's own targets only; users of the library get none of it.

set(HIPFLASH_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
option(HIPFLASH_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" ${PROJECT_IS_TOP_LEVEL})

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

add_library(hipflash_settings INTERFACE)
target_compile_features(hipflash_settings INTERFACE cxx_std_20)
target_compile_options(
  hipflash_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wimplicit-fallthrough
                              $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees uninitialized values in optionals that hold none.
  target_compile_options(hipflash_settings INTERFACE -Wno-maybe-uninitialized)
endif()
target_compile_options(hipflash_settings INTERFACE $<$<BOOL:${HIPFLASH_WARNINGS_AS_ERRORS}>:-Werror>)

if(HIPFLASH_SANITIZE)
  target_compile_options(hipflash_settings INTERFACE -fsanitize=${HIPFLASH_SANITIZE} -fno-sanitize-recover=all
                                                     -fno-omit-frame-pointer)
  target_link_options(hipflash_settings INTERFACE -fsanitize=${HIPFLASH_SANITIZE})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# What most files of a target include is parsed once. Compiler caches keep nothing that is compiled so, unless
# they are told how, and the linter has no use for it: they do without (see CMakePresets.json), which also
# shows what a file forgot to include.
if(CMAKE_CXX_COMPILER_LAUNCHER OR CMAKE_CXX_COMPILER MATCHES "cache")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON CACHE BOOL "Do without precompiled headers")
endif()
# hipflash_precompile(TARGET [HEADER...]): the headers are those beyond the ones that all have in common.
function(hipflash_precompile target)
  target_precompile_headers(
    ${target}
    PRIVATE
    <algorithm>
    <filesystem>
    <functional>
    <map>
    <memory>
    <mutex>
    <optional>
    <string>
    <unordered_map>
    <vector>
    "${PROJECT_SOURCE_DIR}/src/core/format.h"
    ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    # GCC takes what it inlines from a precompiled system header for code of ours, and warns of both rightly
    # and wrongly (std::string of GCC 12).
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
                                             -Wno-stringop-overread)
  endif()
endfunction()
