#!/usr/bin/env python3
"""Makes the numbers that Bertie's model must reproduce, with Hugging Face transformers in fp32.

    python3 -m venv .venv && .venv/bin/pip install -r tools/requirements.txt
    .venv/bin/python tools/make_goldens.py                      # tests/golden/models, parameter_counts.json
    .venv/bin/python tools/make_goldens.py --minilm DIR         # and tests/golden/minilm, from the weights in DIR

DIR is all-MiniLM-L6-v2 in the Hugging Face layout, with fp16 weights; --references FILE compares with
another runtime's results for the first texts. The same versions on the same processor give the same bytes.

tests/golden/models/<name>/
    config.json, model.safetensors (or two shards and an index)   a small BERT with random weights
    expected.safetensors:
        ids, types  I32 [T]       B sequences, packed one after the other; each was run alone, unpadded
        offsets     I32 [B+1]     sequence b is rows offsets[b] .. offsets[b+1]-1
        hidden.0 .. hidden.L      F32 [T, C]; hidden.0 is the output of the embeddings, hidden.L the last
        pooled                    F32 [B, C]; absent where the model has no pooler
        attention.0 .. .L-1       F32 [sum over b of heads*n*n]: for each sequence (heads, n, n), row = query
Weights are large enough for attention to be far from uniform, and so are biases and LayerNorm parameters:
a term left out is seen. Every model's fp32 results are compared with fp64 ones and must agree well within
the tolerance that Bertie is held to, so a difference is Bertie's.

tests/golden/minilm/
    texts.json                    [{"text", "max_tokens"}]; text i cut to max_tokens, [CLS] and [SEP] included
    expected.safetensors, for each i:
        i.ids                     I32 [n]
        i.hidden                  F32 [L+1, 2, C]: rows 0 and n-1 of each layer
        i.hidden_sums             F64 [L+1, 2]: sum and sum of squares over all rows
        i.attention               F32 [L, 2, 2, n]: layer l, heads l and l+6, queries 0 and n/2
        i.attention_squares       F64 [L, heads]: sum of squares over all weights of a head
        i.pooled                  F32 [C]: the pooler's output
        i.sentence                F32 [C]: mean over tokens, L2-normalized
      and for the sentence with two banks everything:
        i.all_hidden              F32 [L+1, n, C]
        i.all_attention           F32 [L, heads, n, n]
"""

import argparse
import copy
import json
import pathlib
import re
import shutil

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from transformers import BertConfig, BertForPreTraining, BertModel

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
ROUNDING = 5e-6  # most that fp32 may differ from fp64 in a golden; Bertie's tolerance is 2e-5
LENGTHS = [1, 2, 3, 7, 16, 17]  # and max_position_embeddings


def model(name, layers, heads, head, ffn, act="gelu", eps=1e-12, types=2, positions=33, vocab=80, **store):
    config = BertConfig(
        vocab_size=vocab, hidden_size=heads * head, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=ffn, hidden_act=act, max_position_embeddings=positions, type_vocab_size=types,
        layer_norm_eps=eps, pad_token_id=0, attn_implementation="eager")
    return name, config, store


