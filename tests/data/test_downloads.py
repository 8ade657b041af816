"""Downloads from a server on this machine: resumed, checked, unpacked, or refused; never from the internet."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.declared import declare
from data.test_mnist_writers import WRITERS, traced
from data.web import Site, digits, idx, md5, mnist_files, official_mnist, packed, serve, write_mnist
from flatfed.core.errors import ConfigError
from flatfed.data import Pool, datasets, load
from flatfed.data.acquiring import transfer
from flatfed.data.acquiring.archives import unpack
from flatfed.data.acquiring.downloads import get
from flatfed.data.acquiring.transfer import CHUNK, TRIES, DownloadError
from flatfed.data.catalogue import Download, Official, Source, find
from flatfed.data.directory import DataDirectory
from flatfed.data.sources.published.mnist_writers import FILE, assemble, whole_writers

CONTENT = np.random.default_rng(0).bytes(3 * CHUNK + 17)
NAME = "numbers.bin"


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as made:
        yield made


class Notes:
    """A report that remembers."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int, int | None]] = []
        self.bytes, self.said = 0, ""

    def start(self, name: str, done: int, total: int | None) -> None:
        self.started.append((name, done, total))

    def advance(self, count: int) -> None:
        self.bytes += count

    def say(self, text: str) -> None:
        self.said += text + "\n"


def plain(site: Site, *, sized: bool = True, served: bytes = CONTENT) -> Official:
    """Return a data set of one file that needs no unpacking."""
    url = site.put(NAME, served)
    download = Download((url,), md5(CONTENT), (NAME,), size=len(CONTENT) if sized else None)
    return Official(site.address, (download,), ({NAME: md5(CONTENT)},))


def numbers(directory: DataDirectory) -> Pool:
    raise AssertionError("never loaded")


def fetch(official: Official, root: Path, report: Notes | None = None) -> bool:
    return get(Source("numbers", numbers, "iid", official), DataDirectory(root), report, pause=0)


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.name != ".get.lock")


# --- the transfer ---------------------------------------------------------------------------------------------


def test_a_file_is_fetched_once(site: Site, tmp_path: Path) -> None:
    notes = Notes()
    assert fetch(plain(site), tmp_path, notes)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert names(tmp_path) == [NAME]
    assert (notes.started, notes.bytes) == ([(NAME, 0, len(CONTENT))], len(CONTENT))
    assert not fetch(plain(site), tmp_path)
    assert site.asked == [(f"/{NAME}", None)]


@pytest.mark.parametrize("sized", [False, True])
def test_a_broken_connection_goes_on_where_it_stopped(sized: bool, site: Site, tmp_path: Path) -> None:
    site.breaks = [CHUNK + 5, 1000, 0]
    notes = Notes()
    assert fetch(plain(site, sized=sized), tmp_path, notes)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert [ranges for _, ranges in site.asked] == [
        None,
        f"bytes={CHUNK + 5}-",
        f"bytes={CHUNK + 1005}-",
        f"bytes={CHUNK + 1005}-",
    ]
    assert notes.bytes == len(CONTENT)
    assert f"the connection broke after {CHUNK + 5:,} of {len(CONTENT):,} bytes; trying again" in notes.said


def test_what_came_is_kept_for_another_day(site: Site, tmp_path: Path) -> None:
    site.breaks = [CHUNK + 5] + [0] * (TRIES - 1)
    with pytest.raises(DownloadError, match=f"{CHUNK + 5:,} bytes are kept, and the next try goes on from there"):
        fetch(plain(site), tmp_path)
    assert names(tmp_path) == [f"{NAME}.part"]
    assert (tmp_path / f"{NAME}.part").read_bytes() == CONTENT[: CHUNK + 5]
    site.asked.clear()
    notes = Notes()
    assert fetch(plain(site), tmp_path, notes)
    assert site.asked == [(f"/{NAME}", f"bytes={CHUNK + 5}-")]
    assert notes.started == [(NAME, CHUNK + 5, len(CONTENT))]
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert names(tmp_path) == [NAME]


