"""A share group on a real cluster: `explain` and `lag` of the cluster say what they say of its log directory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from kafkawire import logdir
from kafkawire.client import Admin
from kafkawire.client.diagnosis.share_reading import read_shares
from kafkawire.offsets.copied_shares import explained_shares
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.rows import Row, SharePartitionState
from tests.client.async_run import run
from tools.broker import BrokerUnavailableError, RunningCluster, cluster, jars
from tools.recordings import share_groups as recipe

pytestmark = pytest.mark.slow
