# library_program opens it by its file.
if(BUILD_SHARED_LIBS)
  add_dependencies(hipflash_jit_tests hipflash)
endif()
