"""Transactions and their coordinator records in Spark SQL, over a table of facts (`transaction_table`): windows and
joins, no Python in the shuffle.

The same rules as `transactions.Replay` and `transactions.IdHistory`, with which tests compare them: state is keyed by
the partition (`place`) and the producer id; a producer's marker ends what stands before it.
"""

#: Every transaction, open or ended, a row for each replica of each partition that holds data of it. `{places}` names
#: the places. A producer's markers cut its batches into transactions: a piece begins with data and ends with a marker.
TRANSACTIONS = """
WITH numbered AS (
  SELECT place, rank, offset, last_offset, timestamp, producer_id, producer_epoch, control, coordinator_epoch,
    count(control) OVER (PARTITION BY place, producer_id ORDER BY rank
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS number
  FROM {facts} WHERE kind = 'batch'
), transaction AS (
  SELECT place, producer_id, number,
    max_by(producer_epoch, rank) FILTER (WHERE control IS NULL) AS producer_epoch,
    min_by(offset, rank) FILTER (WHERE control IS NULL) AS first_offset,
    max_by(last_offset, rank) FILTER (WHERE control IS NULL) AS last_offset,
    count(*) FILTER (WHERE control IS NULL) AS batches,
    min_by(timestamp, rank) FILTER (WHERE control IS NULL) AS first_timestamp,
    max_by(timestamp, rank) FILTER (WHERE control IS NULL) AS last_timestamp,
    max(control) AS control,
    max(offset) FILTER (WHERE control IS NOT NULL) AS marker_offset,
    max(producer_epoch) FILTER (WHERE control IS NOT NULL) AS marker_epoch,
    max(timestamp) FILTER (WHERE control IS NOT NULL) AS marker_timestamp,
    max(coordinator_epoch) AS coordinator_epoch
  FROM numbered GROUP BY place, producer_id, number
  HAVING count(*) FILTER (WHERE control IS NULL) > 0
), registration AS (
  SELECT facts.*, places.cluster, places.partition AS number
  FROM {facts} AS facts JOIN {places} AS places ON facts.place = places.place
  WHERE kind = 'registration'
), newest AS (  -- of several replicas the one that reaches further
  SELECT cluster, number, transactional_id,
    max_by(struct(timestamp, producer_id, producer_epoch, state, timeout_ms, started, updated), offset) AS record
  FROM registration GROUP BY cluster, number, transactional_id
), owner AS (
  SELECT cluster, number, named AS producer_id,
    max_by(struct(transactional_id, named = producer_id AS current), struct(named = producer_id, offset)) AS id
  FROM registration
  LATERAL VIEW explode(array_distinct(array(producer_id, previous_producer_id, next_producer_id))) AS named
  WHERE named >= 0 GROUP BY cluster, number, named
), known AS (
  SELECT owner.cluster, owner.producer_id,
    max_by(struct(newest.transactional_id, newest.record),
      struct(owner.id.current, newest.record.timestamp, owner.number)) AS id
  FROM owner JOIN newest ON owner.cluster <=> newest.cluster AND owner.number = newest.number
    AND owner.id.transactional_id = newest.transactional_id
  GROUP BY owner.cluster, owner.producer_id
)
SELECT places.cluster, places.directory, places.topic, places.partition,
  transaction.producer_id, transaction.producer_epoch, transaction.first_offset, transaction.last_offset,
  transaction.batches, transaction.first_timestamp, transaction.last_timestamp,
  CASE transaction.control WHEN 0 THEN 'aborted' WHEN 1 THEN 'committed' WHEN 2 THEN 'ended' ELSE 'open' END AS state,
  CASE transaction.control WHEN 0 THEN 'ABORT' WHEN 1 THEN 'COMMIT' END AS outcome,
  transaction.marker_offset, transaction.marker_epoch, transaction.marker_timestamp, transaction.coordinator_epoch,
  transaction.marker_timestamp - transaction.first_timestamp AS duration_ms,
  known.id.transactional_id,
  known.id.record.state AS coordinator_state,
  known.id.record.producer_id AS coordinator_producer_id,
  known.id.record.producer_epoch AS coordinator_producer_epoch,
  known.id.record.timeout_ms AS transaction_timeout_ms,
  known.id.record.started AS transaction_start_timestamp,
  known.id.record.updated AS transaction_last_update_timestamp
FROM transaction JOIN {places} AS places ON transaction.place = places.place
LEFT JOIN known ON known.cluster <=> places.cluster AND known.producer_id = transaction.producer_id
"""
