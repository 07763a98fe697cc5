#!/usr/bin/env python3
"""Losses and gradients by Hugging Face transformers and PyTorch, for the small models of tests/golden/families.

    .venv/bin/python tools/make_gradient_goldens.py [NAME ...]     # tests/golden/gradients, or these alone

tests/golden/gradients/<family>-<head>-<i>.safetensors, of the model in tests/golden/families that has this name:
    ids, types, offsets     I32; B sequences of different lengths, packed; types absent where the family has none
    source.*, target.*      I32, instead: ids and offsets of an encoder-decoder, target being what the decoder reads
    rows, targets           I32; which tokens are asked, and what is right there; masked-lm, pretraining
    targets                 I32; one for each token (causal-lm, seq2seq: of the target; token-classification), for each
                            sequence (sequence-classification, next-sentence), or two for each (question-answering:
                            the places where the answer begins and ends); -1: none
    labels                  I32 [B]; the second goal of pretraining: 1 is a random (ALBERT: swapped) second text
    values                  F32 [B] or [B, labels], instead of targets: regression, several labels
    loss                    F64 [1]; the model's own (`labels=`…), dropout off: a mean over targets (an answer's two
                            places count each), MLM and NSP added up
    gradient.<tensor>       F32; of every tensor in model.safetensors that learns, in its shape there; a tied one has
                            the sum. Marian's final_logits_bias is a constant, and has none

tests/golden/gradients/adamw-100-steps.safetensors: bert-pretraining-0 trained for 100 steps over ten batches in turn.
    ids, types, offsets, rows, targets, labels      as above, all batches one after the other; rows count from the
                                                    first token of all
    batch_sequences, batch_rows                     I32 [11]: where each batch's sequences and rows begin
    settings                                        F64: learning rate, beta1, beta2, eps, weight decay, clip norm;
                                                    biases and LayerNorms do not decay
    losses, mlm_losses, norms                       F64 [100]: before each step; norms before clipping

All is computed in fp64 and rounded at the end. A model's sequences run one by one, without padding, as Bertie sees
them, and their losses are added up as the whole batch's mean; that the padded batch with its attention mask gives the
same is asserted; but not of answers, where transformers' softmax runs over the padding too. Whatever PyTorch itself would get wrong by more than a fraction of Bertie's tolerance (1e-4 of a
tensor's norm; 1e-4 for the losses of training) in fp32 is no golden: another seed is tried. Padding tokens do not
occur, because transformers gives their embeddings no gradient.
"""

import copy
import json
import pathlib
import sys

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
import transformers

from make_family_goldens import FAMILIES, Unfit

GRADIENTS = FAMILIES.parent / "gradients"
IGNORED = -100
UNUSED = {  # a constant, and where a head is not tied, a bias that transformers has a second time
    "final_logits_bias", "cls.predictions.bias", "lm_head.bias", "predictions.bias"}
ROUNDING = 3e-5    # most that fp32's gradient of a tensor may differ from fp64's, relative
VANISHING = 1e-10  # a tensor with this share of the whole gradient's norm has none: key biases, an answer's bias

# One model of every family and head, in turn the first, second and third (other activations, untied heads, groups).
MODELS = [
    "bert-masked-lm-0", "bert-masked-lm-2", "bert-next-sentence-1", "bert-pretraining-0", "bert-pretraining-2",
    "bert-sequence-classification-0", "bert-sequence-classification-1", "bert-sequence-classification-2",
    "bert-token-classification-1", "bert-question-answering-2",
    "roberta-masked-lm-0", "roberta-sequence-classification-0", "roberta-token-classification-2",
    "roberta-question-answering-1", "xlm-roberta-masked-lm-1", "camembert-sequence-classification-0",
    "distilbert-masked-lm-1", "distilbert-sequence-classification-0", "distilbert-token-classification-0",
    "distilbert-question-answering-2",
    "albert-masked-lm-0", "albert-masked-lm-1", "albert-pretraining-1", "albert-sequence-classification-0",
    "albert-token-classification-2", "albert-question-answering-1",
    "gpt2-causal-lm-0", "gpt2-causal-lm-1", "gpt2-causal-lm-2", "gpt2-sequence-classification-0",
    "gpt2-token-classification-1", "gpt2-question-answering-0",
    "marian-seq2seq-0", "marian-seq2seq-1"]


def load(name):
    """In fp64, as the file has it."""
    config = json.loads((FAMILIES / name / "config.json").read_text())
    kind = getattr(transformers, config["architectures"][0])
    return kind.from_pretrained(FAMILIES / name, attn_implementation="eager", dtype=torch.float64).eval()


