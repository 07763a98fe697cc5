#!/usr/bin/env python3
"""Makes small models with tokenizers, and what Hugging Face's pipelines answer with them.

    .venv/bin/python tools/make_pipeline_goldens.py [NAME ...]     # tests/golden/tasks, or these folders alone
    .venv-qa/bin/python tools/make_pipeline_goldens.py             # question answering: requirements-question-answering.txt

transformers 5 has no question-answering pipeline; the last release that has it makes those folders. Each run
makes what its transformers can.

tests/golden/tasks/<task>-<family>/
    config.json, model.safetensors (F16), tokenizer.json, tokenizer_config.json      a model as one downloads it
    cases.json      {"task", "cases": [{"inputs", "parameters", "outputs"}]}; outputs are the pipeline's, with
                    offsets in characters and scores to seven digits. Tasks without a pipeline:
        next-sentence         inputs {"text", "text_pair"}; outputs {"is_next", "random"}: softmax of the logits
        sentence-similarity   inputs {"text", "text_pair"}; outputs {"cosine"} of the means over all tokens'
                              last hidden states, [CLS] and [SEP] included
      text-generation adds "token_ids", the new ids, to the pipeline's output.
Weights are random and large, so that answers are diverse. Everything is also run with weights changed by 1e-5 of
themselves: a model whose labels, spans or order change is not taken, so equal answers do not hang on rounding.
"""

import copy
import functools
import json
import pathlib
import shutil
import sys
import warnings

import numpy as np
import torch
import transformers
from tokenizers import (
    AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)
from transformers import AutoTokenizer, pipeline

from make_family_goldens import FAMILY_HEADS, HEADS, Unfit, randomize, round_weights

TASKS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tasks"
HAS_QA = hasattr(transformers, "QuestionAnsweringPipeline")

PROSE = [
    "Anna Lindqvist came to Gothenburg in 1912 and opened a small bakery near the old harbour.",
    "The bank deposited the money near the river bank, and nobody noticed until Thursday.",
    "Dr. O'Neill, who had lived in Marrakesh for years, wrote an unfinished letter to the museum.",
    "My neighbour's daughter plays the violin; her brother repairs clocks, radios and bicycles.",
    "It was raining when the night watchman found two red umbrellas beside the railway station.",
    "Professor Tanaka of Kyoto University believes that the comet will return in seventy-six years.",
    "The committee of the Northern Shipping Company met in Rotterdam, but Mr. de Vries was absent.",
    "Please remember to water the orchard, feed the cat and lock the observatory before you leave.",
    "What a wonderful, terrible, unforgettable evening! The soup was cold and the singing was warm.",
    "Nobody knows why the lighthouse keeper counted the waves, or whether he ever reached a million.",
    "In the village of Sant'Elena people say that a well-kept secret is worth more than three coins.",
    "The engineer measured the bridge again: 48.5 metres, exactly as the wrong map had promised.",
    "Maria Fernandes sold the Lisbon office to her cousin João and moved to the mountains of Peru.",
    "Reading slowly is not the same as reading badly, said the archivist, closing the heavy door.",
    "A quiet winter followed, with little snow, long nights and unusually many visitors from abroad."]
LONG = " ".join(PROSE[k] for k in (0, 5, 6, 12, 2, 10, 4))
SENTIMENT = ["negative", "neutral", "positive"]
TOPICS = ["sport", "politics", "science", "art", "business", "weather", "travel"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def corpus():
    license_text = (TASKS.parent.parent.parent / "LICENSE").read_text()
    return PROSE * 6 + license_text.split("\n\n")


# Tokenizers, in the form that each family's own class saves.

def pieces(lower):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=480, special_tokens=special, show_progress=False))
    ids = [(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")]
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ids)
    t.decoder = decoders.WordPiece(prefix="##")
    names = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], special))
    return t, names | {"do_lower_case": lower, "tokenize_chinese_chars": True, "strip_accents": None}


def bytes_of_roberta():
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    mask = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False,
            "single_word": False, "special": True}
    return t, {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>",
               "pad_token": "<pad>", "mask_token": mask, "add_prefix_space": False, "trim_offsets": True}


def bytes_of_gpt2():
    end = "<|endoftext|>"
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=600, special_tokens=[end], initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t, {"bos_token": end, "eos_token": end, "unk_token": end, "add_prefix_space": False}


