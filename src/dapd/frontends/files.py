"""Quadratic programs in files: .npz, .mat, .json, .qps, .mps and .lp, each perhaps packed as .gz.

A file holds ½xᵀPx + qᵀx + r subject to l ≤ Ax ≤ u and lb ≤ x ≤ ub under these names; only P or q is required. Numbers
of 1e20 or more mean that there is no limit. In .npz and .json files a sparse matrix is stored in parts, see `_sparse`.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd import Problem, Result
from dapd.arguments import near_miss, number, real, whole
from dapd.arrays import Array
from dapd.frontends.containers import Room, mat_arrays, npz_arrays
from dapd.frontends.lines import WrongLine
from dapd.frontends.lp_format import read_lp
from dapd.frontends.mps_format import read_mps
from dapd.frontends.rows import as_limits
from dapd.operators.convert import as_sparse
from dapd.problems.quadratic import qp
from dapd.solving.result import plain
from dapd.spectrum.symmetric import check_symmetric

MAX_BYTES = 4 * 10**9
CHUNK = 2**20  # bytes that are unpacked at once
DIGITS = 18  # of whole numbers that are stored as such; longer ones become floats
FIELDS = ("P", "q", "r", "A", "l", "u", "lb", "ub")
PARTS = ("data", "indices", "indptr", "shape")  # of a CSC matrix, as SciPy names them


class FileError(ValueError):
    """A file that cannot be read; the message is one line with the place of the fault."""


class Loaded(NamedTuple):
    """A problem from a file."""

    problem: Problem
    name: str
    constant: float  # r
    sign: float  # −1 if the file maximises: the problem minimises the negative

    def objective(self, result: Result) -> float:
        """The objective as the file states it."""
        return self.sign * (result.objective + self.constant)


def load(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Loaded:
    """Read a problem; raise FileError, or OSError if there is no such file.

    Parameters
    ----------
    path : path of a .npz, .mat, .json, .qps, .mps or .lp file, or of one with .gz appended
    max_bytes : int
        What the file may take when it is unpacked, with the arrays that it asks for: 4e9 by default.
    """
    path, room = Path(path), Room(whole("max_bytes", max_bytes, least=1))
    if path.is_dir():
        raise FileError(f"{path}: this is a folder; give a file in it")
    name = path.name[:-3] if path.suffix.lower() == ".gz" else path.name
    kind = Path(name).suffix.lower()
    reader = READERS.get(kind)
    if reader is None:
        what = f"files of type {kind!r} are not known" if kind else "the name does not say of which type the file is"
        raise FileError(f"{path.name}: {what}; known: {', '.join(READERS)}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        fields, sign = reader(_content(path, room), room)
        return _problem(Path(name).stem, fields, sign, room)
    except WrongLine as wrong:
        raise FileError(f"{path.name}, line {wrong.line}: {wrong.message}") from None
    except (ValueError, TypeError) as error:
        raise FileError(f"{path.name}: {' '.join(str(error).split())}") from error


def _content(path: Path, room: Room) -> bytes:
    """The bytes of a file, unpacked."""
    if path.suffix.lower() != ".gz":
        room.take(path.stat().st_size)
        return path.read_bytes()
    blocks = []
    try:
        with gzip.open(path) as packed:
            while block := packed.read(CHUNK):
                room.take(len(block))
                blocks.append(block)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"this is not a whole .gz file: {error}") from None
    return b"".join(blocks)


def save(path: str | Path, result: Result, *, objective: float) -> None:
    """Write an answer: x, y, z, status and objective as .npz, everything as .json."""
    path = Path(path)
    check_output(path)
    if path.suffix == ".json":
        path.write_text(json.dumps({**result.to_dict(), "objective": plain(objective)}), encoding="utf-8")
    else:
        np.savez(path, x=result.x, y=result.y, z=result.z, status=str(result.status), objective=objective)


def check_output(path: Path) -> None:
    """Raise FileError unless `save` can write there."""
    if path.suffix not in (".npz", ".json"):
        raise FileError(f"{path.name}: answers are written as .npz or .json")
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path}: there is no such folder")


Fields = tuple[Mapping[str, Any], float]


def _joined(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with A_data, A_indices, A_indptr and A_shape joined to A."""
    found: dict[str, Any] = {}
    for key, value in stored.items():
        name, _, part = key.partition("_")
        if part in PARTS and name in ("P", "A"):
            if name in stored:
                raise ValueError(f"{name} is stored twice, as {name} and as {key}")
            found.setdefault(name, {})[part] = value
        else:
            found[key] = value
    return _known(found)