# What `store` may say, beside plain F32 tensors with today's names:
#   dtype      weights stored in another type (results are of the rounded weights)
#   mixed      matrices in that type, vectors in F32
#   prefix     "bert." before every name
#   legacy     LayerNorm.gamma/beta for weight/bias
#   heads_too  what BertForPreTraining saves beside the encoder, and position_ids
#   shards     number of files
#   pooler     False for none
#   sparse_config  config.json leaves out what equals the default
MODELS = [
    model("one_head", 1, 1, 5, 7, vocab=50, types=1),
    model("plain", 2, 2, 32, 80, prefix=True),
    model("gelu_new", 2, 3, 12, 90, act="gelu_new", eps=1e-5),
    model("relu", 3, 4, 8, 50, act="relu", eps=1e-3, types=4, positions=32, vocab=120),
    model("gelu_pytorch_tanh", 2, 6, 5, 61, act="gelu_pytorch_tanh", types=1),
    model("silu", 2, 2, 24, 84, act="silu", eps=1e-5, vocab=61),
    model("swish", 1, 3, 7, 40, act="swish", types=3, positions=31),
    model("tanh", 1, 3, 33, 131, act="tanh", eps=1e-3, dtype=torch.float16, mixed=True),
    model("twelve_heads", 1, 12, 8, 64, eps=1e-12, dtype=torch.bfloat16),
    model("head_of_64", 1, 2, 64, 100, dtype=torch.float16, vocab=100, positions=48),
    model("bfloat16", 2, 4, 16, 96, dtype=torch.bfloat16),
    model("four_layers_sharded", 4, 2, 12, 70, shards=2, vocab=99),
    model("legacy_names", 2, 2, 16, 64, prefix=True, legacy=True, heads_too=True),
    model("no_pooler", 2, 4, 6, 33, act="relu", pooler=False, types=4),
    model("long", 1, 2, 16, 48, positions=140, vocab=150),
    model("pretraining_checkpoint", 3, 6, 7, 77, prefix=True, heads_too=True, dtype=torch.float16),
    model("sparse_config", 1, 12, 4, 96, sparse_config=True, positions=40),
    model("one_position", 1, 2, 9, 20, positions=1),
]


def randomize(module, generator):
    """Weights at a scale where attention scores have a standard deviation of about 1.7: far from uniform
    attention, and not so large that rounding errors grow past `ROUNDING`."""
    for name, p in module.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if "LayerNorm.weight" in name:
            p.data = 1 + 0.3 * noise
        elif name.endswith("bias") or p.dim() == 1:
            p.data = 0.2 * noise
        elif "embeddings" in name:
            p.data = 0.06 * noise  # small, so that layer_norm_eps shows
        else:
            p.data = 1.3 / p.shape[1] ** 0.5 * noise


def run(net, ids, types):
    """(hidden states [n, C] of all layers, attentions (heads, n, n), pooled [C] or None) of one sequence."""
    with torch.no_grad():
        out = net(input_ids=ids[None], token_type_ids=types[None], attention_mask=torch.ones_like(ids)[None],
                  output_hidden_states=True, output_attentions=True)
    pooled = out.pooler_output
    return [h[0] for h in out.hidden_states], [a[0] for a in out.attentions], None if pooled is None else pooled[0]


def rounding_of(net, net64, ids, types):
    """The largest difference between fp32 and fp64, over everything that is compared."""
    worst = 0.0
    for a, b in zip(run(net, ids, types), run(net64, ids, types)):
        for x, y in zip(a if isinstance(a, list) else [a], b if isinstance(b, list) else [b]):
            if x is not None:
                worst = max(worst, (x.double() - y).abs().max().item())
    return worst


def stored_tensors(whole, net, store):
    """What goes into the file, by name; rounds net's weights where the type stored asks for it."""
    dtype, legacy = store.get("dtype", torch.float32), store.get("legacy", False)
    for p in net.parameters():
        if not (store.get("mixed") and p.dim() == 1):
            p.data = p.data.to(dtype).float()
    tensors = {}
    for name, p in net.state_dict().items():
        keep = store.get("mixed") and p.dim() == 1
        tensors[("bert." if store.get("prefix") else "") + name] = p if keep else p.to(dtype)
    if store.get("heads_too"):
        for name, p in whole.state_dict().items():
            if name.startswith("cls.") and not name.startswith("cls.predictions.decoder"):  # tied: not in files
                tensors[name] = p.to(dtype)
        positions = torch.arange(net.config.max_position_embeddings)[None]
        tensors[("bert." if store.get("prefix") else "") + "embeddings.position_ids"] = positions
    if legacy:
        tensors = {re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", n)): t
                   for n, t in tensors.items()}
    return {n: t.contiguous() for n, t in tensors.items()}


