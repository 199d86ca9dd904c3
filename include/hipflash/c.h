/**
 * \file
 * The C API, for C, Rust, Python and whoever loads libhipflash.so: attention, plans, appending to
 * caches and merging, as in the C++ API. What is not here: prefetch, explaining a Problem without a
 * plan, making packs, workloads, tuning, inspecting and managing the cache; the `hipflash` command
 * does the latter.
 *
 * What can fail returns a status, and hipflash_last_error() has the sentence. Every such function
 * may return HIPFLASH_INVALID_ARGUMENT (a NULL, a wrong struct_size, a broken rule of the C++ API),
 * HIPFLASH_NOT_SUPPORTED (not built), HIPFLASH_OUT_OF_MEMORY and HIPFLASH_INTERNAL. One that "needs
 * a kernel" may also return HIPFLASH_COMPILE_FAILED, HIPFLASH_NOT_SUPPORTED where a compile is
 * needed and forbidden, and HIPFLASH_LAUNCH_FAILED. Other statuses are named at their functions.
 *
 * Structs are versioned by their size: fill them with the matching HIPFLASH_..._INIT, then set what
 * you need. A library that is newer than the caller's header fills in defaults for members that the
 * caller does not know; an older one refuses non-zero members that it does not know, as
 * HIPFLASH_NOT_SUPPORTED.
 *
 * ```
 * hipflash_context* ctx;
 * if (hipflash_context_create("cpu", NULL, &ctx)) { puts(hipflash_last_error()); return 1; }
 * hipflash_tensor q = HIPFLASH_TENSOR_INIT;
 * q.data = q_data; q.dtype = HIPFLASH_F32;
 * q.batch = 1; q.seq = 64; q.heads = 8; q.dim = 64;
 * q.stride_seq = 8 * 64; q.stride_head = 64;
 * ...
 * hipflash_options options = HIPFLASH_OPTIONS_INIT;
 * options.causal = 1;
 * if (hipflash_attention_forward(ctx, &q, &k, &v, &out, &options, NULL)) ...
 * hipflash_context_destroy(ctx);
 * ```
 */
#ifndef HIPFLASH_C_H
#define HIPFLASH_C_H

#include <stddef.h>
#include <stdint.h>

#include "hipflash/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a call came to. The numbers never change. */
typedef enum hipflash_status {
  HIPFLASH_OK = 0,
  HIPFLASH_INVALID_ARGUMENT = 1,
  HIPFLASH_NOT_SUPPORTED = 2,
  HIPFLASH_NO_DEVICE = 3,
  HIPFLASH_COMPILE_FAILED = 4,
  HIPFLASH_CACHE_UNUSABLE = 5,
  HIPFLASH_LAUNCH_FAILED = 6,
  HIPFLASH_OUT_OF_MEMORY = 7,
  HIPFLASH_INTERNAL = 8
} hipflash_status;

/** Element types. */
typedef enum hipflash_dtype {
  HIPFLASH_F16 = 0,
  HIPFLASH_BF16 = 1,
  HIPFLASH_F32 = 2
} hipflash_dtype;

/** Mask alignments: where query i stands among the keys; see problem.h. */
typedef enum hipflash_alignment {
  HIPFLASH_BOTTOM_RIGHT = 0,
  HIPFLASH_TOP_LEFT = 1
} hipflash_alignment;

/** A device with its caches; thread-safe. */
typedef struct hipflash_context hipflash_context;

/** What solves one problem; thread-safe. */
typedef struct hipflash_plan hipflash_plan;

/** A strided view of a (batch, seq, heads, dim) tensor; strides in elements, dim contiguous. */
typedef struct hipflash_tensor {
  uint32_t struct_size; /**< sizeof(hipflash_tensor) */
  int32_t dtype;        /**< hipflash_dtype */
  void* data;           /**< Inputs are only read. */
  int64_t batch, seq, heads, dim;
  int64_t stride_batch, stride_seq, stride_head;
} hipflash_tensor;

#define HIPFLASH_TENSOR_INIT \
  { sizeof(hipflash_tensor), HIPFLASH_F32, NULL, 0, 0, 0, 0, 0, 0, 0 }

