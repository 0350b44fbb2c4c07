"""What an application does with librdkafka (confluent-kafka of any release): BOOTSTRAP TOPIC RECORDS."""

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "admin"})
for created in admin.create_topics([NewTopic(topic, 2, 1)]).values():
    created.result(30)
admin.list_topics(timeout=30)

producer = Producer({"bootstrap.servers": bootstrap, "client.id": "orders", "compression.type": "lz4", "linger.ms": 5})
for number in range(count):
    producer.produce(topic, b"value %d of many, much alike" % number, key=b"%d" % number)
producer.flush(30)

payments = Producer({"bootstrap.servers": bootstrap, "client.id": "payments", "transactional.id": "payments"})
payments.init_transactions(30)
for end in (payments.commit_transaction, payments.abort_transaction):
    payments.begin_transaction()
    payments.produce(topic, b"in a transaction", partition=0)
    payments.flush(30)
    end(30)

consumer = Consumer(
    {"bootstrap.servers": bootstrap, "client.id": "reader", "group.id": topic, "auto.offset.reset": "earliest"}
)
consumer.subscribe([topic])
read = 0
while read < count + 1:
    message = consumer.poll(30)
    if message is None or message.error() is not None:
        sys.exit(f"read {read} of {count + 1} records: {message and message.error()}")
    read += 1
consumer.commit(asynchronous=False)
consumer.close()
