// What this machine can do, measured beside what is being judged: the multiply-add peak of an
// instruction set and the bandwidth of memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hipflash::bench {

// Seconds of CPU time of this thread: other processes that share the core do not count.
double thread_seconds();
// Seconds on the wall.
double wall_seconds();

// GFLOP/s of independent multiply-adds in registers, about 2 ms of them: f32 of the vector width,
// for "avx512_bf16" products of bf16 pairs. 0 for "portable", whose width is the compiler's choice.
double peak_gflops(const std::string& isa);

// GB/s at which one thread reads a large buffer.
double read_gigabytes_per_second(std::span<const float> buffer);
// GB/s of one thread that reads five floats of a large buffer for each that it writes into it, past
// the caches where the processor can: what attention of one query and two keys reads and writes.
double read_and_write_gigabytes_per_second(std::span<float> buffer);

// Sorts a copy. `share` 0.5 is the median.
double quantile(std::vector<double> samples, double share);

}  // namespace hipflash::bench