/** Everything about a call besides Q, K, V and the output; see attention.h. Strides in elements. */
typedef struct hipflash_options {
  uint32_t struct_size; /**< sizeof(hipflash_options) */
  int32_t causal;       /**< 0 or 1 */
  int32_t alignment;    /**< hipflash_alignment */
  int32_t scale_set;    /**< 1: use `scale`; 0: 1/sqrt(dim) */
  float scale;
  float softcap;                     /**< 0: none */
  int64_t window_left, window_right; /**< -1: unbounded */

  const float* alibi_slopes; /**< NULL: none */
  int64_t alibi_batch_stride, alibi_head_stride;

  const void* bias;   /**< NULL: none */
  int32_t bias_dtype; /**< hipflash_dtype: HIPFLASH_F32, or that of q */
  int32_t reserved;   /**< 0 */
  int64_t bias_stride_batch, bias_stride_head, bias_stride_query, bias_stride_key;

  const void* mask; /**< NULL: none; one byte an element, 0 hides */
  int64_t mask_stride_batch, mask_stride_head, mask_stride_query, mask_stride_key;

  float* lse; /**< NULL: not wanted */
  int64_t lse_stride_batch, lse_stride_query,
      lse_stride_head; /**< All 0: dense (batch, head, query) */

  const float* sinks; /**< NULL: none; one logit per query head */

  /* Packed sequences: Varlen in attention.h. */
  const void *cu_seqlens_q, *cu_seqlens_k; /**< NULL: not packed */
  int64_t varlen_batch;         /**< Sequences, where q is packed; else q's batch counts */
  int64_t max_seq_q, max_seq_k; /**< 0: unknown */
  int32_t offsets_are_64bit;    /**< 1: cu_seqlens are int64; 0: int32 */
  int32_t batch_invariant;      /**< 1: the same bits alone and inside any batch */

  /* Caches that sequences fill differently far: KvCache in attention.h. */
  const int32_t *kv_lengths, *kv_batch_index, *kv_left_padding; /**< NULL: none */

  /* Keys and values in pages: PagedKv in attention.h. */
  const int32_t* block_table; /**< NULL: no pages */
  int64_t block_table_rows, block_table_columns, block_table_row_stride;

  int32_t strict_f32; /**< 1: f32 products are never split into those of smaller types */
  int32_t reserved2;  /**< 0 */
} hipflash_options;

#define HIPFLASH_OPTIONS_INIT                                                                    \
  {                                                                                              \
    sizeof(hipflash_options), 0, HIPFLASH_BOTTOM_RIGHT, 0, 0.0f, 0.0f, -1, -1, NULL, 0, 1, NULL, \
        HIPFLASH_F32, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, \
        0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0                                              \
  }

/** Settings of a context; 0 or NULL: what the environment says, else the default. */
typedef struct hipflash_context_options {
  uint32_t struct_size;  /**< sizeof(hipflash_context_options) */
  int32_t no_disk_cache; /**< 1: memory only */
  int32_t threads;       /**< CPU: threads to use */
  int32_t reserved;      /**< 0 */
  const char* cache_dir;
  const char* prebuilt; /**< Colon-separated packs and folders, before HIPFLASH_PREBUILT */
  const char* cpu_isa;
  const void* pack;        /**< A pack in memory; stays valid as long as the context; NULL: none */
  uint64_t pack_bytes;     /**< Its size */
  int32_t while_compiling; /**< 0: a call waits for its kernel; 1: a general one serves meanwhile */
  int32_t reserved2;       /**< 0 */
} hipflash_context_options;

#define HIPFLASH_CONTEXT_OPTIONS_INIT \
  { sizeof(hipflash_context_options), 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0 }

/** "0.1.0" */
HIPFLASH_EXPORT const char* hipflash_version(void);

/** The status's name, for example "InvalidArgument". */
HIPFLASH_EXPORT const char* hipflash_status_string(hipflash_status status);

/** The sentence of this thread's last failed call, "" if none failed. Valid until the next call. */
HIPFLASH_EXPORT const char* hipflash_last_error(void);

/** The compiler's words of this thread's last failed call, "" if there are none. */
HIPFLASH_EXPORT const char* hipflash_last_error_log(void);

/** \param device "cpu", "hip:N", "cuda:N"; NULL: the default device.
 *  \param options NULL: defaults.
 *  \return also HIPFLASH_NO_DEVICE; HIPFLASH_CACHE_UNUSABLE for a pack of the options that is
 *          damaged or not signed by a trusted key. */
HIPFLASH_EXPORT hipflash_status hipflash_context_create(const char* device,
                                                        const hipflash_context_options* options,
                                                        hipflash_context** context);

/** NULL is fine. Plans stay valid. */
HIPFLASH_EXPORT void hipflash_context_destroy(hipflash_context* context);

/** Computes out = attention(q, k, v). \param options NULL: defaults. \param stream NULL: default.
 *  Needs a kernel. */
HIPFLASH_EXPORT hipflash_status hipflash_attention_forward(
    hipflash_context* context, const hipflash_tensor* q, const hipflash_tensor* k,
    const hipflash_tensor* v, const hipflash_tensor* out, const hipflash_options* options,
    void* stream);

/** Makes the plan for tensors and options like these; may compile. Only the shapes, strides,
 *  alignment and presence of data count. Needs a kernel. */
HIPFLASH_EXPORT hipflash_status
hipflash_plan_create(hipflash_context* context, const hipflash_tensor* q, const hipflash_tensor* k,
                     const hipflash_tensor* v, const hipflash_tensor* out,
                     const hipflash_options* options, hipflash_plan** plan);