def head_of(name):
    return name.split("-", 2 if name.startswith("xlm") else 1)[-1].rsplit("-", 1)[0]


class Draw:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def integers(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.generator)

    def floats(self, *shape):
        return torch.randn(shape, generator=self.generator).float()

    def some(self, n, share):
        """Which of n, in order; at least one."""
        count = max(1, round(share * n))
        return torch.randperm(n, generator=self.generator)[:count].sort().values

    def tokens(self, net, n):
        """None that is padding or ends a text."""
        ids = self.integers(0, net.config.vocab_size, n)
        for special in {net.config.pad_token_id, getattr(net.config, "eos_token_id", None)} - {None}:
            ids[ids == special] = (special + 9) % net.config.vocab_size
        return ids


def sequence_inputs(net, name, n, draw):
    inputs = {"input_ids": draw.tokens(net, n)}
    if not name.startswith(("distilbert", "gpt2")):
        inputs["token_type_ids"] = draw.integers(0, net.config.type_vocab_size, n)
    return inputs


def masked_labels(net, n, draw):
    labels = torch.full((n,), IGNORED)
    at = draw.some(n, 0.4)
    labels[at] = draw.integers(0, net.config.vocab_size, len(at))
    return labels


def goals(net, name, inputs, draw):
    """What transformers is told about one sequence, beside its inputs."""
    head, n, config = head_of(name), len(inputs["input_ids"]), net.config
    if head == "masked-lm":
        return {"labels": masked_labels(net, n, draw)}
    if head == "pretraining":
        second = "sentence_order_label" if name.startswith("albert") else "next_sentence_label"
        return {"labels": masked_labels(net, n, draw), second: draw.integers(0, 2, 1)[0]}
    if head == "next-sentence":
        return {"labels": draw.integers(0, 2, 1)[0]}
    if head == "sequence-classification":
        if config.problem_type == "regression":
            return {"labels": draw.floats(1)[0].double()}
        if config.problem_type == "multi_label_classification":
            return {"labels": draw.integers(0, 2, config.num_labels).double()}
        return {"labels": draw.integers(0, config.num_labels, 1)[0]}
    if head == "token-classification":
        labels = draw.integers(0, config.num_labels, n)
        labels[draw.some(n, 0.3)] = IGNORED
        return {"labels": labels}
    if head == "question-answering":
        start, end = draw.integers(0, n, 2).sort().values
        return {"start_positions": start, "end_positions": end}
    if head == "causal-lm":
        return {"labels": inputs["input_ids"].clone()}
    if head == "seq2seq":
        return {"labels": draw.tokens(net, len(inputs["decoder_input_ids"]))}
    raise SystemExit(f"{name}: no such head")


def sequences_for(net, name, lengths, draw):
    """Inputs and goals; a length is a pair, of which the second is a decoder's."""
    sequences = []
    for n, m in lengths:
        if head_of(name) == "seq2seq":
            s = {"input_ids": draw.tokens(net, n), "decoder_input_ids": draw.tokens(net, m)}
            s["decoder_input_ids"][0] = net.config.decoder_start_token_id
        else:
            s = sequence_inputs(net, name, n, draw)
        sequences.append(s | goals(net, name, s, draw))
    return sequences


def counts(head, sequence):
    """How many targets a sequence has, goal by goal: what its losses weigh in the batch's mean."""
    if head in ("masked-lm", "token-classification", "seq2seq"):
        return [(sequence["labels"] != IGNORED).sum().item()]
    if head == "pretraining":
        return [(sequence["labels"] != IGNORED).sum().item(), 1]
    if head == "causal-lm":
        return [len(sequence["input_ids"]) - 1]
    return [1]


def own_loss(net, head, batch):
    """The model's own loss. Of a causal model transformers computes it in fp32 always; here it is done again."""
    out = net(**batch)
    if head != "causal-lm":
        return out.loss
    loss = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
    assert abs(loss - out.loss) < 1e-5
    return loss


def one_by_one(net, head, sequences):
    """The loss of the whole batch, from sequences that run alone; gradients are in net."""
    totals = [sum(c) for c in zip(*(counts(head, s) for s in sequences))]
    net.zero_grad()
    whole = []
    for s in sequences:
        alone = {k: v[None] for k, v in s.items()}
        if head == "pretraining":  # its loss is a sum of two means
            words = net(**{**alone, next(k for k in s if k.endswith("_label")): torch.tensor([IGNORED])})
            second = next(k for k in s if k.endswith("_label"))
            logits = words.seq_relationship_logits if "seq_relationship_logits" in words else words.sop_logits
            parts = [torch.nn.functional.cross_entropy(words.prediction_logits[0], s["labels"]),
                     torch.nn.functional.cross_entropy(logits, alone[second])]
        elif counts(head, s) == [0]:
            continue
        else:
            parts = [own_loss(net, head, alone)]
        loss = sum(p * c / t for p, c, t in zip(parts, counts(head, s), totals))
        loss.backward()
        whole.append(loss.detach())
    return sum(whole)


