"""Quadratic programs in files: .npz, .mat, .json, .qps and .mps.

A file holds ½xᵀPx + qᵀx + r subject to l ≤ Ax ≤ u and lb ≤ x ≤ ub under these names; only P or q is required. Numbers
of 1e20 or more mean that there is no limit. In .npz and .json files a sparse matrix is stored in parts, see `_sparse`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import near_miss, real
from dapd.arrays import Array
from dapd.frontends.mps_lines import check_lines
from dapd.model.problem import Problem
from dapd.operators.convert import as_sparse
from dapd.problems.quadratic import qp
from dapd.solving.result import Result
from dapd.solving.views import plain
from dapd.spectrum.symmetric import check_symmetric

INFINITE = 1e20
FIELDS = ("P", "q", "r", "A", "l", "u", "lb", "ub")
PARTS = {"data", "indices", "indptr", "shape"}  # of a CSC matrix, as SciPy names them


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


def load(path: str | Path) -> Loaded:
    """Read a problem; raise FileError, or OSError if there is no such file.

    Parameters
    ----------
    path : path of a .npz, .mat, .json, .qps or .mps file
    """
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise FileError(f"{path.name}: files of type {path.suffix!r} are not known; known: {', '.join(READERS)}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        fields, sign = reader(path)
        return _problem(path.stem, fields, sign)
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        raise FileError(f"{path.name}: {' '.join(str(error).split())}") from error


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


def _npz(path: Path) -> Fields:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, AttributeError):
        raise FileError(f"{path.name}: this is not a .npz file of arrays of numbers") from None
    return _joined(arrays), 1.0


def _joined(stored: dict[str, Any]) -> dict[str, Any]:
    """The fields, with A_data, A_indices, A_indptr and A_shape joined to A."""
    found: dict[str, Any] = {}
    for key, value in stored.items():
        name, _, part = key.partition("_")
        if part in PARTS and name in ("P", "A"):
            found.setdefault(name, {})[part] = value
        else:
            found[key] = value
    return _known(found)


def _mat(path: Path) -> Fields:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        stored = loadmat(path)
    except NotImplementedError:
        raise FileError(f"{path.name}: this is a MATLAB 7.3 file; save it with -v7") from None
    except (MatReadError, ValueError, TypeError, OSError, IndexError) as error:
        raise FileError(f"{path.name}: this is not a .mat file ({error})") from error
    return {name: stored[name] for name in FIELDS if name in stored}, 1.0


def _json(path: Path) -> Fields:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise FileError(f"{path.name}, line {error.lineno}: {error.msg} (column {error.colno})") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{path.name}: this is not text: {error.reason} at byte {error.start}") from None
    if not isinstance(stored, dict):
        raise FileError(f"{path.name}: expected an object with the fields P, q, A, …, found {type(stored).__name__}")
    return _known(stored), 1.0


def _known(found: dict[str, Any]) -> dict[str, Any]:
    for name in found:
        if name not in FIELDS:
            raise ValueError(f"unknown field {name!r}{near_miss(name, FIELDS)}")
    return found


def _mps(path: Path) -> Fields:
    if find_spec("highspy") is None:
        raise FileError(f"{path.name}: reading it needs highspy; run pip install 'dapd[files]'")
    import highspy

    try:
        wrong = check_lines(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise FileError(f"{path.name}: this is not text: {error.reason} at byte {error.start}") from None
    if wrong is not None:
        raise FileError(f"{path.name}, line {wrong.line}: {wrong.message}")
    reader, said = highspy.Highs(), list[str]()  # type: ignore[no-untyped-call]
    reader.setOptionValue("log_to_console", False)
    reader.cbLogging.subscribe(lambda event: said.append(event.message.strip()))
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "model.mps"  # HiGHS goes by the ending, and does not know .qps
        shutil.copyfile(path, copied)
        status = reader.readModel(str(copied))
    if status == highspy.HighsStatus.kError:
        errors = [line.removeprefix("ERROR:").strip() for line in said if line.startswith("ERROR")]
        raise FileError(f"{path.name}: HiGHS cannot read this: {(errors or ['no reason given'])[0]}")
    model = reader.getModel()
    lp = model.lp_
    sign = -1.0 if lp.sense_ == highspy.ObjSense.kMaximize else 1.0
    n, m = lp.num_col_, lp.num_row_
    A = lp.a_matrix_
    fields = {
        "q": sign * np.array(lp.col_cost_),
        "r": sign * lp.offset_,
        "A": sp.csc_array((A.value_, A.index_, A.start_), shape=(m, n)) if m else None,
        "l": np.array(lp.row_lower_) if m else None,
        "u": np.array(lp.row_upper_) if m else None,
        "lb": np.array(lp.col_lower_),
        "ub": np.array(lp.col_upper_),
    }
    if model.hessian_.dim_:
        H = model.hessian_
        lower = sp.csc_array((H.value_, H.index_, H.start_), shape=(n, n))
        fields["P"] = sign * (lower + sp.tril(lower, -1).T)
    return fields, sign


def _problem(name: str, fields: Mapping[str, Any], sign: float) -> Loaded:
    if fields.get("P") is None and fields.get("q") is None:
        raise ValueError("there is no P and no q; at least one of them is needed")
    P, A = (_matrix(key, fields.get(key)) for key in ("P", "A"))
    n = _variables(fields, P)
    if P is not None:
        if P.shape != (n, n):
            raise ValueError(f"P has shape {P.shape}, expected {(n, n)} for {n} variables")
        _check_triangles(P)
    if A is not None and A.shape[1] != n:
        raise ValueError(f"A has {A.shape[1]} columns for {n} variables")
    rows = 0 if A is None else A.shape[0]
    limits = {key: _limit(key, fields.get(key), rows if key in "lu" else n) for key in ("l", "u", "lb", "ub")}
    q = None if fields.get("q") is None else _vector("q", fields["q"])
    constant = 0.0 if fields.get("r") is None else _number("r", fields["r"])
    try:
        return Loaded(qp(P, q, A, **limits), name, constant, sign)
    except ValueError as error:
        if "not convex" in str(error):
            raise ValueError(
                f"the {'negative of the ' if sign < 0 else ''}objective is not convex: P must be "
                f"{'negative' if sign < 0 else 'positive'} semidefinite"
            ) from None
        raise


def _variables(fields: Mapping[str, Any], P: Any) -> int:
    """The number of variables, from q if there is one."""
    if fields.get("q") is not None:
        return len(_vector("q", fields["q"]))
    return int(P.shape[1])


def _check_triangles(P: Any) -> None:
    matrix = sp.csr_array(P)
    upper, lower = sp.triu(matrix, 1).count_nonzero(), sp.tril(matrix, -1).count_nonzero()
    if bool(upper) != bool(lower):
        found = "upper" if upper else "lower"
        raise ValueError(f"P has only its {found} triangle; store both, so P is symmetric")
    check_symmetric(matrix, name="P")


def _matrix(name: str, value: Any) -> Any:
    """A matrix as CSR if it is stored in parts, else as it is."""
    if value is None:
        return None
    if isinstance(value, dict):
        return _sparse(name, value)
    if sp.issparse(value):
        return as_sparse(name, value.astype(float), empty=True)
    matrix = real(name, _array(name, value), empty=True)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be a matrix, found shape {matrix.shape}")
    return matrix


def _sparse(name: str, parts: dict[str, Any]) -> Any:
    """A matrix in parts: data, indices, indptr and shape of CSC, or data, row, col and shape of its entries."""
    shape = tuple(int(size) for size in np.ravel(parts.get("shape", ())))
    if len(shape) != 2:
        raise ValueError(f"{name} is sparse, so its shape must be stored too")
    triplets = {"row", "col"} <= parts.keys()
    needed = ("data", "row", "col") if triplets else ("data", "indices", "indptr")
    missing = [part for part in needed if part not in parts]
    if missing:
        raise ValueError(f"{name} is sparse and lacks {', '.join(missing)}; store {', '.join(needed)} and shape")
    data, *places = (_array(f"{name}.{part}", parts[part]) for part in needed)
    try:
        if triplets:
            made = sp.coo_array((data.astype(float), tuple(places)), shape=shape)
        else:
            made = sp.csc_array((data.astype(float), *places), shape=shape)
            made.check_format()
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{name} is not a valid sparse matrix: {error}") from None
    return as_sparse(name, made, empty=True)


def _array(name: str, value: Any) -> Array:
    """A dense array of numbers; null and ragged lists are errors."""
    if sp.issparse(value):
        value = value.toarray()
    try:
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" else array.astype(float)
    except (ValueError, TypeError):
        raise ValueError(f"{name} must hold numbers, in rows of equal lengths") from None


def _vector(name: str, value: Any) -> Array:
    array = _array(name, value).astype(float)
    if array.size != max(array.shape, default=1):
        raise ValueError(f"{name} must be a vector, found shape {array.shape}")
    return array.ravel()


def _number(name: str, value: Any) -> float:
    array = _vector(name, value)
    if array.size != 1:
        raise ValueError(f"{name} must be one number, found {array.size}")
    return float(array[0])


def _limit(name: str, value: Any, size: int) -> Array | None:
    """Limits on rows or variables; null and numbers of 1e20 or more mean that there is none."""
    if value is None:
        return None
    none = -np.inf if name in ("l", "lb") else np.inf
    if isinstance(value, list):
        value = [none if entry is None else entry for entry in value]
    array = _vector(name, value)
    if np.isnan(array).any():
        raise ValueError(f"{name} holds NaN; leave out a limit by null, ±inf or ±1e20")
    if array.size not in (1, size):
        raise ValueError(f"{name} has {array.size} entries, expected {size}")
    array = np.where(abs(array) >= INFINITE, np.copysign(np.inf, array), array)
    return np.array(np.broadcast_to(array, size))


READERS: dict[str, Callable[[Path], Fields]] = {
    ".npz": _npz,
    ".mat": _mat,
    ".json": _json,
    ".qps": _mps,
    ".mps": _mps,
}