def unigram():
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, special=True)]
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")])
    t.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False))
    ids = [("[CLS]", 2), ("[SEP]", 3)]
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ids)
    mask = {"__type": "AddedToken", "content": "[MASK]", "lstrip": True, "normalized": False, "rstrip": False,
            "single_word": False, "special": True}
    # Without the list of inputs transformers 5 leaves ALBERT's types out of pairs.
    return t, {"bos_token": "[CLS]", "eos_token": "[SEP]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "<unk>",
               "pad_token": "<pad>", "mask_token": mask, "do_lower_case": True, "keep_accents": False,
               "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}


@functools.cache
def tokenizer_of(family, cased):
    if family in ("bert", "distilbert"):
        return pieces(not cased)
    return {"roberta": bytes_of_roberta, "gpt2": bytes_of_gpt2, "albert": unigram}[family]()


@functools.cache
def kept_tokenizers():
    """Training breaks ties by chance, so tokenizers that are there stay: text by (kind, cased)."""
    kept = {}
    for name, (family, *_) in FOLDERS.items():
        file = TASKS / name / "tokenizer.json"
        if file.exists():
            kept.setdefault(("pieces" if family in ("bert", "distilbert") else family, name in CASED), file.read_text())
    return kept


def save_tokenizer(folder, family, cased, longest):
    t, settings = tokenizer_of(family, cased)
    kept = kept_tokenizers().setdefault(("pieces" if family in ("bert", "distilbert") else family, cased), t.to_str(pretty=True))
    t = Tokenizer.from_str(kept)
    kind = {"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta", "gpt2": "GPT2", "albert": "Albert"}[family]
    (folder / "tokenizer.json").write_text(kept)
    settings = settings | {"model_max_length": longest, "tokenizer_class": kind + "Tokenizer",
                           "clean_up_tokenization_spaces": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    loaded = AutoTokenizer.from_pretrained(folder)
    for a, b in [(LONG, None), (PROSE[0], PROSE[9]), ("Ünïcode — naïve 12%", None)]:
        ours, theirs = t.encode(a, b) if b else t.encode(a), loaded(a, b, return_offsets_mapping=True)
        assert ours.ids == theirs["input_ids"] and ours.offsets == theirs["offset_mapping"]
    return loaded


# Models.

def make_net(family, head, longest, vocab, seed, labels):
    more = {"vocab_size": vocab, "attn_implementation": "eager", **labels}
    if family == "gpt2":
        config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=3, n_inner=50, n_positions=longest, bos_token_id=0,
                                         eos_token_id=0, **more)
    elif family == "distilbert":
        config = transformers.DistilBertConfig(dim=24, n_layers=2, n_heads=4, hidden_dim=48,
                                               max_position_embeddings=longest, **more)
    elif family == "albert":
        config = transformers.AlbertConfig(
            hidden_size=28, embedding_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40,
            max_position_embeddings=longest, **more)
    elif family == "roberta":
        config = transformers.RobertaConfig(
            hidden_size=20, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, type_vocab_size=1,
            max_position_embeddings=longest + 2, layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2,
            **more)
    else:
        config = transformers.BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
                                         intermediate_size=48, max_position_embeddings=longest, **more)
    torch.manual_seed(seed)
    net = getattr(transformers, FAMILY_HEADS[family][0] + HEADS[head])(config).eval()
    generator = torch.Generator().manual_seed(seed)
    randomize(net, generator, 0.35)
    round_weights(net, torch.float16)
    return net


def shaken(net, seed):
    net, generator = copy.deepcopy(net), torch.Generator().manual_seed(seed + 1)
    for p in net.parameters():
        p.data *= 1 + 1e-5 * torch.randn(p.shape, generator=generator)
    return net


# What each task answers: a function of inputs and parameters.

def by_pipeline(task, net, tokenizer):
    p = pipeline(task, model=net, tokenizer=tokenizer, device="cpu")
    if task == "question-answering":
        return lambda inputs, parameters: p(**inputs, **parameters)
    return p_with_ids(p) if task == "text-generation" else lambda inputs, parameters: p(inputs, **parameters)


def p_with_ids(p):
    def answer(prompt, parameters):
        more = parameters | {"do_sample": False, "pad_token_id": 0}
        text = p(prompt, **more)[0]["generated_text"]
        ids = p(prompt, return_tensors=True, **more)[0]["generated_token_ids"]
        return {"generated_text": text, "token_ids": list(map(int, ids[len(p.tokenizer(prompt)["input_ids"]):]))}
    return answer


def next_sentence(net, tokenizer):
    def answer(inputs, _):
        with torch.no_grad():
            scores = net(**tokenizer(**inputs, return_tensors="pt")).logits[0].softmax(-1).tolist()
        return {"is_next": scores[0], "random": scores[1]}
    return answer


