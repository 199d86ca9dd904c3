# Turns every file of kernel_sources/ into text inside the library: one generated source file with a
# table from path to text. Sets HIPFLASH_EMBEDDED_SOURCES to it. Also is the script that writes it, run
# at build time whenever a kernel file changed.

if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/*.h" "${ROOT}/*.hip" "${ROOT}/*.cu" "${ROOT}/*.cpp"
       "${ROOT}/*.inc")
  list(SORT files)
  set(made "// Generated from kernel_sources/ by cmake/EmbedKernelSources.cmake.\n#include \"jit/source.h\"\n\n")
  # One literal per file, however long: every compiler that builds this project takes it.
  string(APPEND made "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n")
  string(APPEND made "namespace hipflash::jit {\nnamespace {\n\nusing namespace std::literals;\n\nconstexpr EmbeddedFile kFiles[] = {\n")
  foreach(file IN LISTS files)
    file(READ "${ROOT}/${file}" text)
    # Lines of comment are for readers of the tree; in the library they would be a sixth of the text. The
    # empty lines that stay keep the numbers that compilers name.
    string(REGEX REPLACE "(^|\n)[ \t]*//[^\n]*" "\\1" text "${text}")
    string(FIND "${text}" ")HFTEXT\"" clash)
    if(NOT clash EQUAL -1)
      message(FATAL_ERROR "kernel_sources/${file} contains the mark that ends its literal")
    endif()
    # sv knows the length: to find it would take clang more steps than it allows at compile time.
    string(APPEND made "    {\"${file}\", R\"HFTEXT(${text})HFTEXT\"sv},\n")
  endforeach()
  string(APPEND made "};\n\n}  // namespace\n\n")
  string(APPEND made "std::span<const EmbeddedFile> embedded_files() noexcept { return kFiles; }\n\n")
  string(APPEND made "}  // namespace hipflash::jit\n")
  file(WRITE "${OUTPUT}" "${made}")
  return()
endif()

set(HIPFLASH_KERNEL_ROOT "${CMAKE_CURRENT_LIST_DIR}/../kernel_sources")
set(HIPFLASH_EMBEDDED_SOURCES "${CMAKE_CURRENT_BINARY_DIR}/embedded_kernel_sources.cpp")
file(GLOB_RECURSE HIPFLASH_KERNEL_FILES CONFIGURE_DEPENDS "${HIPFLASH_KERNEL_ROOT}/*.h" "${HIPFLASH_KERNEL_ROOT}/*.hip"
     "${HIPFLASH_KERNEL_ROOT}/*.cu" "${HIPFLASH_KERNEL_ROOT}/*.cpp" "${HIPFLASH_KERNEL_ROOT}/*.inc")
add_custom_command(
  OUTPUT "${HIPFLASH_EMBEDDED_SOURCES}"
  COMMAND ${CMAKE_COMMAND} "-DROOT=${HIPFLASH_KERNEL_ROOT}" "-DOUTPUT=${HIPFLASH_EMBEDDED_SOURCES}" -P
          "${CMAKE_CURRENT_LIST_FILE}"
  DEPENDS ${HIPFLASH_KERNEL_FILES} "${CMAKE_CURRENT_LIST_FILE}"
  COMMENT "Embedding the kernel text"
  VERBATIM)
