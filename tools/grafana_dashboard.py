"""The Grafana dashboard of `kafkawire txn watch`: `python -m tools.grafana_dashboard` writes it.

Grafana's own types (grafana-foundation-sdk) check it. The panels are the table below.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tools import ROOT

PATH = ROOT / "docs" / "deploy" / "grafana-dashboard.json"
_SOURCE = "${datasource}"
_JOB = '{job=~"$job"}'


class Panel(NamedTuple):
    """A graph, or a number (`stat`).

    Attributes:
        queries: PromQL -> legend.
        unit: Grafana's name of it.
        width: of 24.
    """

    title: str
    text: str
    queries: dict[str, str]
    unit: str = "short"
    stat: bool = False
    width: int = 12


def _on(name: str) -> str:
    return name + _JOB


_OPEN = _on("kafkawire_open_transactions")
_LATE = "kafka_server_replica_manager_partitions_with_late_transactions_count"
_TITLE = "{{topic}}-{{partition}}"
_MOST_LAG = 'kafkawire_group_lag_records{job=~"$job", bound="most"}'

PANELS = (
    Panel(
        "Hanging or stuck",
        "Transactions that only an operator ends.",
        {f"sum({_on('kafkawire_hanging')}) or vector(0)": "transactions"},
        stat=True,
        width=5,
    ),
    Panel(
        "Blocked",
        "Transactions that do not hang, and have held a last stable offset for longer than --blocked-after.",
        {f"sum({_on('kafkawire_blocked')}) or vector(0)": "transactions"},
        stat=True,
        width=5,
    ),
    Panel(
        "Open transactions",
        "All of them; most live for a moment.",
        {f"sum({_OPEN})": "transactions"},
        stat=True,
        width=5,
    ),
    Panel(
        "Brokers that did not answer",
        "What they lead is not known.",
        {f"max({_on('kafkawire_brokers_expected')} - {_on('kafkawire_brokers_answered')})": "brokers"},
        stat=True,
        width=5,
    ),
    Panel(
        "Since all was read",
        "Seconds since the last poll that could read everything.",
        {f"time() - max({_on('kafkawire_last_complete_timestamp_seconds')})": "age"},
        unit="s",
        stat=True,
        width=4,
    ),
    Panel(
        "Last stable offset lag",
        "Offsets that consumers with isolation.level=read_committed do not get yet.",
        {f"topk(10, {_on('kafka_cluster_partition_last_stable_offset_lag')})": _TITLE},
    ),
    Panel(
        "Longest open transaction",
        "At least so long, by partition.",
        {f"topk(10, {_on('kafka_cluster_partition_max_active_transaction_duration_seconds')})": _TITLE},
        unit="s",
    ),
    Panel(
        "Lag of groups",
        "Records that a read_committed consumer gets now, at most (--lag GROUP).",
        {f"topk(10, max by (group, topic, partition) ({_MOST_LAG}))": "{{group}}: " + _TITLE},
    ),
    Panel(
        "Blocked or hanging, by partition",
        "Transactions that hold readers back.",
        {
            f"sum by (topic, partition) ({_on('kafkawire_blocked')}) > 0": f"blocked: {_TITLE}",
            f"sum by (topic, partition) ({_on('kafkawire_hanging')}) > 0": f"hanging or stuck: {_TITLE}",
        },
    ),
    Panel(
        "Open transactions by verdict",
        "What each verdict means: docs/transactions.md.",
        {f"sum by (verdict, reason) ({_OPEN}) > 0": "{{verdict}}: {{reason}}"},
    ),
    Panel(
        "Partitions with late transactions",
        "KIP-664's metric, by leader.",
        {
            f"max by (broker) ({_on(_LATE)})": "broker {{broker}}",
        },
    ),
    Panel(
        "Polls",
        "By outcome, a minute.",
        {
            f"sum by (outcome) (rate({_on('kafkawire_polls_total')}[5m])) * 60": "{{outcome}}",
            f"sum(rate({_on('kafkawire_missed_polls_total')}[5m])) * 60": "missed",
        },
    ),
    Panel(
        "Duration of a poll",
        "A poll that takes longer than the interval delays the next one.",
        {f"max({_on('kafkawire_poll_duration_seconds')})": "seconds"},
        unit="s",
    ),
    Panel(
        "Not read",
        "Partitions, by the broker that did not answer for them (-1: no leader), and other gaps.",
        {
            f"max by (broker) ({_on('kafkawire_unread_partitions')}) > 0": "broker {{broker}}",
            f"max({_on('kafkawire_gaps')})": "gaps",
        },
    ),
    Panel(
        "Requests that brokers left unanswered",
        "Polls in which it happened, by broker.",
        {f"sum by (broker) (increase({_on('kafkawire_broker_failures_total')}[15m]))": "broker {{broker}}"},
    ),
)


def dashboard_json() -> str:
    """The dashboard as Grafana imports it."""
    from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.common import LegendPlacement
    from grafana_foundation_sdk.models.dashboard import DataSourceRef

    source = DataSourceRef(type_val="prometheus", uid=_SOURCE)
    board = (
        dashboard.Dashboard("Kafka transactions (kafkawire)")
        .uid("kafkawire-transactions")
        .tags(["kafka", "kafkawire"])
        .refresh("1m")
        .time("now-6h", "now")
        .readonly()
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("job")
            .datasource(source)
            .query("label_values(kafkawire_stale, job)")
            .include_all(True)
            .all_value(".*")
            .multi(True)
        )
    )
    for panel in PANELS:
        built: Any = (stat if panel.stat else timeseries).Panel()
        built.title(panel.title).description(panel.text).unit(panel.unit).datasource(source)
        built.span(panel.width).height(4 if panel.stat else 8).min(0)
        if panel.stat:
            built.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        else:
            built.legend(common.VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM))
        for name, (expression, legend) in zip("ABC", panel.queries.items(), strict=False):
            built.with_target(prometheus.Dataquery().ref_id(name).expr(expression).legend_format(legend))
        board.with_panel(built)
    return JSONEncoder(sort_keys=True, indent=1).encode(board.build()) + "\n"


if __name__ == "__main__":
    PATH.write_text(dashboard_json(), "utf-8")
