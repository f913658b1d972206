"""Arrays in .npz and .mat files, unpacked without trust: sizes are counted before memory is taken."""

from __future__ import annotations

import io
import lzma
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dapd.arrays import Array

HEADER = 128  # bytes of a .mat file before its first element
MATRIX, COMPRESSED = 14, 15  # types of its elements
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CHARACTERS, SPARSE, NUMERIC = 4, 5, range(6, 16)  # what a matrix contains
CHUNK = 2**20  # bytes that are unpacked at once


class Room:
    """The bytes that a file may still take."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, size: int, what: str = "its content") -> None:
        """Count bytes before they are taken; raise ValueError if there are too many."""
        self.taken += size
        if self.taken > self.most:
            raise ValueError(
                f"with {what} this takes {self.taken:.3g} bytes or more, and max_bytes is {self.most:.3g}; if that is "
                "meant, raise max_bytes in load(path, max_bytes=…) or by --max-bytes"
            )


def npz_arrays(content: bytes, room: Room) -> dict[str, Array]:
    """The arrays of a .npz file by name."""
    found: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                room.take(member.file_size)  # no more than this is unpacked
                found[member.filename.removesuffix(".npy")] = _npy(archive.read(member))
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, struct.error) as error:
        raise ValueError(f"this is not a .npz file of arrays of numbers ({error})") from None
    return found


def _npy(content: bytes) -> Array:
    """The array in a .npy file, if it is of the size that its header tells."""
    if not re.match(rb"\x93NUMPY[\x01-\x03]\x00", content):
        raise ValueError("this is not a .npz file of arrays of numbers")
    before = 10 if content[6] == 1 else 12
    start = before + int.from_bytes(content[8:before], "little")
    header = content[before:start].decode("latin-1")
    kind = re.search(r"'descr': *'([<>|=]?[?A-Za-z]\d*(?:\[\w+\])?)'", header)
    order = re.search(r"'fortran_order': *(True|False)", header)
    shape = re.search(r"'shape': *\(([\d, ]*)\)", header)
    if kind is None or kind[1].endswith("O") or order is None or shape is None:
        raise ValueError("this is not a .npz file of arrays of numbers")
    dtype, sizes = np.dtype(kind[1]), [int(size[:20]) for size in re.findall(r"\d+", shape[1])]
    if dtype.itemsize * math.prod(sizes) != len(content) - start:
        raise ValueError(f"this is not a .npz file of arrays of numbers: one of shape {tuple(sizes)} is incomplete")
    return np.frombuffer(content[start:], dtype).reshape(sizes, order="F" if order[1] == "True" else "C")


def mat_arrays(content: bytes, names: Sequence[str], room: Room) -> dict[str, Any]:
    """Those matrices of a .mat file that have one of the names; sparse ones in parts, as .npz files have them."""
    if 0 in content[:4]:  # version 4
        return _old_mat_arrays(content, names)
    order = {b"IM": "<", b"MI": ">"}.get(content[126:HEADER])
    if order is None:
        raise ValueError("this is not a .mat file")
    if content[124:126] in (b"\x00\x02", b"\x02\x00"):
        raise ValueError("this is a MATLAB 7.3 file; save it with -v7")
    found: dict[str, Any] = {}
    for kind, data in _elements(content[HEADER:], order):
        for inner, matrix in _elements(_inflated(data, room), order) if kind == COMPRESSED else [(kind, data)]:
            if inner == MATRIX:
                found.update(_named_matrix(matrix, order, names))
    return found


def _old_mat_arrays(content: bytes, names: Sequence[str]) -> dict[str, Any]:
    """By SciPy, whose reader of version 4 is in Python; that of version 5 crashes if a file is damaged."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        stored = loadmat(io.BytesIO(content), variable_names=names)
    except (MatReadError, ValueError, TypeError, OSError, LookupError, ArithmeticError, MemoryError) as error:
        raise ValueError(f"this is not a .mat file ({error})") from error
    return {name: stored[name] for name in names if name in stored}


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The elements of a part of a .mat file: their types and data."""
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start = at + 8
        if kind >> 16:  # a small element, with its data in place of the size
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + size > len(content) or (start == at + 4 and size > 4):
            raise ValueError("this is not a whole .mat file")
        yield kind, content[start : start + size]
        at = start + size if kind == COMPRESSED else start + size + -(start + size) % 8


def _inflated(packed: bytes, room: Room) -> bytes:
    stream, blocks = zlib.decompressobj(), []
    try:
        while packed and not stream.eof:
            blocks.append(stream.decompress(packed, CHUNK))
            room.take(len(blocks[-1]))
            packed = stream.unconsumed_tail
    except zlib.error as error:
        raise ValueError(f"this is not a whole .mat file: {error}") from None
    return b"".join(blocks)


def _named_matrix(content: bytes, order: str, names: Sequence[str]) -> dict[str, Any]:
    """A matrix by its name if it is one of the names."""
    parts = [(kind, data) for kind, data in _elements(content, order)]
    if len(parts) < 3 or len(parts[0][1]) < 8:
        raise ValueError("this is not a whole .mat file")
    (flags,) = struct.unpack_from(f"{order}I", parts[0][1])
    name = parts[2][1].decode("latin-1")
    if name not in names:
        return {}
    contains, is_complex = flags & 0xFF, flags & 0x800
    if is_complex or contains not in (SPARSE, *NUMERIC):
        what = "complex numbers" if is_complex else "text" if contains == CHARACTERS else "something else"
        raise ValueError(f"{name} must hold numbers, found {what}")
    shape, *arrays = (_numbers(*part, order) for part in (parts[1], *parts[3:]))
    if contains == SPARSE and len(arrays) == 3:
        rows, columns, data = arrays
        used = columns[-1] if columns.size else 0  # more may be allocated
        return {name: {"data": data[:used], "indices": rows[:used], "indptr": columns, "shape": shape}}
    if contains == SPARSE or len(arrays) != 1 or arrays[0].size != math.prod(shape.tolist()):
        raise ValueError(f"{name} of shape {tuple(shape.tolist())} is incomplete")
    return {name: arrays[0].reshape(shape, order="F")}


def _numbers(kind: int, data: bytes, order: str) -> Array:
    if kind not in NUMBERS or len(data) % np.dtype(NUMBERS[kind]).itemsize:
        raise ValueError("this is not a whole .mat file")
    return np.frombuffer(data, np.dtype(order + NUMBERS[kind]))
