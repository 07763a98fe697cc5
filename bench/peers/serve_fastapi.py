#!/usr/bin/env python3
"""A service of embeddings as people write it: FastAPI, sentence-transformers with ONNX Runtime, requests batched.

    .venv/bin/python bench/peers/serve_fastapi.py MODEL --port 8098 [--backend torch] [--batch 32] [--wait 0.002]

For bench/peers/serve_beside.py. POST /embed {"inputs": "text"} gives [[…]].
"""
import argparse
import asyncio
import concurrent.futures

import fastapi
import sentence_transformers
import uvicorn


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--port", type=int, default=8098)
    p.add_argument("--backend", default="onnx")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--wait", type=float, default=0.002)
    a = p.parse_args()
    model = sentence_transformers.SentenceTransformer(a.model, backend=a.backend, device="cpu",
                                                      model_kwargs={"export": True} if a.backend == "onnx" else {})
    app = fastapi.FastAPI()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    queue = asyncio.Queue()

    async def work():
        loop = asyncio.get_running_loop()
        while True:
            waiting = [await queue.get()]
            end = loop.time() + a.wait
            while len(waiting) < a.batch:
                try:
                    waiting.append(await asyncio.wait_for(queue.get(), max(0, end - loop.time())))
                except asyncio.TimeoutError:
                    break
            texts = [text for text, _ in waiting]
            vectors = await loop.run_in_executor(pool, lambda: model.encode(texts, batch_size=a.batch, show_progress_bar=False))
            for (_, future), vector in zip(waiting, vectors):
                future.set_result(vector.tolist())

    @app.on_event("startup")
    async def start():
        asyncio.create_task(work())

    @app.post("/embed")
    async def embed(body: dict):
        future = asyncio.get_running_loop().create_future()
        await queue.put((body["inputs"], future))
        return [await future]

    uvicorn.run(app, port=a.port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
