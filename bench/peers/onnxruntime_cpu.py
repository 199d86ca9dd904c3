#!/usr/bin/env python3
"""hipflash against ONNX Runtime on the CPU, in one process, interleaved.

    pip install numpy onnx onnxruntime
    bench/peers/onnxruntime_cpu.py build/release/lib/libhipflash.so [--threads 1] [--repeats 15]

Both compute the same attention on the same (batch, seq, heads, dim) f32 arrays; ONNX Runtime by its
com.microsoft.MultiHeadAttention operator, hipflash through its C API. A row is right only if both
agree. Samples alternate between the two; the table has medians, their spread (p10 to p90) and the
ratio of medians (above 1: hipflash is faster).
"""
import argparse
import ctypes
import statistics
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("dtype", ctypes.c_int32), ("data", ctypes.c_void_p),
                *[(name, ctypes.c_int64) for name in
                  ("batch", "seq", "heads", "dim", "stride_batch", "stride_seq", "stride_head")]]


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("no_disk_cache", ctypes.c_int32),
                ("threads", ctypes.c_int32), ("reserved", ctypes.c_int32), ("cache_dir", ctypes.c_char_p),
                ("prebuilt", ctypes.c_char_p), ("cpu_isa", ctypes.c_char_p)]


class OptionsHead(ctypes.Structure):
    """The first members of hipflash_options: a caller of an older header knows no more."""
    _fields_ = [("struct_size", ctypes.c_uint32), ("causal", ctypes.c_int32), ("alignment", ctypes.c_int32),
                ("scale_set", ctypes.c_int32), ("scale", ctypes.c_float), ("softcap", ctypes.c_float),
                ("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64)]


class Hipflash:
    def __init__(self, path, threads):
        self.library = ctypes.CDLL(path)
        self.library.hipflash_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        options = ContextOptions(ctypes.sizeof(ContextOptions), 0, threads)
        self._check(self.library.hipflash_context_create(b"cpu", ctypes.byref(options),
                                                         ctypes.byref(self.context)))

    def _check(self, status):
        if status:
            raise RuntimeError(self.library.hipflash_last_error().decode())

    def prepare(self, q, k, v, out, causal):
        def view(x):
            return Tensor(ctypes.sizeof(Tensor), 2, x.ctypes.data, *x.shape,
                          *[s // x.itemsize for s in x.strides[:3]])

        tensors = [view(x) for x in (q, k, v, out)]
        options = OptionsHead(ctypes.sizeof(OptionsHead), int(causal), 0, 0, 0.0, 0.0, -1, -1)
        arguments = [self.context, *map(ctypes.byref, tensors), ctypes.byref(options), None]
        keep = (tensors, options)

        def call():
            self._check(self.library.hipflash_attention_forward(*arguments))
            return keep and out

        return call


def onnx_session(heads, causal, threads):
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft",
                            num_heads=heads, unidirectional=int(causal))
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None, None]) for name in "qkv"]
    graph = helper.make_graph([node], "attention", value,
                              [helper.make_tensor_value_info("out", TensorProto.FLOAT, [None, None, None])])
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)])
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def sample(call, minimum_seconds):
    """Seconds of one call, averaged over enough calls to time."""
    count, start = 0, time.perf_counter()
    while True:
        call()
        count += 1
        elapsed = time.perf_counter() - start
        if elapsed >= minimum_seconds:
            return elapsed / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seqs", default="128,256,512,1024,2048,4096,8192")
    parser.add_argument("--dims", default="64,128")
    arguments = parser.parse_args()
    ours = Hipflash(arguments.library, arguments.threads)
    random = np.random.default_rng(1)
    heads = 4
    print(f"ONNX Runtime {onnxruntime.__version__}, {arguments.threads} thread(s), f32, heads {heads}; ms: "
          "median (p10-p90)")
    print("| dim | seq | mask | hipflash | ONNX Runtime | ratio | max difference |")
    print("|---|---|---|---|---|---|---|")
    slower = 0
    for dim in map(int, arguments.dims.split(",")):
        for causal in (False, True):
            session = onnx_session(heads, causal, arguments.threads)
            for seq in map(int, arguments.seqs.split(",")):
                q, k, v = (random.standard_normal((1, seq, heads, dim), dtype=np.float32) for _ in range(3))
                out = np.full_like(q, np.nan)
                feed = {name: x.reshape(1, seq, heads * dim) for name, x in zip("qkv", (q, k, v))}
                call = ours.prepare(q, k, v, out, causal)
                peer = lambda: session.run(None, feed)[0]
                difference = float(np.abs(call() - peer().reshape(q.shape)).max())
                if not difference < 1e-4:
                    raise SystemExit(f"dim {dim} seq {seq}: results differ by {difference}")
                repeats = max(5, arguments.repeats if seq < 4096 else arguments.repeats // 2)
                times = [(sample(call, 0.02), sample(peer, 0.02)) for _ in range(repeats)]
                columns = []
                for index in (0, 1):
                    ms = sorted(1e3 * pair[index] for pair in times)
                    low, high = ms[len(ms) // 10], ms[-1 - len(ms) // 10]
                    columns.append((statistics.median(ms), low, high))
                ratio = columns[1][0] / columns[0][0]
                slower += ratio < 1
                text = [f"{m:.3f} ({low:.3f}-{high:.3f})" for m, low, high in columns]
                print(f"| {dim} | {seq} | {'causal' if causal else 'full'} | {text[0]} | {text[1]} | {ratio:.2f} "
                      f"| {difference:.1e} |", flush=True)
    print(f"\n{slower} row(s) in which hipflash is slower")


if __name__ == "__main__":
    main()
