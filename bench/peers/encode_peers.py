"""The encoders that encode.py compares: each library in a process of its own, told what to do over pipes.

A process of its own for each, so that threads that spin for a while after a call (OpenMP's, ONNX Runtime's) cannot
slow down the next one: encode.py stops all but the one whose turn it is. Requests and answers are lines of JSON;
times are taken here, around the call alone.
"""

import ctypes
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

import numpy as np

GROUP = 8  # texts in a batch, where a mixed batch is sorted by length and cut


def padded(texts):
    """ids and mask, [B, longest]."""
    lengths = np.array([len(t) for t in texts])
    mask = (np.arange(lengths.max())[None] < lengths[:, None]).astype(np.int64)
    ids = np.zeros(mask.shape, np.int64)
    ids[mask == 1] = np.concatenate(texts)
    return ids, mask


class Peer:
    """One library with its variants. `call` takes texts that go into one batch, padded if their lengths differ."""

    variants = {}  # name: precision
    batchings = ["sorted, 8 at a time", "one by one", "padded"]

    def __init__(self, job):
        self.folder, self.work = pathlib.Path(job["folder"]), pathlib.Path(job["work"])
        self.threads, self.avx2, self.calibration = job["threads"], job["avx2"], job["calibration"]
        self.build = pathlib.Path(job["build"])
        self.bound = {}

    def made(self, name, make):
        """A converted model: made where it is not there yet, whole or not at all."""
        path = self.work / name
        if not path.exists():
            unfinished = self.work / f"unfinished-{name}"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.unlink(missing_ok=True)
            make(unfinished)
            unfinished.rename(path)
        return path

    def forms(self, variant):
        return ["-"]

    def ways(self, variant, texts, padded=False):
        """How a batch may be computed, most promising first: form of the graph, and how it is batched."""
        if padded and "padded" in self.batchings:
            return [(form, "padded") for form in self.forms(variant)]
        lengths = sorted(len(t) for t in texts)
        if lengths[0] == lengths[-1]:
            return [(form, "together") for form in self.forms(variant)]
        in_groups = sum(max(lengths[i:i + GROUP]) * len(lengths[i:i + GROUP]) for i in range(0, len(lengths), GROUP))
        worth = [b for b in self.batchings if b != "padded" or len(lengths) * lengths[-1] <= 2.5 * in_groups]
        return [(form, batching) for form in self.forms(variant) for batching in worth]

    def bind(self, variant, way, texts):
        """A function that computes them all."""
        form, batching = way
        if batching == "one by one":
            batches = [[t] for t in texts]
        elif batching == "sorted, 8 at a time":
            ordered = sorted(texts, key=len)
            batches = [ordered[i:i + GROUP] for i in range(0, len(ordered), GROUP)]
        else:
            batches = [texts]
        calls = [self.call(variant, form, batch) for batch in batches]
        return calls[0] if len(calls) == 1 else lambda: [call() for call in calls]

    def hidden(self, variant, texts):
        """Last hidden states of all tokens, each text computed alone."""
        form = self.forms(variant)[0]
        return np.concatenate([np.array(self.numbers(self.call(variant, form, [t])()))[0] for t in texts])

    def numbers(self, result):
        return result


class Bertie(Peer):
    variants = {"fp32": "fp32", "int8": "int8"}
    batchings = ["packed"]

    def __init__(self, job):
        super().__init__(job)
        source, here = pathlib.Path(__file__).with_name("bertie_encode.cc"), self.work / "bertie_encode.so"
        library = self.build / "libbertie.so"
        if not here.exists() or here.stat().st_mtime < max(source.stat().st_mtime, library.stat().st_mtime):
            include = pathlib.Path(__file__).resolve().parents[2] / "include"
            subprocess.run(["c++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", here, library,
                            f"-Wl,-rpath,{self.build}"], check=True)
        self.library, self.encoders = ctypes.CDLL(here), {}
        self.library.bertie_open.restype = ctypes.c_void_p
        self.library.bertie_open.argtypes = [ctypes.c_char_p, ctypes.c_int]
        self.library.bertie_encode.restype = ctypes.POINTER(ctypes.c_float)
        self.library.bertie_encode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        self.width = json.loads((self.folder / "config.json").read_text())["hidden_size"]

    def version(self):
        return subprocess.run([self.build / "bertie", "--version"], capture_output=True, text=True).stdout.split()[-1]

    def open(self, variant):
        folder = self.folder
        if variant == "int8":
            folder = self.made("bertie-int8", lambda to: subprocess.run(
                [self.build / "bertie", "quantize", self.folder, to, "-q"], check=True, stdout=sys.stderr))
        self.encoders[variant] = self.library.bertie_open(str(folder).encode(), self.threads)
        if not self.encoders[variant]:
            raise RuntimeError(f"{folder} cannot be loaded")

    def call(self, variant, form, texts):
        ids = np.concatenate(texts).astype(np.int32)
        offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
        encoder, count, rows = self.encoders[variant], len(texts), len(ids)

        def run():
            states = self.library.bertie_encode(encoder, ids.ctypes.data, offsets.ctypes.data, count)
            if not states:
                raise RuntimeError("bertie_encode failed")
            return states, rows
        return run

    def numbers(self, result):
        return np.ctypeslib.as_array(result[0], (1, result[1], self.width))


