// What runs kernels on the host: who runs when, what is handed over, and what is found out.
#include "gpu/host_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/host_lanes.h"

namespace {

using host_lanes::Order;

// What running `lane` throws.
std::string fault_of(int threads, int wave, const std::function<void()>& lane) {
  try {
    host_lanes::run_block(3, threads, Order::forward, lane, wave);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(HostBlock, ThreadsRunInOneOrderOrTheOtherAndWarpsAloneUpToBarriers) {
  const auto order_of = [](Order order) {
    std::vector<int> seen;
    host_lanes::run_block(
        0, 4, order,
        [&] {
          for (const int meeting : {0, 10}) {
            seen.push_back(meeting + host_lanes::thread_id());
            host_lanes::exchange("", 1);
          }
          host_lanes::barrier();
          seen.push_back(20 + host_lanes::thread_id());
        },
        2);
    return seen;
  };
  using List = std::vector<int>;
  const List forward = order_of(Order::forward), backward = order_of(Order::backward);
  EXPECT_EQ(List(forward.begin(), forward.begin() + 8), (List{0, 1, 10, 11, 2, 3, 12, 13}));
  EXPECT_EQ(List(backward.begin(), backward.begin() + 8), (List{3, 2, 13, 12, 1, 0, 11, 10}));
}

TEST(HostBlock, ExchangesHandOverWhatEachThreadBrought) {
  for (const Order order : {Order::forward, Order::backward}) {
    host_lanes::run_block(5, 192, order, [] {
      EXPECT_EQ(host_lanes::block_id(), 5);
      struct Brought {
        int thread, round, more[30];
      } mine = {};
      static_assert(sizeof(mine) == host_block::kLargestExchange);
      for (int round = 0; round < 5; round++) {
        mine.thread = host_lanes::thread_id();
        mine.round = round;
        const char* const all = host_lanes::exchange(&mine, sizeof(mine));
        for (int lane = 0; lane < 64; lane++) {
          Brought theirs;
          std::memcpy(&theirs, all + lane * static_cast<int>(sizeof(theirs)), sizeof(theirs));
          ASSERT_EQ(theirs.thread, host_lanes::thread_id() / 64 * 64 + lane);
          ASSERT_EQ(theirs.round, round);
        }
      }
    });
  }
}

TEST(HostBlock, BlocksShareNothing) {
  for (int block = 0; block < 2; block++) {
    host_lanes::run_block(block, 64, Order::forward, [] {
      char* const shared = host_lanes::shared_memory(64);
      EXPECT_EQ(shared[host_lanes::thread_id()], '\xff');
      shared[host_lanes::thread_id()] = 1;
    });
  }
}

TEST(HostBlock, ThreadsThatMeetInDifferentPlaces) {
  const std::string differ = "block 3: threads wait for each other in different places";
  EXPECT_EQ(fault_of(128, 64,
                     [] {
                       if (host_lanes::thread_id() != 70) host_lanes::barrier();
                     }),
            differ);
  EXPECT_EQ(fault_of(32, 32,
                     [] {
                       if (host_lanes::thread_id() != 7) host_lanes::exchange("", 1);
                     }),
            differ);
  EXPECT_EQ(fault_of(64, 64,
                     [] {
                       if (host_lanes::thread_id() < 9) host_lanes::barrier();
                       host_lanes::exchange("", 1);
                     }),
            differ);
}

TEST(HostBlock, WhoPassesABarrierCountsAndGoesOn) {
  std::vector<int> seen;
  EXPECT_EQ(fault_of(64, 32,
                     [&] {
                       if (host_lanes::thread_id() < 32) {
                         host_block::barrier(2, 64);
                       } else {
                         host_block::pass(2, 64);
                       }
                       seen.push_back(host_lanes::thread_id());
                     }),
            "");
  EXPECT_EQ(seen.size(), 64u);
  EXPECT_EQ(seen.front(), 32);
}

TEST(HostBlock, WhoSleepsGoesOnWhenWoken) {
  const int here = 0, there = 0;
  std::vector<int> seen;
  EXPECT_EQ(fault_of(32, 32,
                     [&] {
                       if (host_lanes::thread_id() == 3) host_block::sleep(&here);
                       if (host_lanes::thread_id() == 9) host_block::wake(&here);
                       seen.push_back(host_lanes::thread_id());
                     }),
            "");
  EXPECT_EQ(seen.size(), 32u);
  EXPECT_EQ(seen.back(), 3);
  EXPECT_EQ(fault_of(32, 32,
                     [&] {
                       if (host_lanes::thread_id() == 3) host_block::sleep(&here);
                       if (host_lanes::thread_id() == 9) host_block::wake(&there);
                     }),
            "block 3: threads wait for each other in different places");
}

TEST(HostBlock, LanesOfAWaveInDifferentOperations) {
  EXPECT_EQ(
      fault_of(64, 64,
               [] { host_lanes::exchange("abcdefgh", host_lanes::thread_id() == 20 ? 8 : 4); }),
      "block 3, thread 20: threads of a warp meet in different operations");
}

TEST(HostBlock, AnExchangeThatIsTooLarge) {
  const std::vector<char> large(host_block::kLargestExchange + 1);
  EXPECT_EQ(
      fault_of(64, 64, [&] { host_lanes::exchange(large.data(), static_cast<int>(large.size())); }),
      "block 3, thread 0: an exchange between threads of a warp is too large");
}

// What a block that did not end leaves behind is nobody's.
TEST(HostBlock, TheNextBlockIsWhole) {
  EXPECT_NE(fault_of(128, 64,
                     [] {
                       if (host_lanes::thread_id() < 64) host_lanes::barrier();
                     }),
            "");
  EXPECT_EQ(fault_of(128, 64, [] { throw std::runtime_error("as the kernel says"); }),
            "as the kernel says");
  for (int i = 0; i < 2; i++) {
    int ended = 0;
    EXPECT_EQ(fault_of(128, 64,
                       [&] {
                         host_lanes::barrier();
                         ended++;
                       }),
              "");
    EXPECT_EQ(ended, 128);
  }
}

}  // namespace
