// Attention on an AMD GPU, in memory and on a stream of the caller's, checked against a plain
// computation. Two sequences of 40 positions, 4 query heads that share 2 heads of keys and values,
// head dimension 64, bf16, causal.
//
// A program that is built with HIP calls hipMalloc and the others by their names. This one looks
// for them when it runs, so that it can be built without HIP; where there is no AMD GPU it says so
// and ends with the code 77, by which test runners know a test that did not apply.
#include <dlfcn.h>
#include <hipflash/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using hipflash::DType;
using hipflash::Tensor;

constexpr std::size_t kBatch = 2, kSeq = 40, kHeads = 4, kHeadsKv = 2, kDim = 64;

std::uint16_t to_bf16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);  // nearest, even
}
float from_bf16(std::uint16_t x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// What the example needs of the HIP runtime.
class Hip {
 public:
  Hip() {
    for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) {
      if (!library_) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library_) throw std::runtime_error("the HIP runtime is not installed");
    find("hipMalloc", malloc_);
    find("hipFree", free_);
    find("hipMemcpy", copy_);
    find("hipStreamCreate", create_stream_);
    find("hipStreamSynchronize", synchronize_);
    find("hipStreamDestroy", destroy_stream_);
  }

  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    check("hipMalloc", malloc_(&memory, bytes));
    return memory;
  }
  void release(void* memory) { check("hipFree", free_(memory)); }
  void upload(void* to, const std::vector<std::uint16_t>& from) {
    check("hipMemcpy", copy_(to, from.data(), from.size() * sizeof from[0], /*to device*/ 1));
  }
  void download(std::vector<std::uint16_t>& to, const void* from) {
    check("hipMemcpy", copy_(to.data(), from, to.size() * sizeof to[0], /*to host*/ 2));
  }
  hipflash::Stream create_stream() {
    hipflash::Stream stream;
    check("hipStreamCreate", create_stream_(&stream.handle));
    return stream;
  }
  void synchronize(hipflash::Stream stream) {
    check("hipStreamSynchronize", synchronize_(stream.handle));
  }
  void destroy(hipflash::Stream stream) {
    check("hipStreamDestroy", destroy_stream_(stream.handle));
  }

 private:
  template <class Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (!function) throw std::runtime_error(std::string("the HIP runtime has no ") + name);
  }
  static void check(const char* name, int error) {
    if (error != 0) throw std::runtime_error(std::string(name) + ": " + std::to_string(error));
  }

  void* library_ = nullptr;  // stays loaded: the library uses it too
  int (*malloc_)(void**, std::size_t) = nullptr;
  int (*free_)(void*) = nullptr;
  int (*copy_)(void*, const void*, std::size_t, int) = nullptr;
  int (*create_stream_)(void**) = nullptr;
  int (*synchronize_)(void*) = nullptr;
  int (*destroy_stream_)(void*) = nullptr;
};

// Rows of (batch, position, head, dim).
struct Rows {
  std::size_t heads;
  std::vector<std::uint16_t> data;

  explicit Rows(std::size_t head_count)
      : heads(head_count), data(kBatch * kSeq * head_count * kDim) {}
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::uint16_t& x : data) x = to_bf16(normal(random));
  }
  double at(std::size_t batch, std::size_t position, std::size_t head, std::size_t dim) const {
    return static_cast<double>(
        from_bf16(data[((batch * kSeq + position) * heads + head) * kDim + dim]));
  }
};

// softmax(q k / sqrt(d)) v of one query, in double.
std::vector<double> plain_row(const Rows& q, const Rows& k, const Rows& v, std::size_t batch,
                              std::size_t query, std::size_t head) {
  const std::size_t head_kv = head / (kHeads / kHeadsKv);
  std::vector<double> scores(query + 1, 0.0), row(kDim, 0.0);  // causal
  for (std::size_t key = 0; key <= query; ++key) {
    for (std::size_t d = 0; d < kDim; ++d) {
      scores[key] += q.at(batch, query, head, d) * k.at(batch, key, head_kv, d);
    }
    scores[key] /= std::sqrt(static_cast<double>(kDim));
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - most);
  for (std::size_t key = 0; key <= query; ++key) {
    for (std::size_t d = 0; d < kDim; ++d) {
      row[d] += scores[key] / sum * v.at(batch, key, head_kv, d);
    }
  }
  return row;
}

double largest_error(const Rows& q, const Rows& k, const Rows& v, const Rows& out) {
  double largest = 0;
  for (std::size_t batch = 0; batch < kBatch; ++batch) {
    for (std::size_t query = 0; query < kSeq; ++query) {
      for (std::size_t head = 0; head < kHeads; ++head) {
        const std::vector<double> row = plain_row(q, k, v, batch, query, head);
        for (std::size_t d = 0; d < kDim; ++d) {
          const double error = std::abs(out.at(batch, query, head, d) - row[d]);
          if (!std::isfinite(error)) return INFINITY;
          largest = std::max(largest, error);
        }
      }
    }
  }
  return largest;
}

int run() {
  hipflash::Context ctx(hipflash::parse_device("hip:0"));  // throws where there is no AMD GPU
  Hip hip;
  Rows q(kHeads), k(kHeadsKv), v(kHeadsKv), out(kHeads);
  q.fill(1), k.fill(2), v.fill(3);

  std::vector<void*> memory;
  const auto on_device = [&](const Rows& rows) {
    memory.push_back(hip.allocate(rows.data.size() * sizeof rows.data[0]));
    hip.upload(memory.back(), rows.data);
    return Tensor::bshd(memory.back(), DType::bf16, kBatch, kSeq,
                        static_cast<std::int64_t>(rows.heads), kDim);
  };
  const Tensor q_view = on_device(q), k_view = on_device(k), v_view = on_device(v),
               out_view = on_device(out);
  const hipflash::Stream stream = hip.create_stream();
  hipflash::AttentionOptions options;
  options.causal = true;
  hipflash::attention_forward(ctx, q_view, k_view, v_view, out_view, options, stream);
  hip.synchronize(stream);
  hip.download(out.data, out_view.data);
  hip.destroy(stream);
  for (void* block : memory) hip.release(block);

  const double error = largest_error(q, k, v, out);
  std::printf("%s: largest error %.4f of outputs rounded to bf16\n", ctx.device().name.c_str(),
              error);
  return error < 0.02 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const hipflash::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == hipflash::ErrorCode::NoDevice ? 77 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
