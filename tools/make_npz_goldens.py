#!/usr/bin/env python3
"""Writes tests/golden/npz: small .npz files as NumPy writes them, and expected.safetensors with the same numbers.

  python tools/make_npz_goldens.py
"""
import io
import pathlib
import struct
import zipfile

import numpy as np
from safetensors.numpy import save_file

out = pathlib.Path(__file__).parent.parent / "tests/golden/npz"
out.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(4)
x = rng.standard_normal((3, 4, 5))
tensors = {
    "f4": x.astype("<f4"),
    "f2": x.astype("<f2"),
    "f8": x,
    "fortran": np.asfortranarray(x.astype("<f4")),
    "fortran/f8": np.asfortranarray(x[0]),
    "vector": np.arange(7, dtype="<f4"),
    "scalar": np.float32(2.5),
    "empty": np.zeros((0, 3), "<f4"),
    "bert/zeros/kernel": np.zeros((64, 32), "<f4"),  # deflates well
}


class Pipe(io.RawIOBase):
    """Cannot seek: sizes come after the data, in data descriptors."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


np.savez(out / "stored.npz", **tensors)
np.savez_compressed(out / "deflated.npz", **tensors)
with open(out / "streamed.npz", "wb") as f, zipfile.ZipFile(Pipe(f), "w", zipfile.ZIP_DEFLATED) as z:
    for name, value in tensors.items():
        with z.open(name + ".npy", "w") as entry:
            np.lib.format.write_array(entry, np.asanyarray(value))

# Python writes zip64 records for archives of 4 GB. The same by hand for a small one: sizes and places in extra
# fields, an end record of 64 bits and its locator.
npy = io.BytesIO()
np.save(npy, tensors["f4"])
data, name = npy.getvalue(), b"f4.npy"
crc = zipfile.crc32(data)
local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 33, crc, 2**32 - 1, 2**32 - 1, len(name), 20) + name
local += struct.pack("<HHQQ", 1, 16, len(data), len(data)) + data
central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 33, crc, 2**32 - 1, 2**32 - 1, len(name), 28,
                      0, 0, 0, 0, 2**32 - 1) + name + struct.pack("<HHQQQ", 1, 24, len(data), len(data), 0)
end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(central), len(local))
locator = struct.pack("<IIQI", 0x07064B50, 0, len(local) + len(central), 1)
end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
(out / "zip64.npz").write_bytes(local + central + end64 + locator + end)
assert np.array_equal(np.load(out / "zip64.npz")["f4"], tensors["f4"])

np.savez(out / "integers.npz", global_step=np.int64(7), flags=np.zeros(3, "|b1"))
np.savez(out / "pickled.npz", objects=np.array([{}, []], dtype=object))
np.savez(out / "big_endian.npz", x=np.arange(3, dtype=">f4"))
save_file({k: np.ascontiguousarray(v).astype("<f4").reshape(np.shape(v)) for k, v in tensors.items()},
          out / "expected.safetensors")
