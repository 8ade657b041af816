"""Partitions from files: every form that is read, and every way in which a file can be wrong."""

from __future__ import annotations

import contextlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flatfed.core.errors import ConfigError
from flatfed.data import FromFile
from flatfed.data.directory import DataDirectory

LABELS = np.array([0, 1, 0, 1, 0, 1])
OWNERS = np.array([1, 0, 0, -1, 1, 2], dtype=np.int16)
PARTS = [[1, 2], [0, 4], [5]]


def text(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read(path: Path, key: str = "", clients: int | None = None, labels: np.ndarray = LABELS) -> list[list[int]]:
    return [part.tolist() for part in FromFile(path=str(path), key=key).divide(labels, {}, clients, seed=0)]


JSONS = {
    "object": {"0": [2, 1], "1": [0, 4], "2": [5]},
    "object in another order": {"2": [5], "1": [4, 0], "0": [1, 2]},
    "names": {"anna": [1, 2], "zoe": [0, 4], "ben": [5]},
    "lists": [[1, 2], [0, 4], [5]],
    "nobody": {"-1": [3], "0": [1, 2], "7": [0, 4], "10": [5]},
}
CSVS = {
    "pairs": "client,index\n0,1\n1,4\n0,2\n2,5\n1,0\n",
    "pairs among other columns": "index,label,client\n1,1,0\n2,0,0\n0,0,1\n4,0,1\n5,1,2\n3,1,-1\n",
    "capitals, spaces and the end of line of Windows": "Client, Index\r\n0, 1\r\n0, 2\r\n1, 0\r\n1, 4\r\n2, 5\r\n\r\n",
    "names": "client,index\nanna,1\nzoe,0\nben,5\nanna,2\nzoe,4\n",
    "owners": "1\n0\n0\n-1\n1\n2\n",
    "owners with a title": "owner\n1\n0\n0\n-1\n1\n2",
}


@pytest.mark.parametrize("content", JSONS.values(), ids=JSONS)
def test_json(content: Any, tmp_path: Path) -> None:
    assert read(text(tmp_path / "a.json", content)) == PARTS


@pytest.mark.parametrize("content", CSVS.values(), ids=CSVS)
def test_csv(content: str, tmp_path: Path) -> None:
    assert read(text(tmp_path / "a.csv", content)) == PARTS


def test_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", OWNERS)
    np.savez(tmp_path / "one.npz", OWNERS)
    np.savez_compressed(tmp_path / "two.npz", first=OWNERS, second=np.zeros(6, dtype=np.uint8))
    assert read(tmp_path / "a.npy") == read(tmp_path / "one.npz") == PARTS
    assert read(tmp_path / "two.npz", key="first") == PARTS
    assert read(tmp_path / "two.npz", key="second") == [[0, 1, 2, 3, 4, 5]]


@given(
    owners=st.lists(st.integers(-1, 4), min_size=3, max_size=80).filter(
        lambda actual: set(actual) - {-1} == set(range(max(actual) + 1)) and max(actual) >= 0
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_all_forms_say_the_same(owners: list[int], tmp_path: Path) -> None:
    array = np.array(owners)
    parts = [np.flatnonzero(array == client).tolist() for client in range(array.max() + 1)]
    np.save(tmp_path / "a.npy", array)
    text(tmp_path / "a.json", parts)
    text(tmp_path / "b.json", dict(enumerate(parts)))
    text(tmp_path / "a.csv", "\n".join(map(str, owners)))
    text(tmp_path / "b.csv", "client,index\n" + "".join(f"{client},{i}\n" for i, client in enumerate(owners)))
    for name in ("a.npy", "a.json", "b.json", "a.csv", "b.csv"):
        assert read(tmp_path / name, labels=array) == parts


def test_the_seed_does_not_matter(tmp_path: Path) -> None:
    rule = FromFile(path=str(text(tmp_path / "a.json", JSONS["lists"])))
    first, other = (rule.divide(LABELS, {}, 3, seed) for seed in (0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_the_file_is_looked_for_in_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    text(tmp_path / "data" / "a.json", JSONS["lists"])
    directory = DataDirectory(tmp_path / "data")
    rule = FromFile(path="a.json").within(directory)
    assert [part.tolist() for part in rule.divide(LABELS, {}, None, 0)] == PARTS
    text(tmp_path / "a.json", [[3]])
    here = FromFile(path="a.json").within(directory)
    assert [part.tolist() for part in here.divide(LABELS, {}, None, 0)] == [[3]]
    with pytest.raises(ConfigError, match=r"b\.json: there is no file .*b\.json or .*data/b\.json"):
        FromFile(path="b.json").within(directory)


# --- wrong files ----------------------------------------------------------------------------------------------

WRONG_JSON = {
    "not JSON": ("{", "not JSON"),
    "a number": ("3", r"must hold \{client: \[indices\]"),
    "owners": ("[0, 1, 1]", "client 0 has no list of whole numbers"),
    "fractions": ('{"a": [1.5]}', "client a has no list of whole numbers"),
    "truth values": ("[[true]]", "client 0 has no list of whole numbers"),
    "text": ('[["1"]]', "client 0 has no list of whole numbers"),
    "nothing": ("{}", "there are no clients"),
    "a client twice": ('{"0": [1], "0": [2]}', "client '0' is there twice"),
    "an empty client": ("[[1], []]", "client 1 has no samples"),
    "beyond the end": ("[[1], [6]]", "client 1 holds sample 6, but there are 6 samples, 0 to 5"),
    "below zero": ("[[1], [-2, 3]]", "client 1 holds sample -2"),
    "far beyond": ("[[1], [99999999999999999999]]", "no sample 99999999999999999999"),
    "a sample twice": ("[[1, 2], [3, 2]]", "sample 2 is held by clients 0 and 1"),
    "a sample twice in a client": ("[[1, 1]]", "sample 1 is held by client 0, more than once"),
}
WRONG_CSV = {
    "empty": ("", "it is empty"),
    "no title": ("0,1\n0,2\n", "must name the columns client and index"),
    "another title": ("user,index\n0,1\n", "must name the columns client and index"),
    "a line cut short": ("client,index\n0,1\n0\n", "line 3 is not whole"),
    "an empty line": ("1\n0\n\n-1\n1\n2\n", "line 3 is not whole"),
    "no number": ("client,index\n0,one\n", "line 2: the index 'one' is not a whole number"),
    "a fraction": ("1\n0\n0.5\n-1\n1\n2\n", r"line 3: the owner '0.5' is not a whole number"),
    "two owners": ("1\n0\n0,1\n-1\n1\n2\n", "line 3 has 2 values"),
    "too few": ("1\n0\n", "owners of 2 samples, but there are 6 training samples"),
    "a gap": ("1\n0\n0\n3\n1\n3\n", "client 2 has no samples"),
    "a sample twice": ("client,index\n0,1\n1,1\n", "sample 1 is held by clients 0 and 1"),
    "beyond the end": ("client,index\n0,1\n1,17\n", "client 1 holds sample 17"),
}


@pytest.mark.parametrize(("content", "message"), WRONG_JSON.values(), ids=WRONG_JSON)
def test_wrong_json(content: str, message: str, tmp_path: Path) -> None:
    path = text(tmp_path / "wrong.json", content)
    with pytest.raises(ConfigError, match=rf"^partition file {path}: .*{message}"):
        read(path)


@pytest.mark.parametrize(("content", "message"), WRONG_CSV.values(), ids=WRONG_CSV)
def test_wrong_csv(content: str, message: str, tmp_path: Path) -> None:
    path = text(tmp_path / "wrong.csv", content)
    with pytest.raises(ConfigError, match=rf"^partition file {path}: .*{message}"):
        read(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (OWNERS[:4], "owners of 4 samples, but there are 6 training samples"),
        (OWNERS.astype(np.float64), "one whole number per sample, not float64"),
        (OWNERS.reshape(2, 3), r"one whole number per sample, not int16 of shape \(2, 3\)"),
        (np.array([0, 0, 0, -2, 0, 0]), "sample 3 has owner -2; owners are 0, 1, 2"),
        (np.array([0, 0, 2**62, 0, 0, 0]), f"sample 2 has owner {2**62}"),
        (np.array([0, 0, 2, 0, 0, 0]), "client 1 has no samples"),
        (np.full(6, -1), "there are no clients"),
        (np.array([len] * 6, dtype=object), "it holds Python objects, which are not opened"),
    ],
)
def test_wrong_owners(array: np.ndarray, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", owners=array)
    with pytest.raises(ConfigError, match=rf"^partition file {tmp_path / 'wrong.npz'}: .*{message}"):
        read(tmp_path / "wrong.npz")


def test_damaged_numpy_files(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", owners=np.arange(3000) % 7)
    whole = (tmp_path / "a.npz").read_bytes()
    bent = bytearray(whole)
    bent[len(whole) // 2] ^= 255
    for content in (b"", b"not an archive", whole[: len(whole) // 2], bytes(bent)):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(ConfigError, match=r"a\.npz: it cannot be read: it is (truncated or damaged|no NumPy file)"):
            read(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_any_damage_to_numpy_files_is_an_error_for_people_or_none(kind: str, tmp_path: Path) -> None:
    path, generator = tmp_path / f"a.{kind}", np.random.default_rng(0)
    with path.open("wb") as file:
        np.save(file, OWNERS) if kind == "npy" else np.savez(file, owners=OWNERS)
    whole = path.read_bytes()
    for _ in range(300):
        bent = bytearray(whole)
        for place in generator.integers(0, len(whole), 3):
            bent[place] = generator.integers(0, 256)
        path.write_bytes(bent)
        with warnings.catch_warnings(), contextlib.suppress(ConfigError):
            warnings.simplefilter("ignore")
            read(path)


def test_keys(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", alpha_1=OWNERS, alpha_2=OWNERS)
    with pytest.raises(ConfigError, match=r"say which array with partition\.key=NAME: alpha_1, alpha_2"):
        read(tmp_path / "a.npz")
    with pytest.raises(ConfigError, match=r"unknown key 'alpha_3'; did you mean 'alpha_"):
        read(tmp_path / "a.npz", key="alpha_3")
    with pytest.raises(ConfigError, match=r"a key \('x'\) is for .npz files"):
        read(text(tmp_path / "a.json", JSONS["lists"]), key="x")


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"path must name a file"):
        FromFile()
    with pytest.raises(ConfigError, match=r"none\.json: there is no such file"):
        read(tmp_path / "none.json")
    with pytest.raises(ConfigError, match=r"a\.txt: the name must end in \.json, \.csv, \.npz or \.npy"):
        read(text(tmp_path / "a.txt", "1"))
    with pytest.raises(ConfigError, match=r"it has 3 clients, not 5; leave clients out"):
        read(text(tmp_path / "a.json", JSONS["lists"]), clients=5)
    with pytest.raises(ConfigError, match=r"c\.json: it is not JSON: "):
        read(text(tmp_path / "c.json", f"[[{'9' * 5000}]]"))
    with pytest.raises(ConfigError, match=r"d\.json: client ann has no samples"):
        read(text(tmp_path / "d.json", '{"bob": [1], "ann": []}'))
    (tmp_path / "e.npy").write_bytes(b"not an array")
    with pytest.raises(ConfigError, match=r"e\.npy: it cannot be read: it is no NumPy file"):
        read(tmp_path / "e.npy")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe[[1]]")
    with pytest.raises(ConfigError, match=r"b\.json: it cannot be read"):
        read(tmp_path / "b.json")
