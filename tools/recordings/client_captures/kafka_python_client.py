"""What an application does with kafka-python of any release: BOOTSTRAP TOPIC RECORDS."""

import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="admin")
admin.create_topics([NewTopic(topic, 2, 1)])
admin.close()

producer = KafkaProducer(bootstrap_servers=bootstrap, client_id="orders", compression_type="gzip", linger_ms=5)
for number in range(count):
    producer.send(topic, b"value %d of many, much alike" % number, key=b"%d" % number)
producer.flush(30)
producer.close()

consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, client_id="reader", group_id=topic, auto_offset_reset="earliest"
)
for _, _ in zip(range(count), consumer, strict=False):
    pass
consumer.commit()
consumer.close()
