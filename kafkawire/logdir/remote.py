"""Log directories in remote stores: S3, GCS, HDFS, through `pyarrow.fs`.

Paths are URIs; what a store needs beyond the path is in the URI's query, as `pyarrow.fs.FileSystem.from_uri` takes
it (`s3://logs/broker-1?region=eu-west-1&endpoint_override=...`), or in the environment. A file's `path`
contains neither the user nor the password of a URI.
"""

from __future__ import annotations

import errno
import posixpath
import re
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from glob import has_magic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from kafkawire.errors import MissingExtraError
from kafkawire.logdir.file_names import PartitionName, is_uri
from kafkawire.logdir.file_source import Opened
from kafkawire.logdir.located_file import Stamp
from kafkawire.logdir.log_files import LogFile, log_file, partition_of, segment_names

if TYPE_CHECKING:
    from typing import Self

#: A host with a port, or without.
_HOST = re.compile(r"[^:]*(:\d*)?", re.ASCII)


#: A file that was written in the tick of a listing may have been written again since, with the same time and size.
_TICK_NS = 10_000_000_000


class FileTraits(NamedTuple):
    """A file of a listing: its size, None where it is not known; when it was written, in ns."""

    name: str
    size: int | None = None
    written: int = 0


class RemoteFile(LogFile, frozen=True):
    """A file in another store.

    Attributes:
        store: the URI that was opened. `prefix`: the part of `path` before the store's own path.
        listed: its size when its folder was listed, so that planning asks the store once for many files; None: not
            known. `written`: when it had been written then, in ns; 0 where that is not known, or too near.
    """

    store: str = ""
    prefix: str = ""
    listed: int | None = None
    written: int = 0

    @property
    def _stored_size(self) -> int:
        return int(self._info.size) if self.listed is None else self.listed

    def elsewhere(self, path: str) -> Self:
        return msgspec.structs.replace(super().elsewhere(path), listed=None, written=0)

    def beside(self, kind: str) -> Self:
        return msgspec.structs.replace(super().beside(kind), listed=None, written=0)

    @property
    def modified(self) -> float:
        """The time of the last write, epoch seconds; 0 where the store has none."""
        return (self._info.mtime_ns or 0) / 1e9

    @property
    def stamp(self) -> Stamp | None:
        """The time and size in the listing: to ask for the time of a file costs as much as to read it."""
        return (0, self.listed, self.written) if self.listed is not None and self.written else None

    @property
    def listed_whole(self) -> bool:
        return self.listed is not None

    @property
    def _info(self) -> Any:
        filesystem, _ = _opened(self.store)
        found = filesystem.get_file_info(self._key(self._stored_path))
        if found.size is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", self.path)
        return found

    @property
    def folder(self) -> str:
        """The URI of its directory, with all that the store needs."""
        store, place = urlsplit(self.store), urlsplit(posixpath.dirname(self.path))
        return place._replace(netloc=store.netloc, query=store.query).geturl()

    def raw(self, path: str) -> Opened:
        """The file at a path of the same store, with the bytes that are stored there."""
        filesystem, _ = _opened(self.store)
        file: Opened = filesystem.open_input_file(self._key(path))
        return file

    def _key(self, path: str) -> str:
        return path.removeprefix(self.prefix)


def remote_files(uri: str, tier_keys: tuple[str, ...] = ()) -> Iterator[RemoteFile]:
    """All files below a URI, or the one that it names, ordered by directory.

    Args:
        tier_keys: paths of private keys for encrypted tiers.

    Raises:
        OSError: the path does not exist, must not be read, or is of a store that pyarrow does not know.
        MissingExtraError: pyarrow is not installed.
    """
    found = _infos(uri, _opened(uri)[1])
    if not found:
        is_folder, path = found_at(uri)
        if is_folder:
            return
        directory, name = posixpath.split(path)
        found = {directory: [FileTraits(name)]}
    settled = time.time_ns() - _TICK_NS
    for directory, traits in found.items():
        names = [one.name for one in traits]
        partition = partition_of(directory, names)
        known = {one.name: one for one in traits}
        for name in segment_names(names):
            path, (_, size, written) = posixpath.join(directory, name), known.get(name, FileTraits(name))
            yield remote_file(uri, path, partition, tier_keys, size, written if written < settled else 0)


def remote_file(
    uri: str,
    path: str,
    partition: PartitionName | None,
    tier_keys: tuple[str, ...] = (),
    listed: int | None = None,
    written: int = 0,
) -> RemoteFile:
    """A file of a store.

    Args:
        uri: any URI of the store. path: of the file, in the store.
        partition: that the file's directory belongs to; None: a broker as a whole.
        tier_keys: paths of private keys for encrypted tiers. listed, written: see `RemoteFile`.
    """
    prefix = _prefix(uri)
    traits = msgspec.structs.asdict(log_file(prefix + path, partition, tier_keys))
    return RemoteFile(**traits, store=uri, prefix=prefix, listed=listed, written=written)


