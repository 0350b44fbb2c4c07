"""The options shared by the commands that run on this machine or as a Spark job."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Engine(StrEnum):
    """What does the work: this process, or a Spark job. The answer is the same."""

    local = "local"
    spark = "spark"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="Read on this machine, or as a Spark job; the answer is the same.")
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where the Spark job runs: local[N] (by default all cores), spark://HOST:PORT, yarn, k8s://HOST:PORT, "
        "or sc://HOST:PORT for Spark Connect.",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark, spark.executor.memory=4g; can be repeated."),
]


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """The settings of `--conf`."""
    return dict(map(_setting, conf or ()))


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.startswith("spark."):
        raise typer.BadParameter(f"--conf {text}: give a setting of Spark as spark.NAME=VALUE")
    return name, value