def padded(net, head, sequences):
    """The same as transformers is used: one rectangle, with an attention mask."""
    fills = {"labels": IGNORED, "input_ids": net.config.pad_token_id or 0}
    batch = {}
    for key in sequences[0]:
        values = [s[key] for s in sequences]
        if values[0].dim() == 0 or key == "labels" and head == "sequence-classification":
            batch[key] = torch.stack(values)
        else:
            batch[key] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fills.get(key, 0))
    lengths = torch.tensor([len(s["input_ids"]) for s in sequences])
    batch["attention_mask"] = (torch.arange(lengths.max()) < lengths[:, None]).long()
    if head == "causal-lm":
        batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
    net.zero_grad()
    loss = own_loss(net, head, batch)
    loss.backward()
    return loss.detach()


def names_of(net):
    """{name: what the golden calls it}: of a tied tensor's names the one that says embeddings, or else the first."""
    first = {}
    for n, p in net.named_parameters(remove_duplicate=False):
        if p not in first or "word_embeddings" in n:
            first[p] = n
    return {n: first[p] for n, p in net.named_parameters(remove_duplicate=False)}


def gradients(net):
    names = names_of(net)
    return {names[n]: p.grad.detach().clone() for n, p in net.named_parameters() if p.grad is not None}


def norm_of(tensors):
    return sum(t.double().square().sum() for t in tensors).sqrt().item()


def worst_difference(got, want):
    """Of all tensors, relative to each one's norm; one that vanishes, to the whole."""
    whole = norm_of(want.values())
    worst = 0.0
    for name, g in want.items():
        size = norm_of([g])
        worst = max(worst, norm_of([got[name].double() - g]) / (size if size > VANISHING * whole else whole))
    return worst


def pack(head, sequences):
    """What the file holds of a batch."""
    out = {}

    def add(key, values, dtype=torch.int32):
        out[key] = torch.cat([v.reshape(-1) for v in values]).to(dtype).numpy()

    def add_ids(key, name):
        add(key + "ids", [s[name] for s in sequences])
        out[key + "offsets"] = np.cumsum([0] + [len(s[name]) for s in sequences]).astype(np.int32)

    if head == "seq2seq":
        add_ids("source.", "input_ids")
        add_ids("target.", "decoder_input_ids")
    else:
        add_ids("", "input_ids")
        if "token_type_ids" in sequences[0]:
            add("types", [s["token_type_ids"] for s in sequences])
    if head in ("masked-lm", "pretraining"):
        labels = torch.cat([s["labels"] for s in sequences])
        rows = (labels != IGNORED).nonzero().flatten()
        add("rows", [rows])
        add("targets", [labels[rows]])
        if head == "pretraining":
            add("labels", [s[next(k for k in s if k.endswith("_label"))] for s in sequences])
    elif head == "causal-lm":
        add("targets", [torch.cat([s["labels"][1:], torch.tensor([-1])]) for s in sequences])
    elif head == "question-answering":
        add("targets", [torch.stack([s["start_positions"], s["end_positions"]]) for s in sequences])
    elif sequences[0]["labels"].is_floating_point():
        out["values"] = torch.stack([s["labels"] for s in sequences]).float().numpy()
    else:
        add("targets", [s["labels"].masked_fill(s["labels"] == IGNORED, -1) for s in sequences])
    return out


