# Turns the documents of autotune/tuned/ into text inside the library: one generated source file with a
# table from name to text. Sets HIPFLASH_EMBEDDED_RESULTS to it. Also is the script that writes it.

if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB files RELATIVE "${ROOT}" "${ROOT}/*.json")
  list(SORT files)
  set(made "// Generated from autotune/tuned/ by cmake/EmbedTunedResults.cmake.\n#include \"autotune/store.h\"\n\n")
  string(APPEND made "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n")
  string(APPEND made "namespace hipflash::autotune {\n\n")
  string(APPEND made "const std::vector<ShippedDocument>& shipped_documents() {\n")
  string(APPEND made "  static const std::vector<ShippedDocument> all = {\n")
  foreach(file IN LISTS files)
    file(READ "${ROOT}/${file}" text)
    string(APPEND made "      {\"${file}\", R\"HFTEXT(${text})HFTEXT\"},\n")
  endforeach()
  string(APPEND made "  };\n  return all;\n}\n\n}  // namespace hipflash::autotune\n")
  file(WRITE "${OUTPUT}" "${made}")
  return()
endif()

set(HIPFLASH_TUNED_ROOT "${CMAKE_CURRENT_LIST_DIR}/../autotune/tuned")
set(HIPFLASH_EMBEDDED_RESULTS "${CMAKE_CURRENT_BINARY_DIR}/embedded_tuned_results.cpp")
file(GLOB HIPFLASH_TUNED_FILES CONFIGURE_DEPENDS "${HIPFLASH_TUNED_ROOT}/*.json")
add_custom_command(
  OUTPUT "${HIPFLASH_EMBEDDED_RESULTS}"
  COMMAND ${CMAKE_COMMAND} "-DROOT=${HIPFLASH_TUNED_ROOT}" "-DOUTPUT=${HIPFLASH_EMBEDDED_RESULTS}" -P
          "${CMAKE_CURRENT_LIST_FILE}"
  DEPENDS ${HIPFLASH_TUNED_FILES} "${CMAKE_CURRENT_LIST_FILE}"
  COMMENT "Embedding the tuned results"
  VERBATIM)
