#include "bench/peak.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hipflash::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// One cache line; `to` is at the start of one.
void write_past_caches(float* to, const float (&line)[16]) {
#if defined(__x86_64__)
  for (int i = 0; i < 16; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(line + i));
#else
  std::copy(line, line + 16, to);
#endif
}

#if defined(__x86_64__)

constexpr int kChains = 12;  // covers latency times throughput of every core so far
constexpr long long kSteps = 150'000;

double rate(double flops_per_step, double start) {
  return static_cast<double>(kSteps) * kChains * flops_per_step / (thread_seconds() - start) * 1e-9;
}

__attribute__((target("avx512f"))) double peak_avx512() {
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(1.0f + static_cast<float>(i));
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
  const double start = thread_seconds();
  for (long long n = 0; n < kSteps; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_fmadd_ps(sum[i], x, y);
  }
  for (auto& s : sum) asm volatile("" ::"v"(s));
  return rate(32, start);
}

__attribute__((target("avx512f,avx512bf16"))) double peak_avx512_bf16() {
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(1.0f + static_cast<float>(i));
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  const double start = thread_seconds();
  for (long long n = 0; n < kSteps; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], x, x);
  }
  for (auto& s : sum) asm volatile("" ::"v"(s));
  return rate(64, start);
}

__attribute__((target("avx2,fma"))) double peak_avx2() {
  __m256 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_ps(1.0f + static_cast<float>(i));
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
  const double start = thread_seconds();
  for (long long n = 0; n < kSteps; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], x, y);
  }
  for (auto& s : sum) asm volatile("" ::"x"(s));
  return rate(16, start);
}

#endif

}  // namespace

double thread_seconds() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}
double wall_seconds() {
  return seconds_of(CLOCK_MONOTONIC);
}

double peak_gflops(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "avx512_bf16") return peak_avx512_bf16();
  if (isa == "avx512") return peak_avx512();
  if (isa == "avx2") return peak_avx2();
#endif
  (void)isa;
  return 0.0;
}

double read_gigabytes_per_second(std::span<const float> buffer) {
  // Several streams at once, which a core reads faster than one.
  constexpr std::size_t kStreams = 4, kPiece = 16;
  const std::size_t each = buffer.size() / kStreams / kPiece * kPiece;
  const double start = thread_seconds();
  float sums[kStreams * kPiece] = {};
  for (std::size_t i = 0; i < each; i += kPiece) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      for (std::size_t j = 0; j < kPiece; ++j) {
        sums[stream * kPiece + j] += buffer[stream * each + i + j];
      }
    }
  }
  for (float& sum : sums) asm volatile("" ::"m"(sum));
  return static_cast<double>(kStreams * each * sizeof(float)) / (thread_seconds() - start) * 1e-9;
}

double read_and_write_gigabytes_per_second(std::span<float> buffer) {
  constexpr std::size_t kRead = 5, kPiece = 16;
  const std::size_t each = buffer.size() / (kRead + 1) / kPiece * kPiece;
  float* const to = buffer.data() + kRead * each;
  const double start = thread_seconds();
  for (std::size_t i = 0; i < each; i += kPiece) {
    float sums[kPiece] = {};
    for (std::size_t stream = 0; stream < kRead; ++stream) {
      for (std::size_t j = 0; j < kPiece; ++j) sums[j] += buffer[stream * each + i + j];
    }
    write_past_caches(to + i, sums);
  }
  return static_cast<double>((kRead + 1) * each * sizeof(float)) / (thread_seconds() - start) *
         1e-9;
}

double quantile(std::vector<double> samples, double share) {
  if (samples.empty()) return 0.0;
  std::sort(samples.begin(), samples.end());
  const auto last = static_cast<double>(samples.size() - 1);
  return samples[static_cast<std::size_t>(std::lround(share * last))];
}

}  // namespace hipflash::bench
