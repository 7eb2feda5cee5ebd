// A member of a consumer group: kafkajs; or a producer.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')
const secured = require('./secured')

const [bootstrap, topic, groupId, mode] = process.argv.slice(2)
const byDefault = mode === 'default'

const say = (event, what) => process.stdout.write(JSON.stringify({ event, ...what }) + '\n')

const inTests = {
  // A consumer counts the errors of its whole life, and its pauses double with each: by default the
  // fifth costs 5 s, and the one after it a restart.
  client: { retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 1000 } },
  // Between two fetches it hears of what happens to its group.
  consumer: { sessionTimeout: 45000, heartbeatInterval: 500, maxWaitTimeInMs: 500 },
}
const { client, consumer: ofGroup } = byDefault || mode === 'produce' ? {} : inTests
const kafka = new Kafka({
  brokers: bootstrap.split(','),
  logLevel: logLevel.NOTHING,
  ...client,
  ...secured,
})
const consumer = kafka.consumer({ groupId, ...ofGroup })

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
  say('assigned', { partitions: payload.memberAssignment[topic] || [] })
)
consumer.on(consumer.events.CRASH, ({ payload }) => {
  say('error', { message: String(payload.error) })
  if (payload.restart) return
  console.error(payload.error)
  process.exit(1)
})

const sayRecord = (partition, offset, value) =>
  say('record', { partition, offset: Number(offset), value: String(value) })

// What is not committed is not resolved either, and comes again. `consumer.commitOffsets` would ask a
// coordinator that is none any more for as long as there are retries; this one lets the group be
// joined where it is now.
const eachBatch = async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary }) => {
  const { partition } = batch
  for (const { offset, value } of batch.messages) sayRecord(partition, offset, value)
  await heartbeat()
  const next = Number(batch.lastOffset()) + 1
  const partitions = [{ partition, offset: String(next) }]
  await commitOffsetsIfNecessary({ topics: [{ topic, partitions }] })
  resolveOffset(batch.lastOffset())
  say('committed', { offsets: { [partition]: next } })
}

// Writes numbers, each in a request of its own, as the library does unless told otherwise.
const produce = async commands => {
  const producer = kafka.producer()
  await producer.connect()
  const rate = Number(groupId)
  const sending = new Set()
  const begin = Date.now()
  let number = 0
  const send = () => {
    for (; number < ((Date.now() - begin) / 1000) * rate; number++) {
      const value = String(number)
      const sent = producer.send({ topic, messages: [{ value }] }).then(
        () => say('acknowledged', { value }),
        error => say('error', { message: String(error) })
      )
      sending.add(sent)
      sent.then(() => sending.delete(sent))
    }
  }
  const timer = setInterval(send, 1)
  commands.on('close', async () => {
    clearInterval(timer)
    await Promise.all(sending)
    await producer.disconnect()
    process.exit(0)
  })
}

const create = async () => {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 3 }] })
  await admin.disconnect()
  process.exit(0)
}

const consume = async commands => {
  commands.on('close', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  if (byDefault) {
    const eachMessage = async ({ partition, message }) =>
      sayRecord(partition, message.offset, message.value)
    await consumer.run({ eachMessage })
  } else {
    await consumer.run({ autoCommit: false, eachBatch })
  }
}

const commands = readline.createInterface({ input: process.stdin })
commands.on('line', line => line === 'leave' && commands.close())
const run = { create, produce }[mode] || consume
run(commands).catch(error => {
  console.error(error)
  process.exit(1)
})