def similarity(net, tokenizer):
    def mean(text):
        with torch.no_grad():
            return net(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
    return lambda inputs, _: {"cosine": torch.cosine_similarity(mean(inputs["text"]), mean(inputs["text_pair"]), 0).item()}


OWN = {"next-sentence": next_sentence, "sentence-similarity": similarity}


def plain(value):
    """As JSON has it; scores to seven digits."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.7g}")
    return int(value) if isinstance(value, np.integer) else value


def same(a, b):
    """Equal, but for scores."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(b, float) and abs(a - b) < 1e-3 if isinstance(a, float) else a == b


# Cases.

def fill_mask(mask):
    texts = [f"The {mask} is closed on Thursday.", f"{mask} came to the harbour in 1912.", f"It was raining in {mask}"]
    targets = [" museum", " letter", " winter"] if mask == "<mask>" else ["museum", "letter", "winter"]
    return [(t, {"top_k": 5}) for t in texts] + [
        (f"The {mask} found a {mask} beside the old {mask}.", {"top_k": 5}),
        (f"Nobody knows why the {mask} keeper counted the {mask}.", {"top_k": 3}),
        (f"Please remember the {mask} before you leave.", {"top_k": 5, "targets": targets}),
        (f"A quiet {mask} followed, naïve façade included!", {"top_k": 1})]


CLASSIFY = [(t, {}) for t in PROSE[:6]] + [
    (PROSE[8], {"top_k": None}), (PROSE[13], {"top_k": 2}), ({"text": PROSE[0], "text_pair": PROSE[1]}, {}),
    ({"text": "Is the bridge long?", "text_pair": PROSE[11]}, {"top_k": None}),
    (PROSE[7], {"function_to_apply": "sigmoid", "top_k": None}), (PROSE[9], {"function_to_apply": "none", "top_k": None})]
TAG = [(t, {"aggregation_strategy": s}) for s in ("none", "simple", "first", "average", "max")
       for t in (PROSE[6], PROSE[12], "Zoë Müller-Østergård met João at 10:45 in Kraków.")]
TAG += [(LONG, {"aggregation_strategy": s, "stride": k}) for s, k in [("simple", 8), ("first", 0), ("average", 16), ("max", 5)]]
TAG += [(PROSE[2], {"aggregation_strategy": "simple", "ignore_labels": []})]


def ask(question, context, **parameters):
    return {"question": question, "context": context}, parameters


ANSWER = [
    ask("Who opened a bakery?", PROSE[0], top_k=3), ask("Where did the committee meet?", PROSE[6], top_k=3),
    ask("Who wrote a letter?", PROSE[2]), ask("What did Maria sell?", PROSE[12], top_k=3, handle_impossible_answer=True),
    ask("Who sings?", "The soup was cold.", top_k=15, handle_impossible_answer=True),  # nearly every span, and none
    ask("What was cold?", PROSE[8], handle_impossible_answer=True), ask("How long is the bridge?", PROSE[11], top_k=3, max_answer_len=3),
    ask("When will the comet return?", LONG, top_k=3, doc_stride=16), ask("Where is the museum?", LONG, top_k=3),
    ask("Who moved to Peru?", LONG, top_k=5, doc_stride=8, max_answer_len=6, handle_impossible_answer=True),
    ask("Who found umbrellas?", PROSE[4], top_k=3, align_to_words=False),
    ask("What is worth more than three coins?", LONG, top_k=2, max_seq_len=48, doc_stride=20)]
GENERATE = [("The bank", {"max_new_tokens": 12}), (PROSE[3], {"max_new_tokens": 8}), ("Anna Lindqvist came to", {"max_new_tokens": 20}),
            ("naïve —", {"max_new_tokens": 6}), ("It", {"max_new_tokens": 1})]
PAIRS = [({"text": a, "text_pair": b}, {}) for a, b in zip(PROSE, PROSE[1:] + PROSE[:1])]


def named(names, **more):
    return {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}, **more}