def make(name, seed):
    net, head, draw = load(name), head_of(name), Draw(seed)
    if name.startswith("gpt2") and net.config.pad_token_id is None:
        net.config.pad_token_id = net.config.vocab_size - 1  # so that a padded batch can be classified
    sequences = sequences_for(net, name, [(7, 5), (2, 11), (13, 1), (1, 3)], draw)
    loss = one_by_one(net, head, sequences)
    want = gradients(net)
    differs = lambda: (abs(padded(net, head, sequences) - loss) > 1e-12 * loss
                       or worst_difference(gradients(net), want) > 1e-10)
    if head != "question-answering" and differs():
        raise SystemExit(f"{name}: the padded batch gives something else")
    net32 = copy.deepcopy(net).float()
    single = [{k: v.float() if v.is_floating_point() else v for k, v in s.items()} for s in sequences]
    off = max(worst_difference(gradients_of(net32, head, single, loss), want), 0)
    if off > ROUNDING:
        raise Unfit(f"fp32 is {off:.1e} off")
    names = {names_of(net).get(n, n) for n in safetensors.torch.load_file(FAMILIES / name / "model.safetensors")}
    fixed = {n for n, p in net.named_parameters() if p.grad is None} | {n for n, _ in net.named_buffers()}
    if not fixed & names <= UNUSED or names - fixed != set(want):
        raise SystemExit(f"{name}: {names - fixed ^ set(want)} is in one of model.safetensors and what learns; not learned: {fixed}")
    out = pack(head, sequences) | {"loss": np.array([loss.item()])}
    out |= {"gradient." + n: g.float().numpy() for n, g in want.items()}
    return out, f"fp32 - fp64 {off:.1e}, loss {loss.item():.3f}"


def gradients_of(net, head, sequences, loss64):
    loss = one_by_one(net, head, sequences)
    if abs(loss.double() - loss64) > 3e-6 * loss64:
        raise Unfit("fp32's loss is off")
    return gradients(net)


STEPS, BATCHES = 100, 10
# Learning rate, beta1, beta2, eps, decay, clip: a norm that some steps exceed and others do not.
SETTINGS = [1e-3, 0.9, 0.999, 1e-6, 0.01, 4.0]
LENGTHS = [9, 3, 15, 6, 2, 12, 18, 5]


def train(net, batches):
    """Losses and gradient norms, before each step."""
    rate, beta1, beta2, eps, decay, clip = SETTINGS
    plain = [p for n, p in net.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    others = [p for n, p in net.named_parameters() if not (n.endswith("bias") or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW([{"params": others, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}],
                                  lr=rate, betas=(beta1, beta2), eps=eps)
    said = []
    for step in range(STEPS):
        batch = batches[step % BATCHES]
        loss = padded(net, "pretraining", batch)
        with torch.no_grad():
            labels = torch.stack([s["next_sentence_label"] for s in batch])
            logits = torch.cat([net(**{k: s[k][None] for k in ("input_ids", "token_type_ids")}).seq_relationship_logits
                                for s in batch])
            words = loss - torch.nn.functional.cross_entropy(logits, labels)
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        said.append((loss.item(), words.item(), norm.item()))
    return np.array(said).T


def make_training(seed):
    name = "bert-pretraining-0"
    net, draw = load(name), Draw(seed)
    batches = []
    for b in range(BATCHES):
        lengths = LENGTHS[b % 8:] + LENGTHS[:b % 8]
        inputs = [sequence_inputs(net, name, n, draw) for n in lengths]
        batches.append([s | goals(net, name, s, draw) for s in inputs])
    net32 = copy.deepcopy(net).float()
    losses, words, norms = train(net, batches)
    single = train(net32, batches)
    off = abs(single[0] - losses).max()
    if off > 2e-5:
        raise Unfit(f"losses of fp32 are {off:.1e} off")
    out = pack("pretraining", sum(batches, []))
    rows = [sum((s["labels"] != IGNORED).sum().item() for s in b) for b in batches]
    out["batch_sequences"] = np.arange(0, 8 * BATCHES + 1, 8, dtype=np.int32)
    out["batch_rows"] = np.cumsum([0] + rows).astype(np.int32)
    out |= {"settings": np.array(SETTINGS), "losses": losses, "mlm_losses": words, "norms": norms}
    return out, (f"fp32 - fp64 {off:.1e}, loss {losses[0]:.3f} to {losses[-1]:.3f}, norms {norms.min():.2f} to "
                 f"{norms.max():.2f}")


def make_fit(name, make):
    for attempt in range(100):
        try:
            out, text = make(100 + 1000 * attempt)
        except Unfit as why:
            print(f"{name:38} {why}: another seed")
            continue
        file = GRADIENTS / f"{name}.safetensors"
        safetensors.numpy.save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, file)
        return print(f"{name:38} {text}, {file.stat().st_size / 1000:.0f} kB")
    raise SystemExit(f"{name}: no seed makes a golden")


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    GRADIENTS.mkdir(exist_ok=True)
    wanted = set(sys.argv[1:])
    makers = {name: lambda seed, name=name: make(name, seed) for name in MODELS} | {"adamw-100-steps": make_training}
    for name, maker in makers.items():
        if not wanted or name in wanted:
            make_fit(name, maker)


if __name__ == "__main__":
    main()
