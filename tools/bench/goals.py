"""The goals that the project set itself, each computed from a run: met, not met, or not measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import geometric_mean

from tools.bench import dissectors, spark_cases, transactions
from tools.bench.results import BenchRun, Result

#: (contestants that were divided, quotient) of each case; a goal judges all of them or their mean.
Ratios = list[tuple[str, float]]


@dataclass(frozen=True)
class Goal:
    """`measure` gives the value, None where what it needs did not take part; `meets` judges it, `show` prints it.
    `why`: what a profile shows where the goal is not met."""

    text: str
    measure: Callable[[BenchRun], float | None]
    meets: Callable[[float], bool]
    show: str = "{:.2f}×"
    why: Callable[[BenchRun], str] | None = None


@dataclass(frozen=True)
class JudgedGoal:
    """A goal and its result in a run."""

    text: str
    value: str
    verdict: str
    why: str = ""


def ratios(run: BenchRun, table: str, ours: str, other: str) -> Ratios:
    """How many times as long `other` takes as `ours`, for each case of a table in which both took part.

    Args:
        table: `Result.table`. `ours`, `other`: names of contestants.
    """
    found = []
    for result in run.table(table):
        mine, theirs = result.timing(ours), result.timing(other)
        if mine and theirs:
            found.append((result.title, theirs.median / mine.median))
    return found


def mean(table: str, ours: str, other: str) -> Callable[[BenchRun], float | None]:
    """Geometric mean of the ratios of a table. Args: as of `ratios`."""
    return _over(geometric_mean, table, ours, other)


def least(table: str, ours: str, other: str) -> Callable[[BenchRun], float | None]:
    """The smallest ratio of a table. Args: as of `ratios`."""
    return _over(min, table, ours, other)


def _over(
    reduce: Callable[[list[float]], float], table: str, ours: str, other: str
) -> Callable[[BenchRun], float | None]:
    def measure(run: BenchRun) -> float | None:
        found = [ratio for _, ratio in ratios(run, table, ours, other)]
        return reduce(found) if found else None

    return measure


def quotient(key: str, ours: str, other: str, other_key: str = "") -> Callable[[BenchRun], float | None]:
    """The ratio in one case (or of `other` in another case to `ours` in this).

    Args:
        key: of the case. `ours`, `other`: names of contestants.
        other_key: of the case in which `other` is measured; the same one by default.
    """

    def measure(run: BenchRun) -> float | None:
        mine = _time(run.result(key), ours)
        theirs = _time(run.result(other_key or key), other)
        return theirs / mine if mine and theirs else None

    return measure


def _time(result: Result | None, contestant: str) -> float | None:
    timing = result.timing(contestant) if result else None
    return timing.median if timing else None


def rate(key: str, contestant: str) -> Callable[[BenchRun], float | None]:
    """Thousands of items a second."""

    def measure(run: BenchRun) -> float | None:
        result = run.result(key)
        time = _time(result, contestant)
        return result.items / time / 1e3 if result and time else None

    return measure


def milliseconds(key: str, contestant: str) -> Callable[[BenchRun], float | None]:
    def measure(run: BenchRun) -> float | None:
        time = _time(run.result(key), contestant)
        return None if time is None else time * 1e3

    return measure


def peak(what: str, least_size: int) -> Callable[[BenchRun], float | None]:
    """Most megabytes that the command `what` took with a file of at least `least_size`."""

    def measure(run: BenchRun) -> float | None:
        return max(
            (found.peak / 1e6 for found in run.peaks if found.title.startswith(what) and found.size >= least_size),
            default=None,
        )

    return measure


def at_least(limit: float) -> Callable[[float], bool]:
    return lambda value: value >= limit


def at_most(limit: float) -> Callable[[float], bool]:
    return lambda value: value <= limit


def bound(other: str) -> Callable[[BenchRun], str]:
    """The C bound's own ratio to a peer: what no decoder that makes Python objects passes by much."""

    def describe(run: BenchRun) -> str:
        found = mean("decode", "C bound", other)(run)
        ratio = "–" if found is None else f"{found:.2f}×"
        return (
            f"The C bound, which makes the same objects and checks nothing, reaches {ratio} itself. Fetch and "
            "Produce copy records, whatever the language (half of the time of Produce is memmove's); of the others, a "
            "profile shows CPython's allocating, freeing and counting of references, and little else."
        )

    return describe


def _kept_columns(run: BenchRun) -> str:
    result = run.result("columns/TransactionLogValue")
    spreads = [timing.spread for name in (N, JAVA) if result and (timing := result.timing(name))]
    return (
        "Java drops each object once it is read, and collects them in threads that do not count; the columns hold all "
        "values, in buffers that the thread allocates, fills and frees. The two figures vary, in this run by "
        f"{' and '.join(f'{spread:.0%}' for spread in spreads)}."
    )


def _fixed(text: str) -> Callable[[BenchRun], str]:
    return lambda run: text


