"""The files in docs/deploy: rules, dashboard, unit, image and manifest are those of the command as it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.client.watch.metrics import families
from kafkawire.client.watch.state import WatchState, advance
from kafkawire.rows import Lag
from tests.client.watching import T0, attempt, finding, observation
from tools.polling import until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
RULES, DASHBOARD = DEPLOY / "prometheus-rules.yml", DEPLOY / "grafana-dashboard.json"
WATCH = (ROOT / "docs" / "watch.md").read_text()
yaml = pytest.importorskip("yaml")

HOUR_MS = 3_600_000


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    """Those of the dashboard, for all jobs."""
    found = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
    return [query.replace("$job", ".*") for query in found]


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_rules_and_dashboard_use_metrics_that_exist() -> None:
    pytest.importorskip("prometheus_client")
    state, _ = advance(WatchState(), attempt(1, observation(finding())), everything=False)
    state = msgspec.structs.replace(state, lags=(Lag(group="shipments", topic="orders", partition=0),))
    names = {sample.name for family in families(state, T0, interval_ms=60_000) for sample in family.samples}
    names |= {family.name for family in families(state, T0, interval_ms=60_000)}
    names |= {f"{family.name}_total" for family in families(state, T0, interval_ms=60_000) if family.type == "counter"}
    names |= {rule["record"] for rule in rules() if "record" in rule}
    for query in [rule["expr"] for rule in rules()] + queries():
        used = re.findall(r"\b(?:[a-z_]+:)?kafka[a-z0-9_]*(?::[a-z0-9]+)?\b", query)
        assert used, query
        assert set(used) <= names, query


def test_each_alert_has_its_section_in_the_guide() -> None:
    for rule in rules():
        if "alert" in rule:
            anchor = rule["annotations"]["runbook_url"].partition("#")[2]
            assert anchor in {heading.lower() for heading in re.findall(r"^#### (\w+)$", WATCH, re.MULTILINE)}


@pytest.mark.slow
def test_rules_do_as_their_tests_say() -> None:
    promtool = program("promtool")
    for command in (["check", "rules", RULES.name], ["test", "rules", "prometheus-rules-test.yml"]):
        done = subprocess.run([promtool, *command], cwd=DEPLOY, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_is_the_one_of_its_source() -> None:
    pytest.importorskip("grafana_foundation_sdk")
    from tools.grafana_dashboard import dashboard_json

    assert dashboard_json() == DASHBOARD.read_text()


def commands() -> dict[str, list[str]]:
    """File -> the arguments of kafkawire in it."""
    unit = (DEPLOY / "kafkawire-watch.service").read_text().replace("\\\n", " ")
    (start,) = re.findall(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text()))
    (container,) = manifests[1]["spec"]["template"]["spec"]["containers"]
    return {"unit": start.split(), "manifest": container["args"]}


@pytest.mark.parametrize("name", ["unit", "manifest"])
def test_command_lines_are_understood(run: Any, name: str) -> None:
    arguments = commands()[name]
    words = list(takewhile(lambda one: not one.startswith("-"), arguments))
    assert words == ["txn", "watch"]
    options = set(re.findall(r"--[a-z-]+", run(*words, "--help").text))
    assert {one.partition("=")[0] for one in arguments if one.startswith("--")} <= options


def test_manifest_gives_the_process_no_rights_that_it_does_not_need() -> None:
    _, deployment, service = yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    assert {"/-/healthy", "/-/ready"} == {
        container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")
    }
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_unit_is_valid(tmp_path: Path) -> None:
    unit = (DEPLOY / "kafkawire-watch.service").read_text().replace("/opt/kafkawire/bin/kafkawire", sys.executable)
    (tmp_path / "kafkawire-watch.service").write_text(unit)
    command = [program("systemd-analyze"), "verify", str(tmp_path / "kafkawire-watch.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.slow
def test_prometheus_evaluates_rules_and_dashboard_over_a_watch(tmp_path: Path) -> None:
    """A real Prometheus scrapes the command, which watches a mock broker with a hanging transaction."""
    program("prometheus")
    pytest.importorskip("prometheus_client")
    from kafkawire.testing import MockBroker
    from tests.docs.scraped_watch import scraped_watch
    from tools.recordings.raw_client import RawCluster

    with MockBroker({"orders": 1}, verify_transactions=False) as broker:
        with RawCluster(broker.address) as client:
            client.produce("orders", 0, [b"lost"], client.init_producer("late"), timestamp=clock_ms() - 3 * HOUR_MS)
        with scraped_watch(broker.address, tmp_path) as ask:

            def hanging() -> bool:
                alerts = {one["labels"]["alertname"] for one in ask("alerts")["alerts"]}
                return "KafkaTransactionHanging" in alerts

            until(hanging, "the alert", seconds=30)
            for rule in (rule for group in ask("rules")["groups"] for rule in group["rules"]):
                assert rule["health"] == "ok", rule
            empty = [query for query in queries() if not ask("query", query=query)["result"]]
        # Nothing is late by Kafka's measure, unread, blocked or missed, no group is read; rates need a second scrape.
        assert [query for query in empty if "rate(" not in query and "increase(" not in query] == [
            'topk(10, max by (group, topic, partition) (kafkawire_group_lag_records{job=~".*", bound="most"}))',
            'sum by (topic, partition) (kafkawire_blocked{job=~".*"}) > 0',
            'max by (broker) (kafkawire_unread_partitions{job=~".*"}) > 0',
        ]
