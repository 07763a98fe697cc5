#!/usr/bin/env python3
"""Clients that nobody here wrote, unchanged, against `bertie serve`; their answers beside the command line's.

    python3 -m venv .venv && .venv/bin/pip install openai huggingface_hub langchain-openai cohere numpy
    .venv/bin/python tools/try_clients.py [--model all-MiniLM-L6-v2]

Without --model the vectors are those of a small model with random weights; the other tasks have such models anyway.
"""
import argparse
import json
import pathlib
import subprocess
import shutil
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "tasks"
MODELS = {"fill": "fill-mask-bert", "classify": "text-classification-bert", "tag": "token-classification-bert",
          "answer": "question-answering-bert", "write": "text-generation-gpt2", "rerank": "text-classification-albert"}
TEXTS = ["hello world", "The bank of the river.", "Größe, 你好 🙂", "a"]


def command_line(bertie, command, *words, model):
    printed = subprocess.run([bertie, command, "-m", str(model), "--json", "-q", *words], check=True, capture_output=True,
                             text=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bertie", default=str(ROOT / "build" / "bertie"))
    p.add_argument("--model", default=str(GOLDEN / "sentence-similarity-bert"))
    p.add_argument("--port", type=int, default=8095)
    a = p.parse_args()
    import cohere
    import huggingface_hub
    import langchain_openai
    import numpy
    import openai

    url = f"http://127.0.0.1:{a.port}"
    nli = pathlib.Path(tempfile.mkdtemp()) / "nli"  # the classifier with the labels of inference
    shutil.copytree(GOLDEN / MODELS["classify"], nli)
    config = (nli / "config.json").read_text()
    (nli / "config.json").write_text(config.replace("negative", "contradiction").replace("positive", "entailment"))
    server = subprocess.Popen([a.bertie, "serve", f"vectors={a.model}", *(f"{n}={GOLDEN / m}" for n, m in MODELS.items()),
                               f"nli={nli}", "--port", str(a.port), "-q"])
    failures = 0

    def check(what, got, expected):
        nonlocal failures
        good = got == expected
        failures += not good
        print(("ok    " if good else "WRONG ") + what + ("" if good else f"\n  got      {str(got)[:300]}\n  expected {str(expected)[:300]}"))

    def float32(rows):
        return numpy.asarray(rows, dtype=numpy.float32).tolist()

    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(url + "/ready")
                break
            except OSError:
                time.sleep(0.05)
        rows = float32([r["vector"] for r in command_line(a.bertie, "embed", *TEXTS, model=a.model)])
        # OpenAI's vectors have length 1; the command line's have where the model's files say so.
        unit = [(numpy.float32(numpy.array(r, dtype=numpy.float64) / numpy.linalg.norm(numpy.array(r, dtype=numpy.float64)))).tolist()
                for r in rows]
        near = lambda x, y: bool(numpy.allclose(x, y, atol=1e-6))
        normalized = near(rows, unit)

        def same_vectors(what, got):
            check(what, float32(got) == rows if normalized else near(got, unit), True)

        client = openai.OpenAI(base_url=url + "/v1", api_key="none")
        same_vectors("openai: embeddings (base64, its default)",
                     [d.embedding for d in client.embeddings.create(model="vectors", input=TEXTS).data])
        same_vectors("openai: embeddings as floats",
                     [d.embedding for d in client.embeddings.create(model="vectors", input=TEXTS, encoding_format="float").data])
        check("openai: models", [m.id for m in client.models.list().data], ["vectors", *MODELS, "nli"])
        check("openai: one model", client.models.retrieve("tag").id, "tag")
        try:
            client.embeddings.create(model="no-such", input="a")
            check("openai: an unknown model", "an answer", "NotFoundError")
        except openai.NotFoundError as error:
            check("openai: an unknown model", error.code, "model_not_found")

        chain = langchain_openai.OpenAIEmbeddings(base_url=url + "/v1", api_key="none", model="vectors",
                                                  check_embedding_ctx_length=False)
        same_vectors("langchain-openai: embed_documents", chain.embed_documents(TEXTS))

        hub = lambda task, model=None: huggingface_hub.InferenceClient(
            model=f"{url}/models/{model}/pipeline/{task}" if model else f"{url}/pipeline/{task}")
        vectors = hub("feature-extraction").feature_extraction(TEXTS[0])
        check("huggingface_hub: feature_extraction", float32(numpy.asarray(vectors).reshape(-1)), rows[0])
        line = command_line(a.bertie, "fill-mask", "Paris is the [MASK] of France.", model=GOLDEN / MODELS["fill"])[0]
        filled = hub("fill-mask", "fill").fill_mask("Paris is the [MASK] of France.", top_k=3)
        check("huggingface_hub: fill_mask", [(f.token, f.score, f.sequence) for f in filled],
              [(f["id"], f["score"], f["sequence"]) for f in line["masks"][0][:3]])
        line = command_line(a.bertie, "classify", "A fine film.", model=GOLDEN / MODELS["classify"])[0]
        labels = hub("text-classification", "classify").text_classification("A fine film.")
        check("huggingface_hub: text_classification", [(x.label, x.score) for x in labels],
              [(x["label"], x["score"]) for x in line["labels"]])
        line = command_line(a.bertie, "tag", "Ada Lovelace lived in London.", model=GOLDEN / MODELS["tag"])[0]
        entities = hub("token-classification", "tag").token_classification("Ada Lovelace lived in London.")
        check("huggingface_hub: token_classification", [(e.entity_group, e.score, e.start, e.end) for e in entities],
              [(e["label"], e["score"], e["start"], e["end"]) for e in line["entities"]])
        context = "Ada wrote it in the winter."
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(context)
            file.flush()
            line = command_line(a.bertie, "answer", "Who wrote it?", "--context", file.name, model=GOLDEN / MODELS["answer"])[0]
        answer = hub("question-answering", "answer").question_answering(question="Who wrote it?", context=context)
        check("huggingface_hub: question_answering", (answer.answer, answer.score, answer.start),
              tuple(line["answers"][0][key] for key in ("answer", "score", "start")))
        alike = hub("sentence-similarity").sentence_similarity("a river", other_sentences=["a stream", "money"])
        line = command_line(a.bertie, "similar", "--query", "a river", "a stream", "money", model=a.model)
        cosines = [r["score"] for r in sorted(line, key=lambda r: r["index"])]
        check("huggingface_hub: sentence_similarity", float32(alike), float32(cosines))
        subjects = ["praise", "sport", "war"]
        choices = hub("zero-shot-classification", "nli").zero_shot_classification("A fine film.", subjects)
        lines = [command_line(a.bertie, "pair", "--apply", "nothing", "A fine film.", f"This example is {s}.", model=nli)[0] for s in subjects]
        entailed = numpy.array([next(x["score"] for x in one["labels"] if x["label"] == "entailment") for one in lines])
        shares = dict(zip(subjects, numpy.exp(entailed) / numpy.exp(entailed).sum()))
        check("huggingface_hub: zero_shot_classification", near([c.score for c in choices], [shares[c.label] for c in choices]), True)
        written = hub("text-generation", "write").text_generation("Once upon", max_new_tokens=5)
        line = command_line(a.bertie, "generate", "Once upon", "--max-new-tokens", "5", model=GOLDEN / MODELS["write"])[0]
        check("huggingface_hub: text_generation", written, line["generated"])

        ranker = cohere.ClientV2(base_url=url, api_key="none")
        ranked = ranker.rerank(model="vectors", query="a river", documents=["a stream", "money"], top_n=2)
        check("cohere: rerank", float32([r.relevance_score for r in sorted(ranked.results, key=lambda r: r.index)]), float32(cosines))
    finally:
        server.terminate()
        check("the server ends by itself", server.wait(20), 0)
        shutil.rmtree(nli.parent)
    print(f"{failures} wrong" if failures else "all as they should be")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
