"""The rules of transactions (KIP-98, KIP-360, KIP-890), by what a rule has to know:

- every batch of a log: `transactions.log.batch_rules`
- one replica of a partition: `replica_checks`, which joins the rules of its batches, `derived_files` (its `.snapshot`
  files) and `aborted_index` (its `.txnindex` files)
- one partition of `__transaction_state`: `coordinator_records`
- several partitions: `cross_partition`, and `marker_outcomes` for markers beside the decisions of coordinators
  (`timed_decisions`); `undecided` judges those without a decision, as columns
- several replicas of a partition: `replica_agreement`
- verdicts: `open_transactions`
- the tier of a partition and its metadata: `tier_copies`
- violations that have one cause: `violation_causes`

`answer_rows` adds up the answers of all of them; `transactions.answers` has their names and their form.
"""
