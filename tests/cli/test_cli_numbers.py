"""Numbers among options: what is plainly one is converted here, and as typer does it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from kafkawire import cli
from kafkawire.cli.usage_errors import UsageError

TEXTS = st.sampled_from(
    ["0", "-0", "007", "+5", "5", "-5", "12", "1.5", "-1.5", "1.", ".5", "1e3", "inf", "nan", "1_0", " 5", "", "x",
     "9" * 18, "9" * 25, "0.1", "1" * 15 + "." + "1" * 15, "\u0663", "0x10"]
)  # fmt: skip


def commands() -> tuple[Any, Any]:
    """A command whose numbers typer converts, and one that is prepared as kafkawire's are."""
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    def _(
        whole: Annotated[int | None, typer.Option("--whole", min=-3, max=12)] = None,
        real: Annotated[float | None, typer.Option("--real", min=-1)] = None,
        many: Annotated[list[int] | None, typer.Option("--many", min=0)] = None,
    ) -> None:
        found.append((whole, real, many, [type(each) for each in (whole, real, *(many or ()))]))

    plain, prepared = get_command(app), get_command(app)
    cli._prepare(prepared)
    return plain, prepared


found: list[Any] = []
PLAIN, PREPARED = commands()


def outcome(command: Any, arguments: list[str]) -> Any:
    found.clear()
    try:
        with command.make_context("x", list(arguments)) as context:
            command.invoke(context)
    except UsageError as error:
        return str(error)
    return repr(found)  # of NaN, too


@pytest.mark.slow
@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_numbers_are_those_of_typer(whole: str, real: str, many: list[str]) -> None:
    arguments = [f"--whole={whole}", f"--real={real}", *(f"--many={each}" for each in many)]
    for given_ in ([arguments[0]], [arguments[1]], arguments[2:], arguments):
        assert outcome(PREPARED, given_) == outcome(PLAIN, given_)
