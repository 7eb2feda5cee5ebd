// A member of a consumer group: kafkajs.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, groupId] = process.argv.slice(2)

const say = (event, what) => process.stdout.write(JSON.stringify({ event, ...what }) + '\n')

const kafka = new Kafka({
  brokers: bootstrap.split(','),
  logLevel: logLevel.NOTHING,
  // A consumer counts the errors of its whole life, and its pauses double with each: by default the
  // fifth costs 5 s, and the one after it a restart.
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 1000 },
})
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
  if (payload.restart) return
  console.error(payload.error)
  process.exit(1)
})

// What is not committed is not resolved either, and comes again. `consumer.commitOffsets` would ask a
// coordinator that is none any more for as long as there are retries; this one lets the group be
// joined where it is now.
const eachBatch = async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary }) => {
  const { partition } = batch
  for (const { offset, value } of batch.messages) {
    say('record', { partition, offset: Number(offset), value: String(value) })
  }
  await heartbeat()
  const next = Number(batch.lastOffset()) + 1
  const partitions = [{ partition, offset: String(next) }]
  await commitOffsetsIfNecessary({ topics: [{ topic, partitions }] })
  resolveOffset(batch.lastOffset())
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
