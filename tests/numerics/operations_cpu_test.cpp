#include "numerics/operations.h"

namespace hipflash::testing {

INSTANTIATE_TEST_SUITE_P(Cpu, SmallOperations, ::testing::ValuesIn(available_isas()));
INSTANTIATE_TEST_SUITE_P(Cpu, FullOperations, ::testing::ValuesIn(available_isas()));

}  // namespace hipflash::testing
