"""`make soak`: a real cluster under transactional load for half an hour, and beside it what kafkawire has that runs for
long: `txn watch`, a following capture, a Spark stream. Nothing may be lost, and no memory may grow.

load         producers, and what they know to be written; sent: what they said to brokers
hangs        transactions that hang, one after the other, and brokers that restart meanwhile
watching     `txn watch`, and what it reported
capturing    tcpdump, `capture --follow`, and what it read
streaming    the Spark stream (`job`, a process of its own), and what it read
comparing    all that beside what others counted
child        a process of the run; samples: its memory, from /proc
findings     counts that have to agree, and memory that has to be flat; report: the page
"""
