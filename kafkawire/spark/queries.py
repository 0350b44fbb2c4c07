"""Transactions and their owners in Spark SQL, over the table of facts (`table`). No Python in the shuffle.

The same rules as `transactions.Replay` and `transactions.IdLog`, which a test holds them against: state is keyed by the
partition (`place`) and the producer id; a producer's last marker ends what stands before it.
"""

#: Data after each producer's last marker; with the newest marker of anybody that stands before the last batch of it.
OPEN = """
WITH marker AS (
  SELECT place, rank, producer_id, timestamp, coordinator_epoch
  FROM {facts} WHERE kind = 'batch' AND control IS NOT NULL
), ended AS (
  SELECT place, producer_id, max(rank) AS rank,
    max_by(coordinator_epoch, rank) FILTER (WHERE coordinator_epoch IS NOT NULL) AS coordinator_epoch
  FROM marker GROUP BY place, producer_id
), open AS (
  SELECT data.place, data.producer_id,
    min_by(data.offset, data.rank) AS start_offset,
    max(data.rank) AS last_rank,
    max_by(data.last_offset, data.rank) AS last_offset,
    max_by(data.timestamp, data.rank) AS last_timestamp,
    max_by(data.producer_epoch, data.rank) AS producer_epoch,
    any_value(ended.coordinator_epoch) AS coordinator_epoch
  FROM {facts} AS data LEFT JOIN ended ON data.place = ended.place AND data.producer_id = ended.producer_id
  WHERE data.kind = 'batch' AND data.control IS NULL AND data.rank > coalesce(ended.rank, -2)
  GROUP BY data.place, data.producer_id
), seen AS (  -- a running maximum over markers and ends of open data costs a sort; a join by rank would be quadratic
  SELECT *, max(marker_time) OVER (
      PARTITION BY place ORDER BY rank ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS written_after
  FROM (
    SELECT place, rank, timestamp AS marker_time, NULL AS open FROM marker
    UNION ALL
    SELECT place, last_rank AS rank, NULL AS marker_time, struct(open.*) AS open FROM open)
)
SELECT open.place, open.producer_id, open.producer_epoch, open.start_offset, open.last_offset, open.last_timestamp,
  open.coordinator_epoch, written_after
FROM seen WHERE open IS NOT NULL
"""

#: For the producer ids of `{wanted}`: the transactional id that names each, and the newest record of that id.
OWNERS = """
WITH registration AS (
  SELECT * FROM {facts} WHERE kind = 'registration'
), newest AS (
  SELECT place, transactional_id, max_by(struct(offset, timestamp, value), rank) AS record
  FROM registration GROUP BY place, transactional_id
), mention AS (
  SELECT place, rank, transactional_id, named AS producer_id, named = producer_id AS current
  FROM registration
  LATERAL VIEW explode(array_distinct(array(producer_id, previous_producer_id, next_producer_id))) AS named
), owner AS (
  SELECT mention.place, mention.producer_id,
    max_by(struct(mention.transactional_id, mention.current), struct(mention.current, mention.rank)) AS owner
  FROM mention LEFT SEMI JOIN {wanted} AS wanted ON mention.producer_id = wanted.producer_id
  GROUP BY mention.place, mention.producer_id
)
SELECT owner.place, owner.producer_id, owner.owner.current, owner.owner.transactional_id,
  newest.record.offset, newest.record.timestamp, newest.record.value
FROM owner JOIN newest
  ON owner.place = newest.place AND owner.owner.transactional_id = newest.transactional_id
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
    max_by(struct(producer_id, producer_epoch, state, timeout_ms, started, updated), offset) AS record
  FROM registration GROUP BY cluster, number, transactional_id
), owner AS (
  SELECT cluster, named AS producer_id,
    max_by(struct(number, transactional_id), struct(named = producer_id, timestamp, number, offset)) AS id
  FROM registration
  LATERAL VIEW explode(array_distinct(array(producer_id, previous_producer_id, next_producer_id))) AS named
  WHERE named >= 0 GROUP BY cluster, named
), known AS (
  SELECT owner.cluster, owner.producer_id, owner.id.transactional_id, newest.record
  FROM owner JOIN newest ON owner.cluster <=> newest.cluster AND owner.id.number = newest.number
    AND owner.id.transactional_id = newest.transactional_id
)
SELECT places.cluster, places.directory, places.topic, places.partition,
  transaction.producer_id, transaction.producer_epoch, transaction.first_offset, transaction.last_offset,
  transaction.batches, transaction.first_timestamp, transaction.last_timestamp,
  CASE transaction.control WHEN 0 THEN 'aborted' WHEN 1 THEN 'committed' WHEN 2 THEN 'ended' ELSE 'open' END AS state,
  CASE transaction.control WHEN 0 THEN 'ABORT' WHEN 1 THEN 'COMMIT' END AS outcome,
  transaction.marker_offset, transaction.marker_epoch, transaction.marker_timestamp, transaction.coordinator_epoch,
  transaction.marker_timestamp - transaction.first_timestamp AS duration_ms,
  decode(known.transactional_id, 'UTF-8') AS transactional_id,
  known.record.state AS coordinator_state,
  known.record.producer_id AS coordinator_producer_id,
  known.record.producer_epoch AS coordinator_producer_epoch,
  known.record.timeout_ms AS transaction_timeout_ms,
  known.record.started AS transaction_start_timestamp,
  known.record.updated AS transaction_last_update_timestamp
FROM transaction JOIN {places} AS places ON transaction.place = places.place
LEFT JOIN known ON known.cluster <=> places.cluster AND known.producer_id = transaction.producer_id
"""
