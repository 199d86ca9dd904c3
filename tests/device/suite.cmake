# The cases are those of the numerics tests.
target_sources(hipflash_device_tests PRIVATE "${PROJECT_SOURCE_DIR}/tests/numerics/attention_case.cpp")
