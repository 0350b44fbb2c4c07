// What an application does with kafkajs of any release: MODULES BOOTSTRAP TOPIC RECORDS.
const [modules, bootstrap, topic, records] = process.argv.slice(2)
const { Kafka, CompressionTypes } = require(modules + '/kafkajs')
const count = Number(records)
const kafka = new Kafka({ clientId: 'orders', brokers: [bootstrap], logLevel: 1 })

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true })
  await admin.disconnect()

  const producer = kafka.producer()
  await producer.connect()
  const messages = [...Array(count).keys()].map(n => ({ key: `${n}`, value: `value ${n} of many, much alike` }))
  for (let at = 0; at < count; at += 50)
    await producer.send({ topic, compression: CompressionTypes.GZIP, messages: messages.slice(at, at + 50) })
  await producer.disconnect()

  if (producer.transaction) {
    const payments = kafka.producer({ transactionalId: 'payments-js', maxInFlightRequests: 1, idempotent: true })
    await payments.connect()
    for (const end of ['commit', 'abort']) {
      const transaction = await payments.transaction()
      await transaction.send({ topic, messages: [{ value: 'in a transaction' }] })
      await transaction[end]()
    }
    await payments.disconnect()
  }

  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let read = 0
  await new Promise(resolve => consumer.run({ eachMessage: async () => { if (++read === count) resolve() } }))
  await consumer.disconnect()
}

main().catch(error => { console.error(error); process.exit(1) })
