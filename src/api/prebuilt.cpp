#include "hipflash/prebuilt.h"

#include "api/check.h"
#include "api/context_impl.h"
#include "api/planning.h"
#include "core/fail.h"
#include "plan/cpu_plan.h"
#include "plan/gpu_plan.h"
#include "platform/cpu/isa.h"
#include "platform/cpu/thread_pool.h"

namespace hipflash {
namespace {

CompiledKernel compile(jit::CodeProvider& provider, const jit::Spec& spec) {
  const jit::CodeObject code = provider.get(spec);
  return {code.key, spec.family, spec.arch, spec.label, code.tier, code.compile_ms};
}

}  // namespace

std::vector<std::string> cpu_architectures() {
  std::vector<std::string> archs;
  for (const CpuIsa isa : api::cpu_isas()) archs.push_back(platform::arch_of(isa));
  return archs;
}

CompiledKernel compile_ahead(const Problem& problem, const std::string& arch,
                             const ContextOptions& options) {
  api::check_problem(problem);
  // What is shipped already is made all the same: it is asked for in the user cache.
  jit::ProviderOptions provider_options = api::provider_options(options);
  provider_options.forget_prebuilt();
  jit::CodeProvider provider(std::move(provider_options));
  if (api::is_gpu(arch)) {
    return compile(provider, plan::plan_gpu(problem, plan::facts_of_architecture(arch)).spec);
  }
  const CpuIsa isa = api::isa_of(arch);
  const auto element = static_cast<ElementType>(problem.dtype);
  if (platform::isa_for(isa, element) != isa) {
    fail(ErrorCode::InvalidArgument, "arch = \"{}\" has no kernels for {}: use \"{}\"", arch,
         to_string(problem.dtype), platform::arch_of(platform::isa_for(isa, element)));
  }
  const int threads = options.threads > 0 ? options.threads : platform::available_cpus();
  return compile(provider, plan::plan_cpu(problem, isa, threads).spec);
}

std::vector<std::string> write_general_kernels(const std::string& folder,
                                               const std::vector<std::string>& archs) {
  if (folder.empty()) fail(ErrorCode::InvalidArgument, "folder = \"\" must name a folder");
  std::vector<jit::Spec> specs;
  for (const std::string& arch : archs) {
    const CpuIsa isa = api::isa_of(arch);
    for (const ElementType element : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
      if (platform::isa_for(isa, element) == isa) {
        specs.push_back(plan::general_cpu_spec(isa, element));
      }
    }
  }
  // A folder of prebuilt files is what a user cache leaves behind.
  jit::ProviderOptions options = jit::provider_options_from_settings();
  options.cache_dir = folder;
  options.forget_prebuilt();
  options.strict = false;
  jit::CodeProvider provider(std::move(options));
  std::vector<std::shared_future<jit::CodeObject>> compiles;
  for (const jit::Spec& spec : specs) compiles.push_back(provider.get_async(spec));
  std::vector<std::string> keys;
  for (const auto& compiled : compiles) keys.push_back(compiled.get().key);
  return keys;
}

}  // namespace hipflash
