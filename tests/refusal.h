// What a call says that refuses an argument.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "hipflash/error.h"

namespace hipflash {

// The sentence of the Error(InvalidArgument) that the call throws; empty: none.
template <class Call>
std::string refusal(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
    return error.what();
  }
  return {};
}

}  // namespace hipflash
