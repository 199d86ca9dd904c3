#include "platform/cpu/isa.h"

#include <unistd.h>

#include <cstdint>

#include "core/fail.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hipflash::platform {

namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

std::uint64_t saved_state() {  // XCR0
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

constexpr bool bit(unsigned word, int n) {
  return (word >> n) & 1u;
}

// AMD's cores multiply bf16 pairs at the rate of f32 vectors, twice the work. Intel's take several
// cycles for each: measured on a Sapphire Rapids class core, they reach half of the FMA peak.
bool fast_bf16_products() {
  const Registers vendor = cpuid(0, 0);
  return vendor.ebx == signature_AMD_ebx && vendor.edx == signature_AMD_edx &&
         vendor.ecx == signature_AMD_ecx;
}

IsaReport detect_supported() {
  IsaReport report;
  const Registers basic = cpuid(1, 0), extended = cpuid(7, 0), more = cpuid(7, 1);
  const bool osxsave = bit(basic.ecx, 27);
  const std::uint64_t state = osxsave ? saved_state() : 0;
  constexpr std::uint64_t ymm = 0x6, zmm = 0xe6;

  const bool cpu_avx2 =
      bit(extended.ebx, 5) && bit(basic.ecx, 12) /* FMA */ && bit(basic.ecx, 29) /* F16C */;
  const bool cpu_avx512 = bit(extended.ebx, 16) /* F */ && bit(extended.ebx, 17) /* DQ */ &&
                          bit(extended.ebx, 30) /* BW */ && bit(extended.ebx, 31) /* VL */;
  const bool cpu_bf16 = bit(more.eax, 5);

  if (!cpu_avx2) {
    report.notes.emplace_back("the CPU has no AVX2 with FMA and F16C: portable kernels are used");
    return report;
  }
  if ((state & ymm) != ymm) {
    report.notes.emplace_back(
        "AVX2 is off: the operating system does not save YMM registers; portable kernels are used");
    return report;
  }
  report.best = CpuIsa::avx2;
  if (!cpu_avx512) return report;
  if ((state & zmm) != zmm) {
    report.notes.emplace_back(
        "AVX-512 is off: the operating system does not save ZMM registers; AVX2 kernels are used");
    return report;
  }
  report.best = cpu_bf16 ? CpuIsa::avx512_bf16 : CpuIsa::avx512;
  if (cpu_bf16 && !fast_bf16_products()) {
    report.notes.emplace_back(
        "AVX512-BF16 products are slower than f32 ones on this CPU: bf16 tensors are computed in "
        "f32");
  }
  return report;
}

IsaReport detect() {
  IsaReport report = detect_supported();
  const bool slow_bf16 = report.best == CpuIsa::avx512_bf16 && !fast_bf16_products();
  report.fastest = slow_bf16 ? CpuIsa::avx512 : report.best;
  return report;
}

#else

IsaReport detect() {
  return {};
}

#endif

constexpr const char* machine() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#elif defined(__riscv)
  return "riscv";
#elif defined(__powerpc64__)
  return "powerpc64";
#else
  return "other";
#endif
}

}  // namespace

const IsaReport& isa_report() {
  static const IsaReport report = detect();
  return report;
}

CpuIsa choose_isa(const std::string& name, const char* asked_by) {
  if (name.empty() || name == "auto") return isa_report().fastest;
  const CpuIsa best = isa_report().best;
  for (const CpuIsa isa : {CpuIsa::portable, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_bf16}) {
    if (name != cpu_isa_facts(isa).name) continue;
    if (isa > best) {
      fail(ErrorCode::InvalidArgument, "{} = \"{}\": this CPU can use at most {}", asked_by, name,
           cpu_isa_facts(best).name);
    }
    return isa;
  }
  fail(ErrorCode::InvalidArgument,
       "{} = \"{}\" must be one of auto, avx512_bf16, avx512, avx2, portable", asked_by, name);
}

CpuIsa isa_for(CpuIsa isa, ElementType element) noexcept {
  return isa == CpuIsa::avx512_bf16 && element != ElementType::bf16 ? CpuIsa::avx512 : isa;
}

std::string arch_of(CpuIsa isa) {
  if (isa == CpuIsa::portable) return fmt::format("cpu-portable-{}", machine());
  return fmt::format("cpu-{}", cpu_isa_facts(isa).name);
}

long long last_level_cache_bytes() noexcept {
  static const long long bytes = [] {
#if defined(_SC_LEVEL3_CACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
    for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
      const long known = ::sysconf(level);
      if (known > 0) return static_cast<long long>(known);
    }
#endif
    return 32LL << 20;
  }();
  return bytes;
}

}  // namespace hipflash::platform
