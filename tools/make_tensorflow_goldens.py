#!/usr/bin/env python3
"""Writes tests/golden/tensorflow: checkpoints that TensorFlow made. Needs TensorFlow and nothing else (pip install
tensorflow-cpu).

    tools/make_tensorflow_goldens.py

few.ckpt holds a few tensors of many types; variables what Keras's way of naming gives; two has its numbers in
two files; bert/ and albert/ the numbers of
tests/golden/convert, in folders as Google's are.
"""
import pathlib
import shutil

import numpy as np
import tensorflow as tf

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
OUT = GOLDEN / "tensorflow"


def save(variables, prefix):
    """As tf.train.Saver does, which is how Google's BERT was saved."""
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        made = [tf.compat.v1.get_variable(name, initializer=tf.constant(value), use_resource=False)
                for name, value in variables.items()]
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver(made).save(session, str(prefix), write_meta_graph=False, write_state=False)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    six = np.arange(6, dtype=np.float32).reshape(2, 3)
    save({"a/kernel": six, "a/bias": np.array([1, 2], np.float16), "b": tf.ones([3], tf.bfloat16), "double": np.array([0.5]),
          "global_step": np.array(7, np.int64), "name": np.array(b"text"), "scalar": np.array(2.5, np.float32),
          "empty": np.zeros((0, 3), np.float32)}, OUT / "few.ckpt")
    checkpoint = tf.train.Checkpoint(layer=tf.Variable(six))
    checkpoint.write(str(OUT / "variables"))
    parts = {"a": np.array([1, 2], np.float32), "b": np.array([3, 4, 5], np.float32)}
    for name, value in parts.items():
        tf.raw_ops.SaveV2(prefix=str(OUT / f"part-{name}"), tensor_names=[name], shape_and_slices=[""], tensors=[value])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[str(OUT / f"part-{name}") for name in parts],
                                  destination_prefix=str(OUT / "two"), delete_old_dirs=False)
    for file in OUT.glob("part-*"):
        file.unlink()
    for family in ("bert", "albert"):  # as Google's folders are
        given, folder = GOLDEN / "convert" / family, OUT / family
        folder.mkdir()
        with np.load(given / "model.npz") as npz:
            save(dict(npz), folder / f"{family}_model.ckpt")
        shutil.copy(given / "config.json", folder / f"{family}_config.json")


if __name__ == "__main__":
    main()