def _json(content: bytes) -> dict[str, Any]:
    try:
        stored = json.loads(
            _text(content), parse_int=lambda digits: int(digits) if len(digits) <= DIGITS else float(digits)
        )
    except json.JSONDecodeError as error:
        raise WrongLine(error.lineno, f"{error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ValueError("lists are nested too deeply") from None
    if not isinstance(stored, dict):
        raise ValueError(f"expected an object with the fields P, q, A, …, found {type(stored).__name__}")
    return _known(stored)


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"this is not text: {error.reason} at byte {error.start}") from None


def _known(found: dict[str, Any]) -> dict[str, Any]:
    for name in found:
        if name not in FIELDS:
            raise ValueError(f"unknown field {name!r}{near_miss(name, FIELDS)}")
    return found


def _problem(name: str, fields: Mapping[str, Any], sign: float, room: Room) -> Loaded:
    if fields.get("P") is None and fields.get("q") is None:
        raise ValueError("there is no P and no q; at least one of them is needed")
    P, A = (_matrix(key, fields.get(key), room) for key in ("P", "A"))
    q = None if fields.get("q") is None else _vector("q", fields["q"], room)
    n = P.shape[1] if q is None else len(q)
    if P is not None:
        if P.shape != (n, n):
            raise ValueError(f"P has shape {P.shape}, expected {(n, n)} for {n} variables")
        _check_triangles(P)
    if A is not None and A.shape[1] != n:
        raise ValueError(f"A has {A.shape[1]} columns for {n} variables")
    rows = 0 if A is None else A.shape[0]
    limits = {key: _limit(key, fields.get(key), rows if key in "lu" else n, room) for key in ("l", "u", "lb", "ub")}
    constant = 0.0 if fields.get("r") is None else _number("r", fields["r"], room)
    try:
        return Loaded(qp(P, q, A, **limits), name, constant, sign)
    except ValueError as error:
        if "not convex" in str(error):
            raise ValueError(
                f"the {'negative of the ' if sign < 0 else ''}objective is not convex: P must be "
                f"{'negative' if sign < 0 else 'positive'} semidefinite"
            ) from None
        raise


def _check_triangles(P: Any) -> None:
    matrix = sp.csr_array(P)
    upper, lower = sp.triu(matrix, 1).count_nonzero(), sp.tril(matrix, -1).count_nonzero()
    if bool(upper) != bool(lower):
        found = "upper" if upper else "lower"
        raise ValueError(f"P has only its {found} triangle; store both, so P is symmetric")
    check_symmetric(matrix, name="P")


def _matrix(name: str, value: Any, room: Room) -> Any:
    """A matrix as CSR if it is stored in parts, else as it is."""
    if value is None:
        return None
    if isinstance(value, dict):
        return _sparse(name, value, room)
    if sp.issparse(value):
        made = sp.coo_array(value)
        return _sparse(name, {"data": made.data, "row": made.row, "col": made.col, "shape": made.shape}, room)
    matrix = real(name, _array(name, value, room), empty=True)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be a matrix, found shape {matrix.shape}")
    return matrix


