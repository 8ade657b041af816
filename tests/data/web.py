"""A web server on this machine that misbehaves as asked, and files in the formats of the data sets."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import re
import socket
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.data.catalogue import Download, Official
from flatfed.data.catalogue.whole_files import whole_idx


class Site:
    """What a server holds and how it behaves: it may ignore ranges, break off, or answer with an error first."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges = True
        self.lengths = True
        self.breaks: list[int] = []  # how many bytes each of the next answers sends before the connection ends
        self.stalls = False  # instead of ending the connection, let it hang
        self.codes: list[int] = []  # the next answers are these errors
        self.asked: list[tuple[str, str | None]] = []  # path and range of every request
        self.address = ""
        self.nowhere = ""  # an address at which nobody listens

    def put(self, name: str, content: bytes) -> str:
        """Hold a file; its address is returned."""
        self.files[f"/{name}"] = content
        return f"{self.address}/{name}"


@contextlib.contextmanager
def serve() -> Iterator[Site]:
    """Run a server in a thread."""
    site, closing = Site(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, self.headers.get("Range")))
            if site.codes:
                self.send_error(site.codes.pop(0))
            elif self.path not in site.files:
                self.send_error(404)
            else:
                self._send(site.files[self.path])

        def _send(self, content: bytes) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            begin = int(asked[1]) if asked and site.ranges else 0
            if begin >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            if site.lengths:
                self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            broken = bool(site.breaks)
            self.wfile.write(content[begin:][: site.breaks.pop(0) if broken else None])
            if broken and site.stalls:
                self.wfile.flush()
                closing.wait(10)

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    server, silent = ThreadingHTTPServer(("127.0.0.1", 0), Handler), socket.socket()
    silent.bind(("127.0.0.1", 0))  # taken as long as the server runs, so that nobody else comes to listen there
    site.address, site.nowhere = (f"http://127.0.0.1:{port}" for port in (server.server_port, silent.getsockname()[1]))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        silent.close()
        thread.join()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def packed(files: dict[str, bytes]) -> bytes:
    """Return a .tar.gz of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


# --- data sets in small -----------------------------------------------------------------------------------------


def idx(array: npt.NDArray[Any]) -> bytes:
    """Return an array as an idx file."""
    codes = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}
    header = bytes([0, 0, codes[array.dtype.name], array.ndim])
    header += b"".join(length.to_bytes(4, "big") for length in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def digits(count: int, seed: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return images of 28x28 bytes and their classes; all ten classes come where there are ten images."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (count, 28, 28), np.uint8), (np.arange(count) % 10).astype(np.uint8)


def mnist_files(train: int = 40, test: int = 20) -> dict[str, bytes]:
    """Return the four files of MNIST by name."""
    files = {}
    for part, count in {"train": train, "t10k": test}.items():
        images, labels = digits(count, count)
        files |= {f"{part}-images-idx3-ubyte": idx(images), f"{part}-labels-idx1-ubyte": idx(labels)}
    return files


def write_mnist(folder: Path, zipped: bool = False, **counts: int) -> None:
    """Write the four files, plain or gzipped."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in mnist_files(**counts).items():
        (folder / (f"{name}.gz" if zipped else name)).write_bytes(gzip.compress(content) if zipped else content)


def official_mnist(site: Site) -> Official:
    """Let a site hold the small MNIST, and return what there is to know of it."""
    files = mnist_files()
    downloads = []
    for name, content in files.items():
        zipped = gzip.compress(content)
        url = site.put(f"mnist/{name}.gz", zipped)
        downloads.append(Download((url,), md5(zipped), (f"MNIST/raw/{name}",), "MNIST/raw", len(zipped)))
    layout = {f"MNIST/raw/{name}": md5(content) for name, content in files.items()}
    return Official(site.address, tuple(downloads), (layout,), whole=whole_idx)
