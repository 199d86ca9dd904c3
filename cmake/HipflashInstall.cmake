# What is installed: headers, library, programs, general kernels, CMake package, pkg-config file.

include(CMakePackageConfigHelpers)
set(HIPFLASH_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/hipflash")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/hipflash" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS hipflash EXPORT hipflashTargets)
if(TARGET hipflash_command)
  install(TARGETS hipflash_command)
endif()
if(TARGET hipflash-compile)
  install(TARGETS hipflash-compile DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/hipflash")
endif()
install(TARGETS hipflash-measure DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/hipflash")
if(TARGET hipflash_general_kernels)
  install(
    DIRECTORY "${HIPFLASH_PREBUILT_DIR}"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/hipflash"
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
    DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE
    FILES_MATCHING
    PATTERN "*.hfentry"
    PATTERN "locks" EXCLUDE)
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(
  EXPORT hipflashTargets
  NAMESPACE hipflash::
  DESTINATION "${HIPFLASH_CMAKE_DIR}")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/hipflashConfig.cmake.in" "${PROJECT_BINARY_DIR}/hipflashConfig.cmake"
  INSTALL_DESTINATION "${HIPFLASH_CMAKE_DIR}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/hipflashConfigVersion.cmake"
  VERSION ${PROJECT_VERSION}
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/hipflashConfig.cmake" "${PROJECT_BINARY_DIR}/hipflashConfigVersion.cmake"
        DESTINATION "${HIPFLASH_CMAKE_DIR}")

# pkg-config derives the prefix from where the file lies, so the tree can be moved.
file(RELATIVE_PATH HIPFLASH_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
if(BUILD_SHARED_LIBS)
  set(HIPFLASH_PC_CFLAGS "")
  set(HIPFLASH_PC_LIBS "")
  set(HIPFLASH_PC_REQUIRES "")
else()
  set(HIPFLASH_PC_CFLAGS " -DHIPFLASH_STATIC")
  set(HIPFLASH_PC_LIBS " -lstdc++ -lm -pthread -ldl")
  set(HIPFLASH_PC_REQUIRES "libsodium libzstd")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/hipflash.pc.in" "${PROJECT_BINARY_DIR}/hipflash.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/hipflash.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
