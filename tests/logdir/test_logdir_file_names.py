"""What names of files and directories mean."""

from __future__ import annotations

from kafkawire.logdir.file_names import FileName, PartitionName, file_name, partition_name
from tests.logdir.logged import NAME


def test_parses_names_of_files_and_directories() -> None:
    assert partition_name("a-b-12") == PartitionName("a-b", 12, "")
    assert partition_name("t-0." + "a" * 32 + "-delete") == PartitionName("t", 0, "delete")
    assert [partition_name(n) for n in ("kafka-logs", "t", "-1", "t-", "t-1x", "t-٣")] == [None] * 6
    assert file_name(f"{NAME}.log") == FileName("log", 0, "")
    assert file_name("00000000000000000042.timeindex.swap") == FileName("timeindex", 42, "swap")
    assert file_name("00000000000000000042-0000000003.checkpoint") == FileName("kraft-snapshot", 42, "")
    assert file_name("replication-offset-checkpoint") == FileName("checkpoint", None, "")
    assert [file_name(n) for n in ("42.log", f"{NAME}.txt", "readme", f"{NAME}.log.bak")] == [None] * 4
