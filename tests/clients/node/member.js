// A member of a consumer group: kafkajs.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, groupId] = process.argv.slice(2)

const say = (event, what) => process.stdout.write(JSON.stringify({ event, ...what }) + '\n')

const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
const consumer = kafka.consumer({
  groupId,
  sessionTimeout: 45000,
  heartbeatInterval: 500,
  // Between two fetches it hears of what happens to its group.
  maxWaitTimeInMs: 500,
})

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
  say('assigned', { partitions: payload.memberAssignment[topic] || [] })
)
consumer.on(consumer.events.CRASH, ({ payload }) => {
  say('error', { message: String(payload.error) })
  if (!payload.restart) process.exit(1)
})

const eachBatch = async ({ batch, resolveOffset, heartbeat }) => {
  const { partition } = batch
  for (const { offset, value } of batch.messages) {
    say('record', { partition, offset: Number(offset), value: String(value) })
    resolveOffset(offset)
  }
  await heartbeat()
  const next = Number(batch.lastOffset()) + 1
  await consumer.commitOffsets([{ topic, partition, offset: String(next) }])
  say('committed', { offsets: { [partition]: next } })
}

const leave = async () => {
  await consumer.disconnect()
  process.exit(0)
}

const main = async () => {
  const commands = readline.createInterface({ input: process.stdin })
  commands.on('line', line => line === 'leave' && commands.close())
  commands.on('close', leave)
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatch })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
