#include "platform/cpu/cpu_device.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "core/fail.h"
#include "platform/cpu/isa.h"
#include "platform/cpu/ragged_call.h"

namespace hipflash::platform {
namespace {

// A thread's working memory: grows to what its largest problem needed and is freed with the thread.
class Scratch {
 public:
  void* reserve(std::size_t bytes) noexcept {
    if (bytes > size_) {
      const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
      memory_.reset(std::aligned_alloc(4096, rounded));
      size_ = memory_ ? rounded : 0;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t size_ = 0;
};

thread_local Scratch thread_scratch;   // of whoever computes items
thread_local Scratch thread_partials;  // of whoever calls run()

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "CPU";
}

DeviceFacts cpu_facts(int threads, CpuIsa isa) {
  DeviceFacts facts;
  facts.kind = Kind::cpu;
  facts.name = cpu_name();
  facts.arch = arch_of(isa);
  facts.compute_units = threads > 0 ? threads : available_cpus();
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    facts.memory_bytes = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
  }
  facts.notes = isa_report().notes;
  return facts;
}

}  // namespace

CpuDevice::CpuDevice(int threads, CpuIsa isa)
    : isa_(isa),
      facts_(cpu_facts(threads, isa_)),
      pool_(std::make_shared<jit::ForkLocal<ThreadPool>>(
          [n = facts_.compute_units] { return std::make_unique<ThreadPool>(n); })) {}

std::shared_ptr<Module> CpuDevice::load(const jit::CodeObject& code) {
  return std::make_shared<CpuModule>(code.bytes);
}

namespace {

struct Call {
  CpuModule::Entry entry;
  const AttentionArgs* args;
  const CpuWork* work;
  std::atomic<bool> out_of_memory{false};
};

void run_item(void* context, std::int64_t item) {
  auto& call = *static_cast<Call*>(context);
  void* const scratch = thread_scratch.reserve(static_cast<std::size_t>(call.work->scratch_bytes));
  if (!scratch) {
    call.out_of_memory.store(true, std::memory_order_relaxed);
    return;
  }
  call.entry(call.args, call.work, item, scratch);
}

// Runs all items of a call, and of its merge, on the library's threads; returns when done.
class CpuRunner final : public Runner {
 public:
  CpuRunner(std::shared_ptr<const CpuModule> module,
            std::shared_ptr<jit::ForkLocal<ThreadPool>> pool, const CpuLaunch& launch)
      : module_(std::move(module)),
        pool_(std::move(pool)),
        launch_(launch),
        forward_(module_->entry<CpuModule::Entry>("attention_forward")),
        merge_(module_->entry<CpuModule::Entry>("attention_merge")) {}

  void run(AttentionArgs&& args, Stream) const override {
    CpuWork work = launch_.work;
    std::size_t partials = launch_.partial_bytes;
    if (launch_.ragged) {
      work = cut_ragged_call(args, launch_);
      partials = partial_bytes(args);
    }
    if (partials > 0) {
      auto* const memory = static_cast<float*>(thread_partials.reserve(partials));
      if (!memory) {
        fail(ErrorCode::OutOfMemory, "{} bytes for the partial results of {} key splits", partials,
             args.splits);
      }
      place_partials(args, memory);
    }
    run_all(forward_, args, work, work.items);
    if (work.merge_items > 0) run_all(merge_, args, work, work.merge_items);
  }

 private:
  void run_all(CpuModule::Entry entry, const AttentionArgs& args, const CpuWork& work,
               std::int64_t items) const {
    Call call{entry, &args, &work};
    if (items == 1) {
      run_item(&call, 0);
    } else {
      (*pool_)->run(items, run_item, &call);
    }
    if (call.out_of_memory) {
      fail(ErrorCode::OutOfMemory, "{} bytes of scratch for a thread", work.scratch_bytes);
    }
  }

  std::shared_ptr<const CpuModule> module_;
  std::shared_ptr<jit::ForkLocal<ThreadPool>> pool_;
  CpuLaunch launch_;
  CpuModule::Entry forward_, merge_;
};

class CpuOperation final : public Operation {
 public:
  CpuOperation(std::shared_ptr<const CpuModule> module,
               std::shared_ptr<jit::ForkLocal<ThreadPool>> pool, const OperationLaunch& launch)
      : module_(std::move(module)),
        pool_(std::move(pool)),
        items_(launch.items),
        entry_(module_->entry<CpuModule::OperationEntry>(launch.entry)) {}

  void run(const void* arguments, std::span<const NamedPointer>, Stream) const override {
    if (items_ == 1) {
      entry_(arguments, 0);
      return;
    }
    struct Entry {
      CpuModule::OperationEntry entry;
      const void* arguments;
    } call{entry_, arguments};
    (*pool_)->run(
        items_,
        [](void* context, std::int64_t item) {
          const Entry& c = *static_cast<const Entry*>(context);
          c.entry(c.arguments, item);
        },
        &call);
  }

 private:
  std::shared_ptr<const CpuModule> module_;
  std::shared_ptr<jit::ForkLocal<ThreadPool>> pool_;
  std::int64_t items_;
  CpuModule::OperationEntry entry_;
};

}  // namespace

std::unique_ptr<Runner> CpuDevice::prepare(std::shared_ptr<Module> module, const Launch& launch) {
  return std::make_unique<CpuRunner>(std::static_pointer_cast<const CpuModule>(module), pool_,
                                     std::get<CpuLaunch>(launch));
}

std::unique_ptr<Operation> CpuDevice::prepare_operation(std::shared_ptr<Module> module,
                                                        const OperationLaunch& launch) {
  return std::make_unique<CpuOperation>(std::static_pointer_cast<const CpuModule>(module), pool_,
                                        launch);
}

}  // namespace hipflash::platform
