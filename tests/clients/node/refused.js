// Asks for transactions, as an application does that knows nothing of what is served: kafkajs.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
const producer = kafka.producer({ transactionalId: 'not-served', idempotent: true, maxInFlightRequests: 1 })

const main = async () => {
  await producer.connect()
  const transaction = await producer.transaction()
  await transaction.send({ topic, messages: [{ value: 'not served' }] })
  await transaction.commit()
  await producer.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
