// Between natural logarithms and those of base 2, in which GPUs and CPUs compute exponentials.
#pragma once

namespace hipflash {

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

}  // namespace hipflash
