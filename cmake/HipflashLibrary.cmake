# libhipflash, shared or static, from one list of sources.
#
# `hipflash_objects` is compiled once. `hipflash` is what users link. `hipflash_internal` is the same
# objects as an archive, for programs that look behind the public headers: the command, the compile
# helper and the tests.

include(EmbedKernelSources OPTIONAL)
include(EmbedTunedResults)

file(
  GLOB_RECURSE HIPFLASH_SOURCES CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/core/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/api/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/plan/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/jit/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/platform/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/verify/*.cpp"
  "${PROJECT_SOURCE_DIR}/cache/*.cpp"
  "${PROJECT_SOURCE_DIR}/autotune/*.cpp")
list(FILTER HIPFLASH_SOURCES EXCLUDE REGEX "_main\\.cpp$")  # programs, not library

add_library(hipflash_objects OBJECT ${HIPFLASH_SOURCES} ${HIPFLASH_EMBEDDED_SOURCES} ${HIPFLASH_EMBEDDED_RESULTS})
target_include_directories(
  hipflash_objects
  PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}")
# The headers that kernels and plans share are written for kernel compilers, with their own habits.
target_include_directories(hipflash_objects SYSTEM PUBLIC "${PROJECT_SOURCE_DIR}/kernel_sources")
target_compile_definitions(
  hipflash_objects
  PUBLIC HIPFLASH_VERSION="${PROJECT_VERSION}"
  PRIVATE HIPFLASH_BUILD_CXX="${CMAKE_CXX_COMPILER}")
set_source_files_properties(
  "${PROJECT_SOURCE_DIR}/src/jit/installation.cpp"
  PROPERTIES COMPILE_DEFINITIONS "HIPFLASH_INSTALL_LIBDIR=\"${CMAKE_INSTALL_LIBDIR}\"")
if(NOT BUILD_SHARED_LIBS)
  target_compile_definitions(hipflash_objects PUBLIC HIPFLASH_STATIC)
endif()
target_link_libraries(
  hipflash_objects
  PUBLIC hipflash_spdlog nlohmann_json::nlohmann_json hipflash_sodium hipflash_zstd Threads::Threads
         ${CMAKE_DL_LIBS}
  PRIVATE hipflash_settings)

# What is not on the way of a warm call is built for size: it is most of the library.
target_compile_options(hipflash_objects PRIVATE "$<$<CONFIG:Release>:-O2;-ffunction-sections;-fdata-sections>")
set(HIPFLASH_COLD_SOURCES ${HIPFLASH_SOURCES})
list(FILTER HIPFLASH_COLD_SOURCES INCLUDE REGEX "/(autotune|cache|src/jit|src/api/[a-z_]*(pack|workload|inspect|problem_json|prebuilt|record)[a-z_]*)")
set_source_files_properties(${HIPFLASH_COLD_SOURCES} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")

add_library(hipflash $<TARGET_OBJECTS:hipflash_objects>)
add_library(hipflash::hipflash ALIAS hipflash)
target_compile_features(hipflash INTERFACE cxx_std_17)
target_include_directories(
  hipflash INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                     "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_target_properties(hipflash PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
if(BUILD_SHARED_LIBS)
  target_link_libraries(
    hipflash PRIVATE hipflash_settings hipflash_sodium hipflash_zstd Threads::Threads ${CMAKE_DL_LIBS})
  # The archives become part of the library: their symbols are neither exported nor replaceable, which
  # also is what makes archives without PIC linkable.
  target_link_options(
    hipflash PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions -Wl,--gc-sections
    "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/hipflash.map")
  set_property(TARGET hipflash APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/hipflash.map")
  if(NOT HIPFLASH_SANITIZE)
    target_link_options(hipflash PRIVATE -Wl,--no-undefined)
  endif()
else()
  target_compile_definitions(hipflash INTERFACE HIPFLASH_STATIC)
  target_link_libraries(
    hipflash INTERFACE "$<BUILD_INTERFACE:hipflash_sodium;hipflash_zstd>" Threads::Threads ${CMAKE_DL_LIBS}
                       "$<INSTALL_INTERFACE:hipflash::sodium;hipflash::zstd>")
endif()

add_library(hipflash_internal STATIC $<TARGET_OBJECTS:hipflash_objects>)
target_include_directories(
  hipflash_internal PUBLIC $<TARGET_PROPERTY:hipflash_objects,INTERFACE_INCLUDE_DIRECTORIES>)
target_include_directories(
  hipflash_internal SYSTEM
  PUBLIC $<TARGET_PROPERTY:hipflash_objects,INTERFACE_SYSTEM_INCLUDE_DIRECTORIES>)
target_compile_definitions(
  hipflash_internal PUBLIC $<TARGET_PROPERTY:hipflash_objects,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(
  hipflash_internal
  PUBLIC hipflash_spdlog nlohmann_json::nlohmann_json hipflash_sodium hipflash_zstd Threads::Threads
         ${CMAKE_DL_LIBS}
  PRIVATE hipflash_settings)
