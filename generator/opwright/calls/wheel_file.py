"""Writes a wheel: a zip file of a package, with the metadata that installers read.

In: the folder of the package, its name and version. Out: the path of the wheel. The same folder gives the same
bytes. The tool's own distribution states the package's requirements.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import re
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError

NEEDS = ("numpy", "cffi", "ml_dtypes")  # of a generated package
OLDEST = "cp310"  # the Python version in the tag of an extension of the stable ABI
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date in zip files


@dataclass(frozen=True)
class Named:
    """The name and version of a wheel. Raises UsageError if an installer would refuse the version."""

    name: str
    version: str

    def __post_init__(self) -> None:
        if not _VERSION.fullmatch(self.version):
            raise UsageError(f"--version: {self.version!r} is not a version that installers accept, such as 1.2.0")

    @property
    def info(self) -> str:
        return f"{self.name}-{self.version}.dist-info"


def tag(stable: bool) -> str:
    """The tag of this machine: of Python's stable ABI, or of libraries that do not need Python."""
    system = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"{OLDEST}-abi3-{system}" if stable else f"py3-none-{system}"


def write(named: Named, root: Path, extensions: bool, folder: Path) -> Path:
    """Write a wheel of everything in `root`; `extensions`: its libraries are extensions of Python."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if extensions and free_threaded:
        raise UsageError("a free-threaded Python has no stable ABI; set OPWRIGHT_FFI=abi for plain shared libraries")
    tagged = tag(extensions)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if shipped(path)}
    files[f"{named.info}/METADATA"] = metadata(named).encode()
    files[f"{named.info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: opwright\nRoot-Is-Purelib: false\nTag: {tagged}\n"
    ).encode()
    record = f"{named.info}/RECORD"
    files[record] = "".join(f"{name},{digest(data)},{len(data)}\n" for name, data in files.items()).encode()
    files[record] += f"{record},,\n".encode()
    path = folder / f"{named.name}-{named.version}-{tagged}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return path


def shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def metadata(named: Named) -> str:
    """The metadata for installers and indices. Requirements are those of the tool itself."""
    required = importlib.metadata.requires("opwright") or []
    needs = [line for line in required if re.split(r"[^\w-]", line)[0].replace("-", "_") in NEEDS]
    lines = ["Metadata-Version: 2.1", f"Name: {named.name}", f"Version: {named.version}"]
    lines += ["Summary: Kernels generated from specifications by opwright.", "Requires-Python: >=3.10"]
    return "".join(f"{line}\n" for line in [*lines, *(f"Requires-Dist: {need}" for need in needs)])


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
