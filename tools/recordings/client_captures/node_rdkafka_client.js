// What an application does with node-rdkafka: MODULES BOOTSTRAP TOPIC RECORDS.
const [modules, bootstrap, topic, records] = process.argv.slice(2)
const kafka = require(modules + '/node-rdkafka')
const count = Number(records)
const common = { 'client.id': 'orders', 'metadata.broker.list': bootstrap }

const call = (object, method, ...given) =>
  new Promise((resolve, reject) => object[method](...given, (error, found) => (error ? reject(error) : resolve(found))))
const connected = client =>
  new Promise((resolve, reject) => {
    client.on('ready', resolve)
    client.on('event.error', reject)
    client.connect({}, error => error && reject(error))
  })

async function main() {
  const admin = kafka.AdminClient.create(common)
  await call(admin, 'createTopic', { topic, num_partitions: 2, replication_factor: 1 })
  admin.disconnect()

  const producer = new kafka.Producer({ ...common, 'compression.codec': 'gzip', 'linger.ms': 5 })
  await connected(producer)
  for (let n = 0; n < count; n++) producer.produce(topic, null, Buffer.from(`value ${n} of many, much alike`), `${n}`)
  await call(producer, 'flush', 20000)
  await call(producer, 'disconnect')

  const payments = new kafka.Producer({ ...common, 'transactional.id': 'payments-node' })
  await connected(payments)
  await call(payments, 'initTransactions', 20000)
  for (const end of ['commitTransaction', 'abortTransaction']) {
    await call(payments, 'beginTransaction')
    payments.produce(topic, null, Buffer.from('in a transaction'))
    await call(payments, 'flush', 20000)
    await call(payments, end, 20000)
  }
  await call(payments, 'disconnect')

  const consumer = new kafka.KafkaConsumer({ ...common, 'group.id': topic }, { 'auto.offset.reset': 'earliest' })
  await connected(consumer)
  consumer.subscribe([topic])
  let read = 0
  while (read < count) read += (await call(consumer, 'consume', count)).length
  consumer.commitSync()
  await call(consumer, 'disconnect')
}

main().then(() => process.exit(0)).catch(error => { console.error(error); process.exit(1) })