def without_avx512(package, library, work):
    """A copy of an installed package that sees no AVX-512; returns the folder it is in.

    For those that have no switch, because they ask the processor themselves. Before they use AVX-512 they read XCR0 to
    see which registers the system saves. In the copy each such place reads 7 instead: x87, SSE and AVX.
    """
    places = {  # xgetbv and what compilers put behind it, to make one number of eax and edx: mov eax, 7 in its place
        b"\x0f\x01\xd0\x89\xc0": b"\xb8\x07\x00\x00\x00",
        b"\x0f\x01\xd0\x48\xc1\xe2\x20\x89\xc0": b"\xb8\x07\x00\x00\x00\x31\xd2\x90\x90"}
    folder = work / f"{package}-avx2"
    if not folder.exists():
        original = pathlib.Path(importlib.util.find_spec(package).origin).parent
        unfinished = work / f"unfinished-{folder.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(original, unfinished / package)
        file = next((unfinished / package).glob(library))
        code = file.read_bytes()
        if not any(place in code for place in places):
            raise RuntimeError(f"found no place in {file.name} where AVX-512 could be masked off")
        for place, instead in places.items():
            code = code.replace(place, instead)
        file.write_bytes(code)
        unfinished.rename(folder)
    return str(folder)


class OnnxRuntime(Peer):
    """The fused graph in two forms (bert_onnx.py), without a mask where the batch needs none."""

    variants = {"fp32": "fp32", "int8 dynamic": "int8"}

    def __init__(self, job):
        super().__init__(job)
        if self.avx2:
            sys.path.insert(0, without_avx512("onnxruntime", "capi/onnxruntime_pybind11_state*.so", self.work.parent))
        import bert_onnx
        import onnxruntime
        self.ort, self.graphs, self.sessions = onnxruntime, bert_onnx, {}
        self.shape = bert_onnx.Shape.of(self.folder)

    def version(self):
        return self.ort.__version__

    def open(self, variant):
        self.session(variant, "attention", False)

    def forms(self, variant):
        return self.graphs.FORMS

    def graph(self, variant, form, masked):
        def build(to):
            import onnx
            onnx.save(self.graphs.build(self.shape, self.graphs.weights_of(self.folder), form, masked), to)

        def quantize(to):
            # On AVX2 a sum of two products of 8 bits saturates: weights of 7 bits are what ONNX Runtime advises.
            from onnx import TensorProto
            from onnxruntime.quantization import QuantType, quantize_dynamic
            quantize_dynamic(source, to, op_types_to_quantize=["MatMul", "Attention"], per_channel=True,
                             reduce_range=self.avx2, weight_type=QuantType.QInt8,
                             extra_options={"DefaultTensorType": TensorProto.FLOAT})

        name = f"{form}{'-masked' if masked else ''}"
        source = self.made(f"ort-{name}.onnx", build)
        return source if variant == "fp32" else self.made(f"ort-int8-{name}{'-7bit' if self.avx2 else ''}.onnx", quantize)

    def session(self, variant, form, masked):
        key = variant, form, masked
        if key not in self.sessions:
            options = self.ort.SessionOptions()
            options.intra_op_num_threads = self.threads
            options.inter_op_num_threads = 1
            options.execution_mode = self.ort.ExecutionMode.ORT_SEQUENTIAL
            options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            self.sessions[key] = self.ort.InferenceSession(str(self.graph(*key)), options,
                                                           providers=["CPUExecutionProvider"])
        return self.sessions[key]

    def call(self, variant, form, texts):
        """Without copies: inputs and output stay where they are."""
        ids, mask = padded(texts)
        session = self.session(variant, form, not mask.all())
        binding = session.io_binding()
        feeds = {"ids": ids.astype(np.int32)} | ({} if mask.all() else {"mask": mask.astype(np.int32)})
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        output = np.empty((*ids.shape, self.shape.hidden), np.float32)
        binding.bind_output("hidden", "cpu", 0, np.float32, output.shape, output.ctypes.data)

        def run(keep=feeds):  # the binding does not own its inputs
            session.run_with_iobinding(binding)
            return output
        return run


