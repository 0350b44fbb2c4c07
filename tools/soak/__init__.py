"""`make soak`: the long-running parts of kafkawire (`txn watch`, a following capture, a Spark stream) for half an hour
beside a real cluster under transactional load. Nothing may be lost, and no memory may grow.

producer_load            transactional producers, and totals of what they wrote and of the requests that they sent
hang_maker               `txn watch`, what it reported, and hanging transactions, one after the other
capture_process          tcpdump, `capture --follow`, and the exchanges that it read
stream_process           the Spark stream (`stream_job`, a process of its own), and the rows that it read
comparison               these results beside counts of other programs
child_process            a process of the run
memory_samples           memory, threads and open files of processes, from /proc
soak_results             counts that have to agree, memory that must not grow, and both as text
"""