/** The data of one run of a plan; NULL for features that the plan does not have. */
typedef struct hipflash_pointers {
  uint32_t struct_size; /**< sizeof(hipflash_pointers) */
  uint32_t reserved;    /**< 0 */
  const void *q, *k, *v;
  void* out;
  float* lse;
  const void *bias, *mask;
  const float *alibi_slopes, *sinks;
  const void *cu_seqlens_q, *cu_seqlens_k;
  const int32_t *kv_lengths, *kv_batch_index, *kv_left_padding, *block_table;
} hipflash_pointers;

#define HIPFLASH_POINTERS_INIT                                                                \
  {                                                                                           \
    sizeof(hipflash_pointers), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL                                                          \
  }

/** Only launches, so nothing is compiled. \return also HIPFLASH_LAUNCH_FAILED. */
HIPFLASH_EXPORT hipflash_status hipflash_plan_run(const hipflash_plan* plan,
                                                  const hipflash_pointers* pointers, void* stream);

/** Several lines that tell family, config, tier and key of a plan. Valid as long as the plan. */
HIPFLASH_EXPORT const char* hipflash_plan_explain(const hipflash_plan* plan);

/** NULL is fine. */
HIPFLASH_EXPORT void hipflash_plan_destroy(hipflash_plan* plan);

/** Everything about an append besides the new rows and the cache: AppendOptions in kv_cache.h. */
typedef struct hipflash_append_options {
  uint32_t struct_size;      /**< sizeof(hipflash_append_options) */
  int32_t offsets_are_64bit; /**< int64 instead of int32 cu_seqlens */
  const void* cu_seqlens;    /**< NULL: new rows are not packed */
  int64_t batch;             /**< Sequences of packed rows */

  const int32_t *kv_lengths, *kv_batch_index; /**< NULL: 0; the sequence's own number */
  const int32_t* block_table;                 /**< NULL: no pages */
  int64_t block_table_rows, block_table_columns, block_table_row_stride;

  const void *rotary_cos, *rotary_sin; /**< NULL: no rotation */
  int32_t rotary_dtype;                /**< hipflash_dtype */
  int32_t rotary_interleaved;
  int64_t rotary_dim, rotary_positions, rotary_row_stride;

  hipflash_tensor q, q_out; /**< Without data: none */
  int32_t* new_lengths;     /**< NULL: not wanted */
} hipflash_append_options;

#define HIPFLASH_APPEND_OPTIONS_INIT                                                    \
  {                                                                                     \
    sizeof(hipflash_append_options), 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, \
        HIPFLASH_F32, 0, 0, 0, 0, HIPFLASH_TENSOR_INIT, HIPFLASH_TENSOR_INIT, NULL      \
  }

/** Writes k_new and v_new behind what a cache holds: append_kv() in kv_cache.h. Needs a kernel.
 *  \param options NULL: defaults. */
HIPFLASH_EXPORT hipflash_status hipflash_append_kv(
    hipflash_context* context, const hipflash_tensor* k_new, const hipflash_tensor* v_new,
    const hipflash_tensor* k_cache, const hipflash_tensor* v_cache,
    const hipflash_append_options* options, void* stream);

/** A partial result, or several at equal distances: PartialResult in merge.h. */
typedef struct hipflash_partial {
  uint32_t struct_size; /**< sizeof(hipflash_partial) */
  uint32_t reserved;    /**< 0 */
  hipflash_tensor out;
  const float* lse;
  int64_t lse_stride_batch, lse_stride_query,
      lse_stride_head; /**< All 0: dense (batch, head, query) */
  int64_t count, out_step, lse_step;
} hipflash_partial;

#define HIPFLASH_PARTIAL_INIT \
  { sizeof(hipflash_partial), 0, HIPFLASH_TENSOR_INIT, NULL, 0, 0, 0, 1, 0, 0 }

/** Joins partial results into out and, unless NULL, lse, which is dense (batch, head, query):
 *  merge_partials() in merge.h. Needs a kernel. \param parts `count` of them. */
HIPFLASH_EXPORT hipflash_status hipflash_merge_partials(hipflash_context* context,
                                                        const hipflash_partial* parts, size_t count,
                                                        const hipflash_tensor* out, float* lse,
                                                        void* stream);

/** HIPFLASH_INVALID_ARGUMENT, with the sentence in hipflash_last_error(), if a kernel found a
 * length, offset or table wrong since the last call: Context::take_fault(). Waits for the device.
 * \return also HIPFLASH_LAUNCH_FAILED. */
HIPFLASH_EXPORT hipflash_status hipflash_context_take_fault(hipflash_context* context);

/** From now on a compile is an error (HIPFLASH_NOT_SUPPORTED). */
HIPFLASH_EXPORT hipflash_status hipflash_context_seal(hipflash_context* context);

#ifdef __cplusplus
}
#endif

#endif
