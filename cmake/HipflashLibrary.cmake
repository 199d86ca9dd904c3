# libhipflash, shared or static, from one list of sources.
#
# `hipflash_objects` and `hipflash_cold_objects` are compiled once. `hipflash` is what users link.
# `hipflash_internal` is the same objects as an archive, for programs that look behind the public headers:
# the command, the compile helper and the tests.

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
# What is not on the way of a warm call is built for size: it is most of the library.
set(HIPFLASH_COLD_SOURCES "")
foreach(source ${HIPFLASH_SOURCES})
  file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${source}")
  if(name
     MATCHES
     "^(autotune|cache|src/jit|src/core|src/plan|src/verify/operations|src/api/(operation_kernels|verify_operation|host_copies|planning|tuning|devices|user_cache|[a-z_]*(pack|workload|inspect|problem_json|prebuilt|record)))[a-z_/]*\\.cpp$"
  )
    list(APPEND HIPFLASH_COLD_SOURCES "${source}")
  endif()
endforeach()
list(REMOVE_ITEM HIPFLASH_SOURCES ${HIPFLASH_COLD_SOURCES})

# What all of it is compiled with, and whoever includes its headers.
add_library(hipflash_headers INTERFACE)
target_include_directories(
  hipflash_headers INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}")
# The headers that kernels and plans share are written for kernel compilers, with their own habits.
target_include_directories(hipflash_headers SYSTEM INTERFACE "${PROJECT_SOURCE_DIR}/kernel_sources")
target_compile_definitions(hipflash_headers INTERFACE HIPFLASH_VERSION="${PROJECT_VERSION}")
if(NOT BUILD_SHARED_LIBS)
  target_compile_definitions(hipflash_headers INTERFACE HIPFLASH_STATIC)
endif()
target_link_libraries(
  hipflash_headers INTERFACE hipflash_spdlog nlohmann_json::nlohmann_json hipflash_sodium hipflash_zstd
                             Threads::Threads ${CMAKE_DL_LIBS})

add_library(hipflash_objects OBJECT ${HIPFLASH_SOURCES} ${HIPFLASH_EMBEDDED_SOURCES})
target_compile_options(hipflash_objects PRIVATE "$<$<CONFIG:Release>:-O2>")
add_library(hipflash_cold_objects OBJECT ${HIPFLASH_COLD_SOURCES} ${HIPFLASH_EMBEDDED_RESULTS})
target_compile_options(hipflash_cold_objects PRIVATE "$<$<CONFIG:Release>:-Os>")
foreach(objects hipflash_objects hipflash_cold_objects)
  target_compile_options(${objects} PRIVATE "$<$<CONFIG:Release>:-ffunction-sections;-fdata-sections>")
  target_compile_definitions(${objects} PRIVATE HIPFLASH_BUILD_CXX="${CMAKE_CXX_COMPILER}")
  target_link_libraries(
    ${objects}
    PUBLIC hipflash_headers
    PRIVATE hipflash_settings)
  hipflash_precompile(${objects})
endforeach()
set_source_files_properties(
  "${PROJECT_SOURCE_DIR}/src/jit/installation.cpp"
  PROPERTIES COMPILE_DEFINITIONS "HIPFLASH_INSTALL_LIBDIR=\"${CMAKE_INSTALL_LIBDIR}\"")
set_source_files_properties(
  ${HIPFLASH_EMBEDDED_SOURCES} ${HIPFLASH_EMBEDDED_RESULTS} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

add_library(hipflash $<TARGET_OBJECTS:hipflash_objects> $<TARGET_OBJECTS:hipflash_cold_objects>)
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

add_library(hipflash_internal STATIC $<TARGET_OBJECTS:hipflash_objects> $<TARGET_OBJECTS:hipflash_cold_objects>)
target_link_libraries(
  hipflash_internal
  PUBLIC hipflash_headers
  PRIVATE hipflash_settings)