def _sparse(name: str, parts: dict[str, Any], room: Room) -> Any:
    """A matrix in parts: data, indices, indptr and shape of CSC, or data, row, col and shape of its entries."""
    shape = _whole(f"{name}.shape", parts.get("shape", ()), room).tolist()
    if len(shape) != 2:
        raise ValueError(f"{name} is sparse, so its shape must be stored too")
    needed = ("data", "row", "col") if {"row", "col"} <= parts.keys() else ("data", "indices", "indptr")
    missing = [part for part in needed if part not in parts]
    if missing:
        raise ValueError(f"{name} is sparse and lacks {', '.join(missing)}; store {', '.join(needed)} and shape")
    data = _array(f"{name}.data", parts["data"], room)
    places = [_whole(f"{name}.{part}", parts[part], room) for part in needed[1:]]
    rows, columns = shape
    room.take(24 * (rows + columns), f"{name} of shape ({rows}, {columns})")  # pointers and limits
    try:
        if needed[1] == "row":
            made: Any = sp.coo_array((data.ravel().astype(float), tuple(places)), shape=shape)
        else:
            made = sp.csc_array((data.ravel().astype(float), *places), shape=shape)
            made.check_format()
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{name} is not a valid sparse matrix: {error}") from None
    return as_sparse(name, made, empty=True)


def _array(name: str, value: Any, room: Room) -> Array:
    """A dense array of numbers; ragged lists and anything that is no real number are errors, null is NaN."""
    if isinstance(value, dict) or sp.issparse(value):
        value = _matrix(name, value, room)
        room.take(8 * math.prod(value.shape), name)
        value = value.toarray()
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must hold numbers, in rows of equal lengths") from None
    if array.dtype.kind == "O" and all(entry is None or isinstance(entry, (int, float)) for entry in array.flat):
        array = array.astype(float)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, found {KINDS.get(array.dtype.kind, 'something else')}")
    return array


def _whole(name: str, value: Any, room: Room) -> Array:
    """A vector of whole numbers that are not negative."""
    array = _array(name, value, room).ravel()
    if array.dtype.kind == "b" or not np.all((array >= 0) & (array < 2**63) & (array == np.floor(array))):
        raise ValueError(f"{name} must hold whole numbers from 0 to 2⁶³ − 1")
    return array.astype(np.int64)


def _vector(name: str, value: Any, room: Room) -> Array:
    array = _array(name, value, room).astype(float)
    if array.size != max(array.shape, default=1):
        raise ValueError(f"{name} must be a vector, found shape {array.shape}")
    return array.ravel()


def _number(name: str, value: Any, room: Room) -> float:
    array = _vector(name, value, room)
    if array.size != 1:
        raise ValueError(f"{name} must be one number, found {array.size}")
    return number(name, array[0])


def _limit(name: str, value: Any, size: int, room: Room) -> Array | None:
    """Limits on rows or variables; null and numbers of 1e20 or more mean that there is none."""
    if value is None:
        return None
    none = -np.inf if name in ("l", "lb") else np.inf
    if isinstance(value, list):
        value = [none if entry is None else entry for entry in value]
    array = _vector(name, value, room)
    if np.isnan(array).any():
        raise ValueError(f"{name} holds NaN; leave out a limit by null, ±inf or ±1e20")
    if array.size not in (1, size):
        raise ValueError(f"{name} has {array.size} entries, expected {size}")
    return np.array(np.broadcast_to(as_limits(name, array), size))


KINDS = {"c": "complex numbers", "U": "text", "S": "text", "T": "text", "M": "dates", "m": "durations"}
READERS: dict[str, Callable[[bytes, Room], Fields]] = {
    ".npz": lambda content, room: (_joined(npz_arrays(content, room)), 1.0),
    ".mat": lambda content, room: (mat_arrays(content, FIELDS, room), 1.0),
    ".json": lambda content, room: (_json(content), 1.0),
    ".qps": lambda content, room: read_mps(_text(content)),
    ".mps": lambda content, room: read_mps(_text(content)),
    ".lp": lambda content, room: read_lp(_text(content)),
}
