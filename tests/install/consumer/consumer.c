/* The C API from C: one result checked in numbers, a plan run twice, errors as statuses. */
#include <hipflash/c.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "line %d: %s\n%s\n", __LINE__, #condition, hipflash_last_error()); \
      return 1;                                                                          \
    }                                                                                    \
  } while (0)

static hipflash_tensor column(float* data, int64_t seq) {
  hipflash_tensor tensor = HIPFLASH_TENSOR_INIT;
  tensor.data = data;
  tensor.dtype = HIPFLASH_F32;
  tensor.batch = tensor.heads = tensor.dim = 1;
  tensor.seq = seq;
  tensor.stride_batch = seq;
  tensor.stride_seq = tensor.stride_head = 1;
  return tensor;
}

int main(void) {
  /* Scores 0 and ln 3: the softmax is 1/4 and 3/4, the output 7, the log-sum-exp ln 4. */
  float q[] = {1.0f}, k[] = {0.0f, logf(3.0f)}, v[] = {4.0f, 8.0f}, out[] = {0.0f}, lse[] = {0.0f};
  const hipflash_tensor tq = column(q, 1), tk = column(k, 2), tv = column(v, 2),
                        to = column(out, 1);
  hipflash_options options = HIPFLASH_OPTIONS_INIT;
  hipflash_pointers pointers = HIPFLASH_POINTERS_INIT;
  hipflash_context* context = NULL;
  hipflash_plan* plan = NULL;
  int run;

  options.lse = lse;
  CHECK(hipflash_context_create("cpu", NULL, &context) == HIPFLASH_OK);
  CHECK(hipflash_attention_forward(context, &tq, &tk, &tv, &to, &options, NULL) == HIPFLASH_OK);
  printf("hipflash %s: out %f, lse %f\n", hipflash_version(), (double)out[0], (double)lse[0]);
  CHECK(fabsf(out[0] - 7.0f) < 1e-4f && fabsf(lse[0] - logf(4.0f)) < 1e-4f);

  CHECK(hipflash_plan_create(context, &tq, &tk, &tv, &to, &options, &plan) == HIPFLASH_OK);
  hipflash_context_destroy(context); /* the plan outlives it */
  CHECK(strlen(hipflash_plan_explain(plan)) > 0);
  pointers.q = q;
  pointers.k = k;
  pointers.v = v;
  pointers.out = out;
  pointers.lse = lse;
  for (run = 0; run < 2; ++run) {
    out[0] = lse[0] = 0.0f;
    CHECK(hipflash_plan_run(plan, &pointers, NULL) == HIPFLASH_OK);
    CHECK(fabsf(out[0] - 7.0f) < 1e-4f && fabsf(lse[0] - logf(4.0f)) < 1e-4f);
  }
  hipflash_plan_destroy(plan);

  CHECK(hipflash_context_create("abacus", NULL, &context) == HIPFLASH_INVALID_ARGUMENT);
  CHECK(strstr(hipflash_last_error(), "abacus") != NULL);
  printf("%s: %s\n", hipflash_status_string(HIPFLASH_INVALID_ARGUMENT), hipflash_last_error());
  hipflash_context_destroy(NULL);
  hipflash_plan_destroy(NULL);
  return 0;
}