def test_many_breaks_do_not_matter_as_long_as_something_comes(site: Site, tmp_path: Path) -> None:
    site.breaks = [50_000] * 12
    assert fetch(plain(site), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert len(site.asked) == 13


def test_a_server_without_ranges_sends_the_whole_again(site: Site, tmp_path: Path) -> None:
    site.ranges, site.breaks = False, [CHUNK + 5]
    assert fetch(plain(site), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_server_that_always_breaks_at_the_same_byte_is_given_up(site: Site, tmp_path: Path) -> None:
    site.ranges, site.breaks = False, [1000] * 50
    with pytest.raises(DownloadError, match="the connection broke after 1,000 of"):
        fetch(plain(site), tmp_path)
    assert len(site.asked) == TRIES


def test_without_a_length_the_known_size_tells_that_it_broke(site: Site, tmp_path: Path) -> None:
    site.lengths, site.breaks = False, [1000]
    assert fetch(plain(site), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_server_that_falls_silent_is_asked_again(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TIMEOUT", 1.0)
    site.stalls, site.breaks = True, [CHUNK + 5]
    assert fetch(plain(site), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_an_interrupt_keeps_what_came(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Notes, count: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Notes, "advance", interrupt)
        fetch(plain(site), tmp_path, Notes())
    kept = (tmp_path / f"{NAME}.part").read_bytes()
    assert kept == CONTENT[: len(kept)] != b""
    assert fetch(plain(site), tmp_path)
    assert site.asked[1:] == [(f"/{NAME}", f"bytes={len(kept)}-")]
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_part_of_something_else_is_thrown_away(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(bytes(1000))
    notes = Notes()
    assert fetch(plain(site), tmp_path, notes)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert "the part that was there does not fit; beginning again" in notes.said


@pytest.mark.parametrize("sized", [False, True])
def test_a_part_that_is_too_long_is_thrown_away(sized: bool, site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT + b"more")
    assert fetch(plain(site, sized=sized), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_part_that_is_whole_is_only_checked(site: Site, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT)
    assert fetch(plain(site), tmp_path)
    assert site.asked == []
    assert names(tmp_path) == [NAME]


def test_another_file_than_the_official_one_is_not_kept(site: Site, tmp_path: Path) -> None:
    other = b"other" + CONTENT[5:]
    with pytest.raises(DownloadError, match="is not the official file") as raised:
        fetch(plain(site, served=other), tmp_path)
    assert f"md5 {md5(other)} instead of {md5(CONTENT)}" in str(raised.value)
    assert names(tmp_path) == []


def test_a_file_that_is_gone_is_reported_with_what_to_do(site: Site, tmp_path: Path) -> None:
    official = plain(site)
    site.files.clear()
    with pytest.raises(DownloadError) as raised:
        fetch(official, tmp_path)
    assert str(raised.value) == (
        f"numbers: {site.address}/{NAME} answers 404 Not Found; fetch {NAME} from {site.address}/ in another way, "
        f"put it into {tmp_path} and run `flatfed data get numbers` again"
    )
    assert len(site.asked) == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_server_is_asked_again(code: int, site: Site, tmp_path: Path) -> None:
    site.codes = [code, code]
    assert fetch(plain(site), tmp_path)
    site.codes = [code] * 50
    with pytest.raises(DownloadError, match=f"answers {code}"):
        fetch(plain(site), tmp_path / "again")


def test_a_second_address_is_tried(site: Site, tmp_path: Path) -> None:
    official = plain(site)
    first = replace(official.downloads[0], urls=(f"{site.nowhere}/{NAME}", *official.downloads[0].urls))
    assert fetch(replace(official, downloads=(first,)), tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_without_a_network_one_sentence_tells_what_to_put_where(site: Site, tmp_path: Path) -> None:
    official = official_mnist(site)
    address = site.nowhere
    away = tuple(
        replace(download, urls=(download.urls[0].replace(site.address, address),)) for download in official.downloads
    )
    (tmp_path / "MNIST/raw").mkdir(parents=True)
    first = official.downloads[0]
    (tmp_path / first.gives[0]).write_bytes(mnist_files()["train-images-idx3-ubyte"])
    with pytest.raises(DownloadError) as raised:
        get(mnist(replace(official, downloads=away)), DataDirectory(tmp_path), pause=0)
    text = str(raised.value)
    assert text.startswith(f"mnist: {address.removeprefix('http://')} cannot be reached (Connection refused); fetch ")
    files = "train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz"
    assert f"fetch {files} from {address}/mnist/ in another way, put them into {tmp_path}/MNIST/raw and run" in text
    assert "\n" not in text


def test_two_processes_do_not_get_into_one_directory(site: Site, tmp_path: Path) -> None:
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / ".get.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DownloadError, match="another process is putting data sets into"):
            fetch(plain(site), tmp_path)
        other.communicate("")
    assert fetch(plain(site), tmp_path)


# --- what is put in place -------------------------------------------------------------------------------------

FOLDER = {"set/a.bin": b"a" * 5000, "set/inner/b.bin": b"b" * 70}


def archived(site: Site, content: bytes, name: str = "set.tar.gz") -> Official:
    url = site.put(name, content)
    gives = tuple(FOLDER)
    layout = {place: md5(data) for place, data in FOLDER.items()}
    return Official(site.address, (Download((url,), md5(content), gives, size=len(content)),), (layout,))


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_is_unpacked_and_removed(kind: str, site: Site, tmp_path: Path) -> None:
    content = packed(FOLDER) if kind == "tar.gz" else zipped(FOLDER)
    assert fetch(archived(site, content, f"set.{kind}"), tmp_path)
    assert names(tmp_path) == ["set", "set/a.bin", "set/inner", "set/inner/b.bin"]
    assert {place: (tmp_path / place).read_bytes() for place in FOLDER} == FOLDER


def test_an_incomplete_folder_is_completed(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.bin").write_bytes(FOLDER["set/a.bin"])
    (tmp_path / "set/mine.txt").write_text("stays")
    assert fetch(archived(site, packed(FOLDER)), tmp_path)
    assert {place: (tmp_path / place).read_bytes() for place in FOLDER} == FOLDER
    assert (tmp_path / "set/mine.txt").read_text() == "stays"


def test_an_official_archive_that_lies_there_is_used_and_stays(tmp_path: Path) -> None:
    content = packed(FOLDER)
    with serve() as site:
        official = archived(site, content)
    (tmp_path / "set.tar.gz").write_bytes(content)
    assert fetch(official, tmp_path)
    assert names(tmp_path) == ["set", "set.tar.gz", "set/a.bin", "set/inner", "set/inner/b.bin"]
    assert site.asked == []


def test_another_archive_that_lies_there_is_refused(site: Site, tmp_path: Path) -> None:
    (tmp_path / "set.tar.gz").write_bytes(b"something else")
    with pytest.raises(DownloadError, match=r"set.tar.gz is not the official file \(md5 .*; remove it and try again"):
        fetch(archived(site, packed(FOLDER)), tmp_path)
    assert (tmp_path / "set.tar.gz").read_bytes() == b"something else"


def test_an_archive_that_lacks_what_it_should_give(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"set.tar.gz does not contain set/inner/b.bin"):
        fetch(archived(site, packed({"set/a.bin": b"a"})), tmp_path)


@pytest.mark.parametrize("name", ["../outside", "set/../../outside", "/tmp/outside", "..\\outside", "c:/outside"])
@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_nothing_is_unpacked_outside_the_folder(kind: str, name: str, tmp_path: Path) -> None:
    inside = tmp_path / "data"
    inside.mkdir()
    files = {"set/a.bin": b"a", name: b"bad"}
    archive = inside / f"set.{kind}"
    archive.write_bytes(packed(files) if kind == "tar.gz" else zipped(files))
    with pytest.raises(ConfigError, match="leads out of the folder"):
        unpack(archive, inside)
    assert names(tmp_path) == ["data", f"data/set.{kind}"]
    assert not Path("/tmp/outside").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_not_unpacked(kind: bytes, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("set/link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    (tmp_path / "set.tar").write_bytes(buffer.getvalue())
    with pytest.raises(ConfigError, match="set/link is a link or a device, not a file"):
        unpack(tmp_path / "set.tar", tmp_path)
    assert names(tmp_path) == ["set.tar"]


@pytest.mark.parametrize("name", ["set.tar.gz", "set.zip", "file.gz", "set.tar", "set.tar.xz"])
def test_a_damaged_archive_leaves_nothing(name: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0).bytes(200_000)
    files = {"set/a.bin": draw, "set/b.bin": draw}
    whole = {"zip": zipped(files), "gz": gzip.compress(draw)}.get(name.split(".", 1)[1], packed(files))
    for spoilt in (b"", b"no archive at all", whole[: len(whole) // 2]):
        (tmp_path / name).write_bytes(spoilt)
        with pytest.raises(ConfigError, match=f"{re.escape(name)} is damaged"):
            unpack(tmp_path / name, tmp_path)
        assert names(tmp_path) == [name]


def test_what_a_killed_unpacking_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".set.tar.gz.unpacking/set").mkdir(parents=True)
    (tmp_path / ".set.tar.gz.unpacking/set/half").write_bytes(b"half")
    (tmp_path / "set.tar.gz").write_bytes(packed(FOLDER))
    unpack(tmp_path / "set.tar.gz", tmp_path)
    assert names(tmp_path) == ["set", "set.tar.gz", "set/a.bin", "set/inner", "set/inner/b.bin"]


# --- whole data sets ------------------------------------------------------------------------------------------


def mnist(official: Official) -> Source:
    """Return MNIST with other official files."""
    return replace(find("mnist"), official=official)


def test_mnist_is_fetched_and_loads(site: Site, tmp_path: Path) -> None:
    small = mnist(official_mnist(site))
    site.breaks = [100]
    assert get(small, DataDirectory(tmp_path), pause=0)
    assert len(load("mnist", tmp_path).train) == 40
    assert all(not name.endswith((".gz", ".part")) for name in names(tmp_path))
    assert len(site.asked) == 5
    assert not get(small, DataDirectory(tmp_path), pause=0)
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte").unlink()
    assert get(small, DataDirectory(tmp_path), pause=0)
    assert site.asked[5:] == [("/mnist/t10k-labels-idx1-ubyte.gz", None)]


def test_gzipped_files_that_lie_there_are_enough(site: Site, tmp_path: Path) -> None:
    small = mnist(official_mnist(site))
    (tmp_path / "MNIST/raw").mkdir(parents=True)
    for path, content in site.files.items():
        (tmp_path / "MNIST/raw" / path.removeprefix("/mnist/")).write_bytes(content)
    assert not get(small, DataDirectory(tmp_path), pause=0)
    assert site.asked == []


def test_mnist_by_writer_is_put_together(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = []
    for part, count in {"train": 40, "test": 20}.items():
        name = f"qmnist-{part}-labels-idx2-int"
        content = gzip.compress(idx(traced(digits(count, count)[1], WRITERS[part])))
        url = site.put(f"{name}.gz", content)
        downloads.append(Download((url,), md5(content), (f"QMNIST/raw/{name}",), "QMNIST/raw"))
    writers = Official(site.address, tuple(downloads), ({FILE: ""},), ("mnist",), assemble, whole_writers)
    declare(monkeypatch, "mnist", official=official_mnist(site))
    small = replace(find("mnist-writers"), official=writers)
    assert get(small, DataDirectory(tmp_path), pause=0)
    assert load("mnist-writers", tmp_path).groups["writer"].tolist() == WRITERS["train"].tolist()
    assert len(load("mnist", tmp_path).train) == 40
    assert not get(small, DataDirectory(tmp_path), pause=0)
    asked = len(site.asked)
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-40])
    (tmp_path / downloads[0].gives[0]).write_bytes(b"")
    (tmp_path / downloads[1].gives[0]).unlink()
    (tmp_path / f"{downloads[1].gives[0]}.gz").write_bytes(site.files[f"/{downloads[1].name}"])
    assert get(small, DataDirectory(tmp_path), pause=0)
    assert load("mnist-writers", tmp_path).groups["writer"].tolist() == WRITERS["train"].tolist()
    assert site.asked[asked:] == [(f"/{downloads[0].name}", None)]


# --- what is there, but not as it should be -------------------------------------------------------------------


@pytest.mark.parametrize("spoilt", [CONTENT[:-1], b"", b"x" + CONTENT[1:]])
def test_a_damaged_file_is_fetched_again(spoilt: bytes, site: Site, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(spoilt)
    notes = Notes()
    assert fetch(plain(site), tmp_path, notes)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert names(tmp_path) == [NAME]
    assert f"{NAME} is not the official file; a new one takes its place" in notes.said
    assert not fetch(plain(site), tmp_path)


def test_a_damaged_file_stays_until_a_better_one_has_come(site: Site, tmp_path: Path) -> None:
    official = plain(site)
    (tmp_path / NAME).write_bytes(CONTENT[:1000])
    for served in (None, b"sign in to this network"):
        site.files = {} if served is None else {f"/{NAME}": served}
        with pytest.raises(DownloadError):
            fetch(official, tmp_path)
        assert (tmp_path / NAME).read_bytes() == CONTENT[:1000]
    assert names(tmp_path) == [NAME]


@pytest.mark.parametrize("zipped", [False, True])
def test_a_truncated_file_of_mnist_is_fetched_again_alone(zipped: bool, site: Site, tmp_path: Path) -> None:
    small = mnist(official_mnist(site))
    write_mnist(tmp_path / "MNIST/raw", zipped)
    path = tmp_path / f"MNIST/raw/t10k-images-idx3-ubyte{'.gz' if zipped else ''}"
    path.write_bytes(path.read_bytes()[:-50])
    notes = Notes()
    assert get(small, DataDirectory(tmp_path), notes, pause=0)
    assert site.asked == [("/mnist/t10k-images-idx3-ubyte.gz", None)]
    assert "MNIST/raw/t10k-images-idx3-ubyte is truncated or damaged; a new one takes its place" in notes.said
    assert len(load("mnist", tmp_path).test) == 20
    assert not get(small, DataDirectory(tmp_path), pause=0)


def test_a_damaged_file_of_an_archive_is_replaced(site: Site, tmp_path: Path) -> None:
    assert fetch(archived(site, packed(FOLDER)), tmp_path)
    (tmp_path / "set/a.bin").write_bytes(b"a" * 4999)
    assert fetch(archived(site, packed(FOLDER)), tmp_path)
    assert {place: (tmp_path / place).read_bytes() for place in FOLDER} == FOLDER


def test_an_official_archive_that_lies_there_repairs_without_a_network(tmp_path: Path) -> None:
    content = packed(FOLDER)
    with serve() as site:
        official = archived(site, content)
    (tmp_path / "set.tar.gz").write_bytes(content)
    assert fetch(official, tmp_path)
    (tmp_path / "set/a.bin").write_bytes(b"")
    assert fetch(official, tmp_path)
    assert (tmp_path / "set/a.bin").read_bytes() == FOLDER["set/a.bin"]


# --- the register ---------------------------------------------------------------------------------------------


OFFICIAL = {name: official for name in datasets() if (official := find(name).official) is not None}


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_register_is_sound(name: str) -> None:
    official = OFFICIAL[name]
    assert all(other in OFFICIAL for other in official.needs)
    assert official.home.startswith("https://")
    for download in official.downloads:
        assert all(url.startswith("https://") for url in download.urls)
        assert re.fullmatch("[0-9a-f]{32}", download.md5)
        assert download.gives
        assert official.assemble is not None or set(download.gives) <= set(official.layouts[0])
    sums = [md5 for layout in official.layouts for md5 in layout.values() if md5]
    assert len(set(sums)) == len(sums)
    assert all(re.fullmatch("[0-9a-f]{32}", md5) for md5 in sums)


@pytest.mark.parametrize("name", [name for name, official in OFFICIAL.items() if official.downloads])
def test_what_a_data_set_looks_for_is_what_is_fetched(name: str, tmp_path: Path) -> None:
    """A source must find a folder in which every file that the register names is there (and empty)."""
    for place in OFFICIAL[name].layouts[0]:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    with pytest.raises(ConfigError) as raised:
        load(name, tmp_path)
    assert "missing" not in str(raised.value)


def test_real_files_have_the_checksums_of_the_register() -> None:
    root = DataDirectory()
    place = "cifar-10-batches-bin/test_batch.bin"
    if not (root.path / place).exists():
        pytest.skip(f"{place} is not in {root.path}")
    content = (root.path / place).read_bytes()
    assert hashlib.md5(content).hexdigest() == OFFICIAL["cifar10"].layouts[0][place]