_PURE = _fixed(
    "kio's decoder is compiled. Generated Python is ahead where a message is arrays of numbers (DescribeProducers), "
    "and behind where it is short strings and small structs (Metadata, ApiVersions, Produce): a profile shows a call "
    "for each of them. Strings read in place would spare some 30 ns each, and the generated code would no longer read "
    "as if written by hand."
)
_COMMAND_START = _fixed(
    "On a file of 27 MB the start of the command (Python, its imports, the layouts of the messages that occur) is more "
    "than half of the time: 0.2 s of 0.3 s of CPU time. Long connections, 93,600 frames: TCP streams and frames "
    "take 0.034 s (3.8 M packets a second; a plain C walk over Ethernet, IP and TCP reaches 41 M), headers, error "
    "codes, order and lines 0.073 s, bodies 0.10 s more."
)
_FORMS = _fixed(
    "The bytes of bodies are copied once more, into buffers of Arrow. Parquet's encoding and compression come on top, "
    "a fifth of the time; the file has a fifth of the size of the lines."
)
_OPEN = _fixed(
    "Connections that stay open take the memory, 1.5 KB each once they are idle; with none left open it is 34 to 37 MB "
    "whatever the size. The example leaves 2 of its 36 open; repeated to 2 GB, 20,000 of them are held, which is the "
    "limit of open connections."
)
_PLUGIN = _fixed(
    "tshark 4.0 builds the whole tree of a Lua plugin, whatever is printed; making and collecting an object for every "
    "field is most of the time. Newer releases skip the parts that are not printed. Bodies can be switched off "
    "(kafkawire.bodies)."
)
_SPARK_CORES = _fixed(
    "The logs are small: the audit takes some seconds, in which the start of each of Spark's jobs and the driver's "
    "part are not divided. With one core, Spark runs one task at a time, and the JVM's other threads use the second "
    "core. Larger logs gain more: 2.31 times (2,000 partitions), see [Spark](spark.md#how-far-the-audit-goes)."
)
_TABLE_VALUES = _fixed(
    "The machine was slower by a fifth: it was 603k in the run at bda1549d and 500k in that at 54b2489c, and "
    "`from_kafka_message`, on the same values, 659k and 543k."
)
_FETCH_ENCODED = _fixed(
    "Fetch copies a megabyte of records, whatever the language, and its time is the allocator's: kafka-python took "
    "1.17 ms in the run at bda1549d and 0.19 ms in that at 54b2489c, with the same code. That alone moved this mean "
    "from 7.4 to 4.8."
)
_MARKERS = _fixed(
    "Of the batches of one record every fifth is a marker. The rows of a marker are objects of Python, some 50 µs "
    "each, for which `--transaction` looks up the state one by one; lines of data are written by the engine, with the "
    "states of all batches at once. Dumps of committed data have no markers."
)
_LZ4 = _fixed(
    "Kafka's frames have blocks of 64 KiB. Java's lz4 is the same C library, and its walk decompresses into one buffer "
    "that stays in the cache, where columns need all bytes of a piece at once."
)

