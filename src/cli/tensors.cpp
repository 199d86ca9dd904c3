#include "cli/tensors.h"

#include <algorithm>
#include <cstring>

#include "core/fail.h"

namespace hipflash::cli {
namespace {

constexpr std::int64_t kMaxDim = 512;  // as attention.h has it

// The element type that an array of Q, K or V stands for.
DType dtype_of(const NpyArray& array, const std::string& wanted, const char* option) {
  const bool two_bytes = array.type == NpyType::u16 || array.type == NpyType::raw2;
  if (two_bytes && wanted == "bf16") return DType::bf16;
  if (array.type == NpyType::f32 && (wanted.empty() || wanted == "f32")) return DType::f32;
  if (array.type == NpyType::f16 && (wanted.empty() || wanted == "f16")) return DType::f16;
  if (two_bytes && wanted.empty()) {
    fail(ErrorCode::InvalidArgument, "{} is {}: say --dtype bf16 if it holds bfloat16", option,
         to_string(array.type));
  }
  fail(ErrorCode::InvalidArgument, "{} is {}, which is not {}", option, to_string(array.type),
       wanted.empty() ? "a type of attention (float32, float16, or bfloat16 as uint16)"
                      : "what --dtype " + wanted + " asks for");
}

Tensor view(const NpyArray& array, DType dtype, bool bhsd, const char* option) {
  const std::size_t rank = array.shape.size();
  if (rank != 3 && rank != 4) {
    fail(ErrorCode::InvalidArgument,
         "{} has shape {}: it must have 4 dimensions, or 3 for one sequence", option,
         array.shape_text());
  }
  const std::int64_t batch = rank == 4 ? array.shape[0] : 1;
  const std::int64_t second = array.shape[rank - 3], third = array.shape[rank - 2];
  const std::int64_t dim = array.shape[rank - 1];
  if (dim < 1 || dim > kMaxDim) {
    fail(ErrorCode::InvalidArgument, "{} has shape {}: the last dimension must be 1 to {}", option,
         array.shape_text(), kMaxDim);
  }
  return bhsd ? Tensor::bhsd(array.data.data(), dtype, batch, second, third, dim)
              : Tensor::bshd(array.data.data(), dtype, batch, second, third, dim);
}

// Strides that spread an array over (batch, heads, queries, keys) as NumPy broadcasts.
ScoreStrides broadcast(const NpyArray& array, const std::int64_t (&target)[4], const char* option) {
  std::int64_t strides[4] = {};
  const std::size_t rank = array.shape.size();
  bool fits = rank <= 4;
  std::int64_t stride = 1;
  for (std::size_t back = 1; fits && back <= rank; ++back) {
    const std::int64_t size = array.shape[rank - back];
    fits = size == target[4 - back] || size == 1;
    strides[4 - back] = size == 1 ? 0 : stride;
    stride *= size;
  }
  if (!fits) {
    fail(ErrorCode::InvalidArgument,
         "{} has shape {}: it cannot be broadcast to (batch, heads, queries, keys) = ({}, {}, {}, "
         "{})",
         option, array.shape_text(), target[0], target[1], target[2], target[3]);
  }
  return {strides[0], strides[1], strides[2], strides[3]};
}

// Whole numbers of a file with this many dimensions, as T.
template <class T>
AlignedBytes integers(const std::string& path, std::size_t rank, std::vector<std::int64_t>& shape,
                      const char* option) {
  const NpyArray array = read_npy(path);
  shape = array.shape;
  if (array.type != NpyType::i32 && array.type != NpyType::i64) {
    fail(ErrorCode::InvalidArgument, "{} is {}: it must be int32 or int64", option,
         to_string(array.type));
  }
  if (array.shape.size() != rank) {
    fail(ErrorCode::InvalidArgument, "{} has shape {}: it must have {} dimension{}", option,
         array.shape_text(), rank, rank == 1 ? "" : "s");
  }
  const auto count = static_cast<std::size_t>(array.elements());
  AlignedBytes numbers(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t number = 0;
    if (array.type == NpyType::i64) {
      std::memcpy(&number, array.data.data() + i * 8, 8);
    } else {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, array.data.data() + i * 4, 4);
      number = narrow;
    }
    const T kept = static_cast<T>(number);
    if (static_cast<std::int64_t>(kept) != number) {
      fail(ErrorCode::InvalidArgument, "{} holds {}, which is not an int32", option, number);
    }
    std::memcpy(numbers.data() + i * sizeof(T), &kept, sizeof(T));
  }
  return numbers;
}

void require_count(const char* option, std::int64_t count, std::int64_t wanted) {
  if (count != wanted) {
    fail(ErrorCode::InvalidArgument, "{} has {} elements: it must have {}", option, count, wanted);
  }
}

// The longest of packed sequences; offsets that decrease are refused later.
std::int64_t longest(const AlignedBytes& offsets) {
  const auto* const cu = reinterpret_cast<const std::int64_t*>(offsets.data());
  std::int64_t most = 1;
  for (std::size_t b = 0; (b + 2) * sizeof(std::int64_t) <= offsets.size(); ++b) {
    if (cu[b] >= 0 && cu[b + 1] > cu[b]) most = std::max(most, cu[b + 1] - cu[b]);
  }
  return most;
}

// Packed sequences, lengths and pages. Returns the number of sequences.
std::int64_t load_sequences(const RunOptions& options, CallTensors& call) {
  std::vector<std::int64_t> shape;
  std::int64_t batch = call.q.batch;
  call.options.varlen.offsets_are_64bit = true;
  if (!options.cu_q.empty()) {
    call.cu_q = integers<std::int64_t>(options.cu_q, 1, shape, "--cu-q");
    if (shape[0] < 1) fail(ErrorCode::InvalidArgument, "--cu-q has no elements: it starts with 0");
    batch = shape[0] - 1;
    call.options.varlen.batch = batch;
    call.options.varlen.cu_seqlens_q = call.cu_q.data();
    call.options.varlen.max_seq_q = longest(call.cu_q);
  }
  if (!options.cu_k.empty()) {
    call.cu_k = integers<std::int64_t>(options.cu_k, 1, shape, "--cu-k");
    require_count("--cu-k", shape[0], batch + 1);
    call.options.varlen.cu_seqlens_k = call.cu_k.data();
    call.options.varlen.max_seq_k = longest(call.cu_k);
  }
  const auto of_each = [&](const std::string& path, AlignedBytes& to, const char* option) {
    if (path.empty()) return static_cast<const std::int32_t*>(nullptr);
    to = integers<std::int32_t>(path, 1, shape, option);
    require_count(option, shape[0], batch);
    return reinterpret_cast<const std::int32_t*>(to.data());
  };
  KvCache& cache = call.options.cache;
  cache.lengths = of_each(options.kv_lengths, call.kv_lengths, "--kv-lengths");
  cache.batch_index = of_each(options.batch_index, call.batch_index, "--batch-index");
  cache.left_padding = of_each(options.left_padding, call.left_padding, "--left-padding");
  if (!options.block_table.empty()) {
    call.block_table = integers<std::int32_t>(options.block_table, 2, shape, "--block-table");
    if (shape[0] == 0) {
      fail(ErrorCode::InvalidArgument,
           "--block-table has shape (0, {}): it must have a row for each of the {} sequences",
           shape[1], batch);
    }
    call.options.paged = {reinterpret_cast<const std::int32_t*>(call.block_table.data()), shape[0],
                          shape[1], 0};
  }
  return batch;
}

Alibi alibi_of(const NpyArray& array, std::int64_t batch, std::int64_t heads) {
  if (array.type != NpyType::f32) {
    fail(ErrorCode::InvalidArgument, "--alibi is {}: slopes are float32", to_string(array.type));
  }
  const bool shared = array.shape == std::vector<std::int64_t>{heads};
  if (!shared && array.shape != std::vector<std::int64_t>{batch, heads}) {
    fail(ErrorCode::InvalidArgument, "--alibi has shape {}: it must be ({}) or ({}, {})",
         array.shape_text(), heads, batch, heads);
  }
  return {reinterpret_cast<const float*>(array.data.data()), shared ? 0 : heads, 1};
}

// The shape of a (batch, second, third, last) array, without the batch if Q had none.
std::vector<std::int64_t> like_q(const NpyArray& q, std::initializer_list<std::int64_t> shape) {
  std::vector<std::int64_t> result(shape);
  if (q.shape.size() == 3) result.erase(result.begin());
  return result;
}

std::size_t bytes_of(const std::vector<std::int64_t>& shape, std::size_t element,
                     const char* what) {
  std::uint64_t bytes = element;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes) ||
        bytes > std::uint64_t{1} << 62) {
      fail(ErrorCode::InvalidArgument, "the {} of shape ({}) is larger than any memory", what,
           fmt::join(shape, ", "));
    }
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace

