"""Open transactions and their owners in Spark SQL, over the table of facts. No Python in the shuffle.

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