class OpenVino(Peer):
    """As converted from transformers' model. On a machine with bf16 it would compute fp32 models in bf16: told not to."""

    variants = {"fp32": "fp32", "int8 weights (nncf)": "int8", "int8 (nncf)": "int8", "int8 (nncf), the rest bf16": "int8"}

    def __init__(self, job):
        super().__init__(job)
        if self.avx2:  # oneDNN's switch leaves the fp32 products, which are MLAS'
            sys.path.insert(0, without_avx512("openvino", "libs/libopenvino_intel_cpu_plugin.so", self.work.parent))
        import openvino
        self.ov, self.core, self.requests = openvino, openvino.Core(), {}

    def version(self):
        return self.ov.__version__.split("-")[0]

    def open(self, variant):
        if variant.endswith("bf16") and (self.avx2 or "BF16" not in self.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")):
            raise NotImplementedError("no bf16 on this machine")
        self.request(variant, False)

    def converted(self, masked):
        def convert(to):
            import torch
            net = transformers_model(self.folder)
            ids = torch.randint(1000, 2000, (2, 16))
            example = {"input_ids": ids} | ({"attention_mask": torch.ones_like(ids)} if masked else {})
            to.mkdir()
            self.ov.save_model(self.ov.convert_model(net, example_input=example), to / "model.xml", compress_to_fp16=False)
        return self.made(f"openvino{'-masked' if masked else ''}", convert)

    def quantized(self, variant, masked):
        def quantize(to):
            import nncf
            model = self.core.read_model(self.converted(masked) / "model.xml")
            if "weights" in variant:
                model = nncf.compress_weights(model)
            else:
                feed = lambda text: dict(zip(["input_ids", "attention_mask"], padded([text])[:2 if masked else 1]))
                data = nncf.Dataset(self.calibration, feed)
                model = nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(self.calibration))
            to.mkdir()
            self.ov.save_model(model, to / "model.xml", compress_to_fp16=False)
        kind = "int8-weights" if "weights" in variant else "int8"
        return self.made(f"openvino-{kind}{'-masked' if masked else ''}", quantize)

    def request(self, variant, masked):
        key = variant, masked
        if key not in self.requests:
            folder = self.converted(masked) if variant == "fp32" else self.quantized(variant, masked)
            settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": self.threads,
                        "INFERENCE_PRECISION_HINT": "bf16" if variant.endswith("bf16") else "f32"}
            model = self.core.compile_model(folder / "model.xml", "CPU", settings)
            self.requests[key] = model.create_infer_request()
        return self.requests[key]

    def call(self, variant, form, texts):
        ids, mask = padded(texts)
        request = self.request(variant, not mask.all())
        tensors = [self.ov.Tensor(t, shared_memory=True) for t in ([ids] if mask.all() else [ids, mask])]

        def run():
            for index, tensor in enumerate(tensors):
                request.set_input_tensor(index, tensor)
            request.infer()
            return request
        return run

    def numbers(self, request):
        return request.get_output_tensor(0).data


class CTranslate2(Peer):
    """It drops padding by itself."""

    variants = {"fp32": "fp32", "int8": "int8"}

    def __init__(self, job):
        super().__init__(job)
        import ctranslate2
        self.ct2, self.encoders = ctranslate2, {}

    def version(self):
        return self.ct2.__version__

    def open(self, variant):
        def convert(to):
            # Its converter asks for an entry of config.json that transformers no longer fills in by itself.
            files = self.work / "ctranslate2-source"
            shutil.rmtree(files, ignore_errors=True)
            files.mkdir()
            for file in self.folder.iterdir():
                (files / file.name).symlink_to(file.resolve())
            config = json.loads((self.folder / "config.json").read_text())
            (files / "config.json").unlink()
            (files / "config.json").write_text(json.dumps({"position_embedding_type": "absolute"} | config))
            self.ct2.converters.TransformersConverter(str(files)).convert(str(to), quantization=quantization)
        quantization = None if variant == "fp32" else "int8_float32"
        path = self.made(f"ctranslate2-{variant}", convert)
        self.encoders[variant] = self.ct2.Encoder(str(path), device="cpu", inter_threads=1, intra_threads=self.threads,
                                                  compute_type="float32" if variant == "fp32" else "int8_float32")

    def call(self, variant, form, texts):
        encoder = self.encoders[variant]
        return lambda: encoder.forward_batch(texts)

    def numbers(self, result):
        return np.array(result.last_hidden_state)


