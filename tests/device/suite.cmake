# The cases are those of the numerics tests.
set(numerics "${PROJECT_SOURCE_DIR}/tests/numerics")
target_sources(
  hipflash_device_tests
  PRIVATE "${numerics}/attention_case.cpp" "${numerics}/numbers_test.cpp" "${numerics}/ragged_case.cpp" "${numerics}/ragged_test.cpp"
          "${numerics}/ragged_full_test.cpp" "${numerics}/ragged_faults_test.cpp" "${numerics}/reruns_test.cpp" "${numerics}/append_test.cpp" "${numerics}/merge_test.cpp")
