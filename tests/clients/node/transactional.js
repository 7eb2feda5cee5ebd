// Commits the record `kept` and aborts the record `dropped`, each in a transaction: kafkajs.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, transactionalId] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })

const main = async () => {
  await producer.connect()
  const dropped = await producer.transaction()
  await dropped.send({ topic, messages: [{ value: 'dropped' }] })
  await dropped.abort()
  const kept = await producer.transaction()
  await kept.send({ topic, messages: [{ value: 'kept' }] })
  await kept.commit()
  await producer.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