# name: family, head, longest input, cases, what the config says of labels
FOLDERS = {
    "fill-mask-bert": ("bert", "masked-lm", 64, fill_mask("[MASK]"), {}),
    "fill-mask-distilbert": ("distilbert", "masked-lm", 64, fill_mask("[MASK]"), {}),
    "fill-mask-roberta": ("roberta", "masked-lm", 64, fill_mask("<mask>"), {}),
    "fill-mask-albert": ("albert", "masked-lm", 64, fill_mask("[MASK]"), {}),
    "text-classification-bert": ("bert", "sequence-classification", 128, CLASSIFY, named(SENTIMENT)),
    "text-classification-distilbert": ("distilbert", "sequence-classification", 128, CLASSIFY,
                                       named(TOPICS, problem_type="multi_label_classification")),
    "text-classification-roberta": ("roberta", "sequence-classification", 128, CLASSIFY, named(TOPICS)),
    "text-classification-albert": ("albert", "sequence-classification", 128, CLASSIFY,
                                   named(["similarity"], problem_type="regression")),
    "text-classification-gpt2": ("gpt2", "sequence-classification", 128, CLASSIFY, named(SENTIMENT)),
    "token-classification-bert": ("bert", "token-classification", 48, TAG, named(TAGS)),
    "token-classification-distilbert": ("distilbert", "token-classification", 48, TAG, named(TAGS)),
    "token-classification-roberta": ("roberta", "token-classification", 64, TAG, named(TAGS)),
    "token-classification-albert": ("albert", "token-classification", 56, TAG, named(TAGS)),
    "question-answering-bert": ("bert", "question-answering", 64, ANSWER, {}),
    "question-answering-distilbert": ("distilbert", "question-answering", 72, ANSWER, {}),
    "question-answering-roberta": ("roberta", "question-answering", 80, ANSWER, {}),
    "text-generation-gpt2": ("gpt2", "causal-lm", 72, GENERATE, {}),
    "next-sentence-bert": ("bert", "next-sentence", 128, PAIRS, {}),
    "sentence-similarity-bert": ("bert", "base", 128, PAIRS, {}),
    "sentence-similarity-roberta": ("roberta", "base", 128, PAIRS, {}),
}
CASED = {"token-classification-bert", "question-answering-distilbert"}


def diverse(task, outputs):
    """Whether answers differ enough to prove something."""
    if task == "fill-mask":
        return len({o[0]["token"] for o in outputs if isinstance(o[0], dict)}) > 2
    if task == "text-classification":
        best = [o[0]["label"] if isinstance(o, list) else o["label"] for o in outputs]
        scores = [round(o[0]["score"] if isinstance(o, list) else o["score"], 3) for o in outputs]
        return len(set(best)) > 1 or len(set(scores)) > 6 and "similarity" in best
    if task == "token-classification":
        spans = [e for o in outputs for e in o if "entity_group" in e]
        return (all(outputs) and len({e["entity_group"] for e in spans}) > 1
                and sum(" " in e["word"].strip() for e in spans) > 4 and len(outputs[-2]) > 6)
    if task == "question-answering":
        first = [o[0] if isinstance(o, list) else o for o in outputs]
        texts = [a["answer"] for a in first]
        null = any(a["answer"] == "" for o in outputs if isinstance(o, list) for a in o)
        return len(set(texts)) > 6 and sum(" " in t for t in texts) > 4 and null
    return True


def make_folder(name, seed):
    family, head, longest, cases, labels = FOLDERS[name]
    folder, task = TASKS / name, name.rsplit("-", 1)[0]
    kept_tokenizers()  # before any is removed
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = save_tokenizer(folder, family, name in CASED, longest)
    net = make_net(family, head, longest, len(tokenizer), seed, labels)
    make = OWN.get(task, functools.partial(by_pipeline, task))
    answer, shaken_answer = make(net, tokenizer), make(shaken(net, seed), tokenizer)
    answers = []
    for inputs, parameters in cases:
        outputs = plain(answer(copy.deepcopy(inputs), dict(parameters)))
        if not same(outputs, plain(shaken_answer(copy.deepcopy(inputs), dict(parameters)))):
            raise Unfit(f"{inputs} hangs on rounding")
        answers.append({"inputs": inputs, "parameters": parameters, "outputs": outputs})
    if not diverse(task, [a["outputs"] for a in answers]):
        raise Unfit("the answers are all alike")
    copy.deepcopy(net).half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    lines = ",\n".join(json.dumps(a, ensure_ascii=False, indent=1) for a in answers)
    (folder / "cases.json").write_text(f'{{"task": "{task}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{name:34} {len(cases)} cases, {sum(f.stat().st_size for f in folder.iterdir()) / 1000:.0f} kB")


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    wanted = set(sys.argv[1:])
    for number, name in enumerate(FOLDERS):
        if wanted and name not in wanted or name.startswith("question-answering") != HAS_QA:
            continue
        for attempt in range(200):
            try:
                make_folder(name, 100 * number + 10000 * attempt)
                break
            except Unfit as why:
                print(f"{name:34} {why}: another seed")
        else:
            raise SystemExit(f"{name}: no seed makes a golden")


if __name__ == "__main__":
    main()
