"""What an application does with aiokafka: BOOTSTRAP TOPIC RECORDS."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic


async def main(bootstrap: str, topic: str, count: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, client_id="admin")
    await admin.start()
    await admin.create_topics([NewTopic(topic, 2, 1)])
    await admin.close()

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="orders", compression_type="gzip") as producer:
        sent = [
            await producer.send(topic, b"value %d of many, much alike" % number, key=b"%d" % number)
            for number in range(count)
        ]
        await asyncio.gather(*sent)

    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, client_id="payments", transactional_id="payments-aio"
    ) as payments:
        async with payments.transaction():
            await payments.send_and_wait(topic, b"in a transaction")
        await payments.begin_transaction()
        await payments.send_and_wait(topic, b"in a transaction")
        await payments.abort_transaction()

    reader = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        client_id="reader",
        group_id=topic,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with reader:
        for _ in range(count + 1):
            await reader.getone()
        await reader.commit()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