@cache  # the files of a fleet share one text
def _prefix(uri: str) -> str:
    return without_secrets(uri).removesuffix(_opened(uri)[1])


def found_at(uri: str) -> tuple[bool, str]:
    """Whether a URI names a folder, and the path in its store. Raises OSError: the path does not exist, must not be
    read, or is of a store that pyarrow does not know. Raises MissingExtraError: pyarrow is not installed."""
    filesystem, path = _opened(uri)
    from pyarrow import fs

    found = filesystem.get_file_info(path)
    if found.type == fs.FileType.NotFound:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", without_secrets(uri))
    return found.type == fs.FileType.Directory, path


def folder_at(uri: str, path: str) -> tuple[list[str], list[str]]:
    """The folders in a folder of the store of `uri`, by their paths, and the names of its files, both sorted."""
    from pyarrow import fs

    infos = _opened(uri)[0].get_file_info(fs.FileSelector(path))
    folders = sorted(info.path for info in infos if info.type == fs.FileType.Directory)
    return folders, sorted(info.base_name for info in infos if info.type == fs.FileType.File)


def listed(uri: str, path: str, *, deep: bool = True) -> dict[str, tuple[list[str], list[int]]]:
    """The names and sizes of the files in a folder of the store of `uri`, by folder, both sorted. `deep`: with the
    folders below."""
    found = _infos(uri, path, deep=deep, must_exist=True)
    return {
        folder: ([one.name for one in traits], [one.size or 0 for one in traits]) for folder, traits in found.items()
    }


def _infos(uri: str, path: str, *, deep: bool = True, must_exist: bool = False) -> dict[str, list[FileTraits]]:
    """The files in a folder, by folder, both sorted: one request for a thousand of them; of what is not there, none.
    `must_exist`: a folder that is not there is an error."""
    from pyarrow import fs

    found: dict[str, list[FileTraits]] = {}
    try:
        infos = _opened(uri)[0].get_file_info(fs.FileSelector(path, allow_not_found=not must_exist, recursive=deep))
    except NotADirectoryError:
        if must_exist:
            raise
        return {}
    for info in infos:
        if info.type == fs.FileType.File:
            directory, name = posixpath.split(info.path)
            found.setdefault(directory, []).append(FileTraits(name, info.size or 0, info.mtime_ns or 0))
    return {directory: sorted(found[directory]) for directory in sorted(found)}


def matching(uri: str) -> Iterator[str]:
    """The URIs, without their query, that match a URI with globs (`*`, `[0-9]`) in its path, in order. Raises OSError:
    the folder above the first glob cannot be listed. Raises MissingExtraError: pyarrow is not installed."""
    place, mark, query = uri.partition("?")
    parts = place.split("/")
    first = next((number for number, part in enumerate(parts) if has_magic(part)), len(parts))
    above = "/".join(parts[:first])
    filesystem, root = _opened(above + mark + query)
    from pyarrow import fs

    found = [""]
    if filesystem.get_file_info(root).type == fs.FileType.NotFound:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", without_secrets(above))
    for pattern in filter(None, parts[first:]):
        if not has_magic(pattern):
            found = [f"{path}/{pattern}" for path in found]
            continue
        folders = [(path, filesystem.get_file_info(root.rstrip("/") + path)) for path in found]
        listed = [
            (path, info.base_name)
            for path, folder in folders
            if folder.type == fs.FileType.Directory
            for info in filesystem.get_file_info(fs.FileSelector(folder.path))
        ]
        found = [f"{path}/{name}" for path, name in listed if fnmatchcase(name, pattern) and name[:1] != "."]
    for path in sorted(found):
        if filesystem.get_file_info(root.rstrip("/") + path).type != fs.FileType.NotFound:
            yield above + path


def without_secrets(uri: str) -> str:
    """The URI without its user, password and query; a path on this machine as it is."""
    if not is_uri(uri):
        return uri
    place = uri.partition("?")[0].partition("#")[0]
    scheme, _, place = place.partition("://")
    host, slash, path = place.partition("/")
    if "@" in path and "@" not in host and not _HOST.fullmatch(host):  # a key with slashes that are not escaped
        host, slash, path = path.rpartition("@")[2].partition("/")
    return f"{scheme.lower()}://{host.rpartition('@')[2]}{slash}{path}".rstrip("/")


@cache
def _opened(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it."""
    try:
        import pyarrow as pa
        from pyarrow import fs
    except ImportError:
        raise MissingExtraError(f"reading {without_secrets(uri)}", "arrow") from None
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError) as error:
        lines = str(error).replace(uri, without_secrets(uri)).splitlines() or [type(error).__name__]
        raise OSError(errno.EINVAL, f"cannot be opened: {lines[0]}", without_secrets(uri)) from None
    return filesystem, path.rstrip("/") or "/"