N, P, KIO, KP, JAVA = "kafkawire native", "kafkawire python", "kio", "kafka-python", "Java"
LOG, DEEP = "kafka-dump-log", "dump/deep/"
_MS = "{:.1f} ms"
GOALS = (
    Goal("decode, native: at least 2.5× kio, geometric mean", mean("decode", N, KIO), at_least(2.5), why=bound(KIO)),
    Goal("decode, native: ahead of kio in every case (smallest ratio)", least("decode", N, KIO), at_least(1)),
    Goal(
        "decode, native: at least 10× kafka-python, geometric mean", mean("decode", N, KP), at_least(10), why=bound(KP)
    ),
    Goal("decode, native: within 1.5× of the C bound, geometric mean", mean("decode", "C bound", N), at_most(1.5)),
    Goal("encode, native: within 1.5× of the C bound, geometric mean", mean("encode", "C bound", N), at_most(1.5)),
    Goal("encode, native: at least 20× kio, geometric mean", mean("encode", N, KIO), at_least(20)),
    Goal("encode, native: at least 12× kafka-python, geometric mean", mean("encode", N, KP), at_least(12)),
    Goal("decode, pure Python: no slower than kio, geometric mean", mean("decode", P, KIO), at_least(1), why=_PURE),
    Goal("encode, pure Python: at least 5× kio, geometric mean", mean("encode", P, KIO), at_least(5)),
    Goal(
        "encode, pure Python: at least 5× kafka-python, geometric mean",
        mean("encode", P, KP),
        at_least(5),
        why=_FETCH_ENCODED,
    ),
    Goal(
        "columns of TransactionLogValue: at least as fast as Java reads objects",
        quotient("columns/TransactionLogValue", N, JAVA),
        at_least(1),
        why=_kept_columns,
    ),
    Goal(
        "columns of records: ahead of Java's walk for every codec (smallest ratio)",
        least("records/columns", N, JAVA),
        at_least(1),
        why=_LZ4,
    ),
    Goal(
        "columns of records, uncompressed: within 1.5× of Java's walk",
        quotient("records/columns/none", JAVA, N),
        at_most(1.5),
    ),
    Goal(
        "`import kafkawire`: at most 15 ms beyond Python and msgspec",
        milliseconds("startup/import", N),
        at_most(15),
        _MS,
    ),
    Goal("first use of one message: at most 15 ms", milliseconds("startup/first", N), at_most(15), _MS),
    *(
        Goal(
            f"dump to jsonl with payloads, {codec}: at least {limit}× {LOG}",
            quotient(DEEP + codec, N, LOG),
            at_least(limit),
        )
        for codec, limit in (("none", 1.5), ("lz4", 2))
    ),
    *(
        Goal(
            f"dump with transactions to jsonl, {shape}, {view}: at most 1.2× the time without",
            quotient(f"isolation/{shape}", N, f"{N}, {view}"),
            at_most(1.2),
            why=_MARKERS,
        )
        for shape in ("deep", "compressed", "short")
        for view in ("--transaction", "committed")
    ),
    *(
        Goal(
            f"dump {what}, {codec}: at least 5× {LOG} printing the records",
            quotient(f"dump/{shape}/{codec}", N, LOG, DEEP + codec),
            at_least(5),
        )
        for shape, what in (("arrow", "to Arrow"), ("headers", "of batches only"))
        for codec in ("none", "lz4")
    ),
    *(
        Goal(
            f"capture {what}, {connections} connections: at least {limit}× {name}",
            quotient(f"capture/{shape}/{connections}", N, name),
            at_least(limit),
            why=_COMMAND_START,
        )
        for connections in ("long", "short")
        for shape, what, name, limit in (
            ("bodies", "with bodies to jsonl", "tshark, json", 50),
            ("bodies", "with bodies to jsonl", "tshark, json of Kafka", 20),
            ("headers", "of headers", "tshark, fields", 15),
        )
    ),
    Goal(
        "Wireshark plugin: at most twice as long as Wireshark's own dissector",
        quotient(dissectors.KEY, dissectors.OWN, dissectors.PLUGIN),
        at_most(2),
        why=_PLUGIN,
    ),
    Goal(
        "find-hanging over 1,000 partitions: at least 3× kafka-transactions, its JVM's start included",
        quotient(transactions.KEY, N, transactions.STOCK),
        at_least(3),
    ),
    Goal(
        "from_kafka_message, TransactionLogValue: at least 6× a Python UDF",
        quotient(spark_cases.MESSAGES, spark_cases.FUNCTION, spark_cases.UDF),
        at_least(6),
    ),
    *(
        Goal(f"{name}: at least {limit}k {what} a second and core", rate(key, name), at_least(limit), "{:,.0f}k", why)
        for key, name, limit, what, why in (
            (spark_cases.MESSAGES, spark_cases.FUNCTION, 400, "values", None),
            (spark_cases.MESSAGES, spark_cases.TABLE, 600, "values", _TABLE_VALUES),
            (spark_cases.HEADERS, spark_cases.SOURCE, 250, "batches", None),
        )
    ),
    *(
        Goal(
            f"records counted on Spark, {ours}: at most 3× Parquet's time",
            quotient(spark_cases.COUNT, spark_cases.PARQUET, ours),
            at_most(3),
        )
        for ours in (spark_cases.BY_HEADERS, spark_cases.ONE_COLUMN)
    ),
    Goal(
        "audit on Spark: at least half of the SQL prototype's 443k batches a second on two cores",
        rate(spark_cases.AUDIT, spark_cases.SPARK),
        at_least(221),
        "{:,.0f}k",
    ),
    Goal(
        "audit on Spark: from one core to two at least 1.4×",
        quotient(spark_cases.AUDIT, spark_cases.SPARK, spark_cases.SPARK_ONE),
        at_least(1.4),
        why=_SPARK_CORES,
    ),
    Goal(
        "most memory of a dump of a 2 GB segment (jsonl, Parquet, batches): under 200 MB",
        peak("dump", 2 << 30),
        at_most(200),
        "{:.0f} MB",
    ),
    *(
        Goal(
            f"capture with bodies to {form}, {connections} connections: at least as fast as jsonl",
            quotient(f"capture/forms/{connections}", f"{N}, {form}", f"{N}, jsonl"),
            at_least(1),
            why=_FORMS,
        )
        for form in ("columns", "parquet")
        for connections in ("long", "short")
    ),
    Goal(
        "most memory of a capture of any size: at most 64 MB",
        peak("capture", 0),
        at_most(64),
        "{:.0f} MB",
        why=_OPEN,
    ),
)


def judge(run: BenchRun, goals: Iterable[Goal] = GOALS) -> list[JudgedGoal]:
    """Every goal, with its value in this run."""
    judged = []
    for goal in goals:
        value = goal.measure(run)
        if value is None:
            judged.append(JudgedGoal(goal.text, "–", "not measured"))
        else:
            met = goal.meets(value)
            why = "" if met or goal.why is None else goal.why(run)
            judged.append(JudgedGoal(goal.text, goal.show.format(value), "met" if met else "**not met**", why))
    return judged