CallTensors load_tensors(const RunOptions& options) {
  CallTensors call;
  call.options = options.attention.attention_options();
  call.options.batch_invariant = options.batch_invariant;
  call.q_array = read_npy(options.q);
  call.k_array = read_npy(options.k);
  call.v_array = read_npy(options.v);
  const DType dtype = dtype_of(call.q_array, options.dtype, "--q");
  call.q = view(call.q_array, dtype, options.bhsd, "--q");
  call.k = view(call.k_array, dtype_of(call.k_array, options.dtype, "--k"), options.bhsd, "--k");
  call.v = view(call.v_array, dtype_of(call.v_array, options.dtype, "--v"), options.bhsd, "--v");

  call.out_type = call.q_array.type;
  call.out_shape = options.bhsd
                       ? like_q(call.q_array, {call.q.batch, call.q.heads, call.q.seq, call.v.dim})
                       : like_q(call.q_array, {call.q.batch, call.q.seq, call.q.heads, call.v.dim});
  call.out_data = AlignedBytes(bytes_of(call.out_shape, size_of(call.out_type), "output"));
  call.out = options.bhsd ? Tensor::bhsd(call.out_data.data(), dtype, call.q.batch, call.q.heads,
                                         call.q.seq, call.v.dim)
                          : Tensor::bshd(call.out_data.data(), dtype, call.q.batch, call.q.seq,
                                         call.q.heads, call.v.dim);

  if (!options.lse.empty()) {
    call.lse_shape = like_q(call.q_array, {call.q.batch, call.q.heads, call.q.seq});
    call.lse_data = AlignedBytes(bytes_of(call.lse_shape, sizeof(float), "log-sum-exp"));
    call.options.lse.data = reinterpret_cast<float*>(call.lse_data.data());
  }
  const std::int64_t batch = load_sequences(options, call);
  const std::int64_t scores[4] = {
      batch, call.q.heads, call.cu_q.size() > 0 ? call.options.varlen.max_seq_q : call.q.seq,
      call.options.paged.block_table ? call.options.paged.columns * call.k.seq
      : call.cu_k.size() > 0         ? call.options.varlen.max_seq_k
                                     : call.k.seq};
  if (!options.alibi.empty()) {
    call.alibi_array = read_npy(options.alibi);
    call.options.alibi = alibi_of(call.alibi_array, batch, call.q.heads);
  }
  if (!options.sinks.empty()) {
    call.sinks_array = read_npy(options.sinks);
    if (call.sinks_array.type != NpyType::f32 ||
        call.sinks_array.shape != std::vector<std::int64_t>{call.q.heads}) {
      fail(ErrorCode::InvalidArgument, "--sinks is {} of shape {}: it must be float32 ({})",
           to_string(call.sinks_array.type), call.sinks_array.shape_text(), call.q.heads);
    }
    call.options.sinks = reinterpret_cast<const float*>(call.sinks_array.data.data());
  }
  if (!options.bias.empty()) {
    call.bias_array = read_npy(options.bias);
    const DType bias_dtype = call.bias_array.type == NpyType::f32
                                 ? DType::f32
                                 : dtype_of(call.bias_array, options.dtype, "--bias");
    call.options.bias = {call.bias_array.data.data(), bias_dtype,
                         broadcast(call.bias_array, scores, "--bias")};
  }
  if (!options.mask.empty()) {
    call.mask_array = read_npy(options.mask);
    if (call.mask_array.type != NpyType::boolean && call.mask_array.type != NpyType::u8) {
      fail(ErrorCode::InvalidArgument, "--mask is {}: it must be bool or uint8",
           to_string(call.mask_array.type));
    }
    call.options.mask = {call.mask_array.data.data(), broadcast(call.mask_array, scores, "--mask")};
  }
  return call;
}

}  // namespace hipflash::cli