def save_weights(folder, tensors, shards):
    if shards == 1:
        safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return
    names, weight_map = list(tensors), {}
    for s in range(shards):
        part = {n: tensors[n] for n in names[s * len(names) // shards:(s + 1) * len(names) // shards]}
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        safetensors.torch.save_file(part, folder / file, {"format": "pt"})
        weight_map |= {n: file for n in part}
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def save_config(folder, config, sparse):
    values = json.loads(config.to_json_string(use_diff=False))
    if sparse:
        default = json.loads(BertConfig().to_json_string(use_diff=False))
        values = {k: v for k, v in values.items() if k == "model_type" or v != default.get(k)}
    values["architectures"] = ["BertModel"]
    (folder / "config.json").write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def make_model(number, name, config, store):
    generator = torch.Generator().manual_seed(1000 + number)
    torch.manual_seed(number)
    whole = BertForPreTraining(config).eval()
    net = BertModel(config, add_pooling_layer=store.get("pooler", True)).eval()
    randomize(whole, generator)
    randomize(net, generator)

    folder = GOLDEN / "models" / name
    folder.mkdir(parents=True)
    save_weights(folder, stored_tensors(whole, net, store), store.get("shards", 1))
    save_config(folder, config, store.get("sparse_config", False))

    lengths = sorted({n for n in LENGTHS + [config.max_position_embeddings] if n <= config.max_position_embeddings})
    order = torch.randperm(len(lengths), generator=generator).tolist()
    lengths = [lengths[i] for i in order]
    net64 = copy.deepcopy(net).double()
    packed = {"ids": [], "types": []}
    hidden = [[] for _ in range(config.num_hidden_layers + 1)]
    attention = [[] for _ in range(config.num_hidden_layers)]
    pooled, worst = [], 0.0
    for n in lengths:
        ids = torch.randint(config.vocab_size, (n,), generator=generator)
        types = torch.randint(config.type_vocab_size, (n,), generator=generator)
        h, a, p = run(net, ids, types)
        worst = max(worst, rounding_of(net, net64, ids, types))
        packed["ids"].append(ids.int())
        packed["types"].append(types.int())
        for kept, x in zip(hidden, h):
            kept.append(x)
        for kept, x in zip(attention, a):
            kept.append(x.flatten())
        if p is not None:
            pooled.append(p)
    if worst > ROUNDING:
        raise SystemExit(f"{name}: fp32 is {worst:.1e} off fp64: too much for a golden")

    out = {k: torch.cat(v).numpy() for k, v in packed.items()}
    out["offsets"] = np.cumsum([0] + lengths).astype(np.int32)
    out |= {f"hidden.{i}": torch.cat(x).numpy() for i, x in enumerate(hidden)}
    out |= {f"attention.{i}": torch.cat(x).numpy() for i, x in enumerate(attention)}
    if pooled:
        out["pooled"] = torch.stack(pooled).numpy()
    safetensors.numpy.save_file(out, folder / "expected.safetensors")
    peak = max(w.max().item() for w, n in zip(attention[-1], lengths) if n > 1) if max(lengths) > 1 else 1
    print(f"{name:24} {sum(lengths):4} tokens, fp32 - fp64 {worst:.1e}, largest weight {peak:.2f}, "
          f"{sum(f.stat().st_size for f in folder.iterdir()) / 1000:.0f} kB")


def parameter_counts():
    base = dict(vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                intermediate_size=3072, max_position_embeddings=512, type_vocab_size=2)
    large = base | dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    minilm = base | dict(hidden_size=384, num_hidden_layers=6, intermediate_size=1536)
    tiny = base | dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512)
    multilingual = base | dict(vocab_size=119547)
    rows = []
    for name, values in [("base", base), ("large", large), ("minilm", minilm), ("tiny", tiny),
                         ("multilingual", multilingual)] + [(n, None) for n, _, _ in MODELS]:
        config = next(c for n, c, _ in MODELS if n == name) if values is None else BertConfig(**values)
        row = {"name": name, "config": {k: getattr(config, k) for k in base}}
        for key, pooler in [("parameters", True), ("parameters_without_pooler", False)]:
            with torch.device("meta"):
                row[key] = sum(p.numel() for p in BertModel(config, add_pooling_layer=pooler).parameters())
        rows.append(row)
    text = "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n"
    (GOLDEN / "parameter_counts.json").write_text(text)


def long_text(sentences):
    """Prose without an end: each sentence differs, so that tokens and positions do."""
    places = ["harbour", "museum", "river bank", "railway station", "old observatory", "library", "orchard"]
    people = ["the archivist", "a young engineer", "my neighbour", "the night watchman", "Dr. O'Neill", "somebody"]
    things = ["an unfinished letter", "3 coins", "the wrong map", "a well-kept secret", "two red umbrellas"]
    return " ".join(
        f"On day {i + 1}, {people[i % 6]} came to the {places[i % 7]} and found {things[i % 5]}"
        + (", which nobody had expected!" if i % 3 == 0 else "; it was raining." if i % 3 == 1 else ".")
        for i in range(sentences))


BANK = "The bank deposited the money near the river bank."
MINILM_TEXTS = [(t, 512) for t in [
    "hello world", "flag embedding", "The weather is lovely today.", "It's so sunny outside!",
    "He drove to the stadium.", "I deposited money at the bank.", "",
    BANK, "Crème brûlée à la carte — 東京, naïve façade; ﬁne 🙂",
    long_text(5)]] + [(long_text(60), 256), (long_text(60), 512)]


def make_minilm(source, references):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    net = BertModel.from_pretrained(source, attn_implementation="eager", dtype=torch.float32).eval()
    net64 = copy.deepcopy(net).double()
    layers, out, worst, off = net.config.num_hidden_layers, {}, 0.0, 0.0
    items = json.loads(references.read_text())["items"] if references else []
    for i, (text, limit) in enumerate(MINILM_TEXTS):
        tokenizer.enable_truncation(limit)
        ids = torch.tensor(tokenizer.encode(text).ids)
        n = len(ids)
        h, a, pooled = run(net, ids, torch.zeros_like(ids))
        worst = max(worst, rounding_of(net, net64, ids, torch.zeros_like(ids)))
        mean = h[-1].mean(0)
        sentence = mean / mean.norm()
        sums = [[x.double().sum().item(), x.double().square().sum().item()] for x in h]
        out |= {
            f"{i}.ids": ids.int().numpy(),
            f"{i}.hidden": torch.stack([x[[0, n - 1]] for x in h]).numpy(),
            f"{i}.hidden_sums": np.array(sums),
            f"{i}.attention": torch.stack([a[l][[l, l + 6]][:, [0, n // 2]] for l in range(layers)]).numpy(),
            f"{i}.attention_squares": np.array([x.double().square().sum((1, 2)).tolist() for x in a]),
            f"{i}.pooled": pooled.numpy(),
            f"{i}.sentence": sentence.numpy(),
        }
        if text == BANK:
            out |= {f"{i}.all_hidden": torch.stack(h).numpy(), f"{i}.all_attention": torch.stack(a).numpy()}
        if i < len(items):
            assert items[i]["text"] == text and items[i]["input_ids"] == ids.tolist()
            other = torch.tensor(items[i]["mean_pooled_normalized"])
            off = max(off, (other - sentence).abs().max().item())
    if worst > 2 * ROUNDING:
        raise SystemExit(f"MiniLM: fp32 is {worst:.1e} off fp64: too much for a golden")
    if off > 1e-3:
        raise SystemExit(f"MiniLM: {off:.1e} off the references")
    folder = GOLDEN / "minilm"
    folder.mkdir(exist_ok=True)
    texts = [{"text": text, "max_tokens": limit} for text, limit in MINILM_TEXTS]
    (folder / "texts.json").write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n")
    safetensors.numpy.save_file(out, folder / "expected.safetensors")
    print(f"MiniLM: fp32 - fp64 {worst:.1e}, off the references {off:.1e}, tokens "
          f"{[len(out[f'{i}.ids']) for i in range(len(MINILM_TEXTS))]}, "
          f"{sum(f.stat().st_size for f in folder.iterdir()) / 1000:.0f} kB")


def main():
    parser = argparse.ArgumentParser(description="Make the model goldens.")
    parser.add_argument("--minilm", type=pathlib.Path, metavar="DIR", help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--references", type=pathlib.Path, metavar="FILE", help="its results by another runtime")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    shutil.rmtree(GOLDEN / "models", ignore_errors=True)
    for number, (name, config, store) in enumerate(MODELS):
        make_model(number, name, config, store)
    parameter_counts()
    if arguments.minilm:
        make_minilm(arguments.minilm, arguments.references)


if __name__ == "__main__":
    main()