def transformers_model(folder):
    import torch
    import transformers
    transformers.utils.logging.set_verbosity_error()
    return transformers.BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="sdpa",
                                                  dtype=torch.float32).eval()


class PyTorch(Peer):
    variants = {"fp32": "fp32", "fp32 compiled": "fp32", "int8 dynamic": "int8"}

    def __init__(self, job):
        super().__init__(job)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self.work.parent / "inductor"))
        import torch
        import torch._inductor.config
        torch.set_num_threads(self.threads)
        torch._inductor.config.freezing = True  # weights packed when it is compiled
        torch._dynamo.config.recompile_limit = 64
        self.torch, self.nets = torch, {}

    def version(self):
        return self.torch.__version__.split("+")[0]

    def open(self, variant):
        net = transformers_model(self.folder)
        if variant == "int8 dynamic":
            net = self.torch.ao.quantization.quantize_dynamic(net, {self.torch.nn.Linear}, dtype=self.torch.qint8)
        self.nets[variant] = net
        if variant == "fp32 compiled":
            self.nets[variant] = self.torch.compile(net, dynamic=True)

    def call(self, variant, form, texts):
        net = self.nets[variant]
        ids, mask = map(self.torch.from_numpy, padded(texts))
        feeds = {"input_ids": ids} | ({} if mask.all() else {"attention_mask": mask})

        def run():
            with self.torch.no_grad():
                return net(**feeds).last_hidden_state
        return run

    def numbers(self, result):
        return result.numpy()


PEERS = {"Bertie": Bertie, "ONNX Runtime": OnnxRuntime, "OpenVINO": OpenVino, "CTranslate2": CTranslate2,
         "PyTorch": PyTorch}


def timed(run):
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e3


class Worker:
    def __init__(self, job):
        self.peer = PEERS[job["peer"]](job)

    def version(self):
        return self.peer.version()

    def open(self, variant):
        self.peer.open(variant)

    def hidden(self, variant, texts, to):
        np.save(to, self.peer.hidden(variant, texts))

    def bind(self, variant, shape, texts, way):
        """Gets ready for a batch, warmed on a part of it. Where no way is given, takes the one that is quickest there; of a
        shape "…-padded" all texts as long as the longest."""
        part = texts[:2 * GROUP]
        way = tuple(way or self.quickest(variant, part, shape.endswith("-padded")))
        self.peer.bind(variant, way, part)()
        self.peer.bound[variant, shape] = self.peer.bind(variant, way, texts)
        return way

    def quickest(self, variant, texts, padded):
        ways = self.peer.ways(variant, texts, padded)
        if len(ways) == 1:
            return ways[0]
        runs = {way: self.peer.bind(variant, way, texts) for way in ways}
        first = {way: timed(run) for way, run in runs.items()}
        close = [way for way in ways if first[way] < 3 * min(first.values())]
        return min(close, key=lambda way: min(timed(runs[way]) for _ in range(3)))

    def run(self, variant, shape, seconds):
        run, taken, started = self.peer.bound[variant, shape], [], time.perf_counter()
        while not taken or time.perf_counter() - started < seconds:
            taken.append(timed(run))
        return taken

    def free(self, shape):
        for key in [key for key in self.peer.bound if key[1] == shape]:
            del self.peer.bound[key]


def main():
    """Reads a job, then requests, and writes an answer to each. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if worker is None:
                worker, result = Worker(request), "ready"
            else:
                result = getattr(worker, request.pop("do"))(**request)
            answer = {"result": result}
        except Exception as error:
            traceback.print_exc()
            reason = str(error).strip().splitlines() or [type(error).__name__]
            answer = {"error": f"{type(error).__name__}: {reason[0][:200]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
