"""`Watch`: find-hanging at an interval, and the changes between polls.

    watch = Watch(admin, Search(), interval_s=60)
    async for rows in watch.run():
        ...  # changes, and the poll itself, also if it failed

A poll sends the requests of `find_hanging`, and fewer if possible: a confirmed transaction is not confirmed again, and
`__transaction_state` is read as a proof only from time to time. Polls do not overlap: a poll that is due while another
runs is left out, and counted by the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec.structs import replace

from kafkawire.client.admin import Admin
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.client.diagnosis.hanging_search import observe
from kafkawire.client.diagnosis.search import Observation, Search
from kafkawire.client.errors import ClientError, ConnectError
from kafkawire.client.watch.state import PollAttempt, WatchState, advance
from kafkawire.errors import KafkaWireError
from kafkawire.rows import Change, Lag, Poll

#: Seconds between two readings of `__transaction_state`.
READ_LOG_S = 600.0
#: The least default timeout of a poll, seconds.
_LEAST_S = 5.0


class Watch:
    """The search for hanging transactions, repeated at an interval; `run` yields the changes between polls.

    Attributes:
        state: replaced by each poll, never modified: other threads may read it.
        observation: of the last poll that could read anything. `error`: of the last poll, None if it could.
        search: what each poll looks for, with the limit of each call. `poll_timeout_s`: seconds for a whole poll.
    """

    def __init__(
        self,
        admin: Admin,
        search: Search,
        *,
        interval_s: float,
        poll_timeout_s: float | None = None,
        read_log_s: float = READ_LOG_S,
        everything: bool = False,
        lag_groups: Sequence[str] = (),
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        """
        Args:
            interval_s: seconds from the start of one poll to the start of the next.
            poll_timeout_s: seconds for a poll, by default `interval_s`, at least 5. Pauses before suspects are read
                again do not count. A call may take half of it, or less as configured.
            read_log_s: least seconds between two readings of `__transaction_state`.
            everything: report transactions that are live or young, too.
            lag_groups: consumer groups whose lag is read with each poll.
            clock: returns epoch milliseconds.
        """
        self.state = WatchState()
        self.observation: Observation | None = None
        self.error: KafkaWireError | None = None
        self._cluster = admin.cluster
        self._interval_s = interval_s
        self.poll_timeout_s = poll_timeout_s or max(interval_s, _LEAST_S)
        call_s = search.timeout_s or admin.cluster.config.api_timeout_s
        self.search = replace(search, timeout_s=min(call_s, self.poll_timeout_s / 2))
        self._read_log_s = read_log_s
        self._log_read = float("-inf")
        self._everything = everything
        self._lag_groups = tuple(dict.fromkeys(lag_groups))
        self._clock = clock
        self._number = 0

    def use(self, admin: Admin) -> None:
        """Goes on with another client of the same cluster, for example with new passwords: states and numbers stay."""
        self._cluster = admin.cluster

    async def run(self) -> AsyncIterator[list[Change | Poll]]:
        """Polls until it is cancelled; yields the rows of each poll.

        Raises:
            ClientError: the first poll fails with a permanent error, for example a wrong listener or password.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        due = 0  # the number of intervals after `begun` at which the next poll is due
        missed = 0
        while True:
            await asyncio.sleep(max(0.0, begun + due * self._interval_s - loop.time()))
            rows = await self.poll(missed=missed)
            if self._number == 1 and isinstance(self.error, ConnectError) and not self.error.retriable:
                raise self.error
            yield rows
            passed = int((loop.time() - begun) / self._interval_s)
            missed = max(0, passed - due)
            due = max(due, passed) + 1

    async def poll(self, *, missed: int = 0) -> list[Change | Poll]:
        """One poll and its rows. Errors of the cluster are not raised: a failed poll is a row, too."""
        self._number += 1
        began = self._clock()
        observation = None
        self.error = None
        try:
            async with asyncio.timeout(self.poll_timeout_s) as limit:
                observation = await self._observe(limit)
        except TimeoutError:
            self.error = ClientError(f"the poll did not come to its end in {self.poll_timeout_s:.3g} s")
        except KafkaWireError as error:
            self.error = error
        attempt = PollAttempt(
            number=self._number,
            began=began,
            ended=max(began, self._clock()),
            missed=missed,
            observation=observation,
            error=None if self.error is None else str(self.error),
        )
        self.observation = observation or self.observation
        self.state, rows = advance(self.state, attempt, everything=self._everything)
        if self._lag_groups and observation is not None:
            await self._read_lags()
        return rows

    async def _read_lags(self) -> None:
        """The lag of each group, in the time of a poll for all of them together."""
        # Counting needs NumPy, which a watch without groups does without.
        from kafkawire.client.diagnosis.group_standing import read_group_lags

        search = replace(self.search, topics=None, partitions=None, places=None, broker_id=None, impact=False)
        lags: list[Lag] = []
        unread: dict[str, str] = {}
        late = f"its lag was not read in {self.poll_timeout_s:.3g} s"
        loop = asyncio.get_running_loop()
        end = loop.time() + self.poll_timeout_s
        for group in self._lag_groups:
            try:
                async with asyncio.timeout_at(end):
                    lags += await read_group_lags(self._cluster, group, search)
            except TimeoutError:
                unread[group] = late
            except KafkaWireError as error:
                unread[group] = str(error)
        self.state = replace(self.state, lags=tuple(lags), unread_groups=unread)

    async def _observe(self, limit: asyncio.Timeout) -> Observation:
        async def pause(seconds: float) -> None:
            limit.reschedule((limit.when() or 0.0) + seconds)
            await asyncio.sleep(seconds)

        now = time.monotonic()
        read_log = now - self._log_read >= self._read_log_s
        since = {key: seen.since for key, seen in self.state.seen.items()}
        found = await observe(
            self._cluster,
            self.search,
            self.state.findings,
            since=since,
            read_log=read_log,
            pause=pause,
            clock=self._clock,
        )
        if found.read_log:
            self._log_read = now
        return found
