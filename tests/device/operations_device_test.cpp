#include "numerics/operations.h"

namespace hipflash::testing {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SmallOperations);
INSTANTIATE_TEST_SUITE_P(Gpu, SmallOperations, ::testing::ValuesIn(target_names()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FullOperations);
INSTANTIATE_TEST_SUITE_P(Gpu, FullOperations, ::testing::ValuesIn(target_names()));

}  // namespace hipflash::testing
