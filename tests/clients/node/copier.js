// Copies a topic in transactions that have the consumed offsets in them: kafkajs.
'use strict'

const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, source, target, name] = process.argv.slice(2)
const PARTITIONS = 4
const BATCH = 20
const kafka = new Kafka({
  brokers: bootstrap.split(','),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 1000 },
})
const consumer = kafka.consumer({
  groupId: name,
  readUncommitted: false,
  sessionTimeout: 45000,
  heartbeatInterval: 500,
  maxWaitTimeInMs: 500,
})
const admin = kafka.admin()

let number = -1
const say = (event, what) =>
  process.stdout.write(JSON.stringify({ event, transaction: number, ...what }) + '\n')

// A transaction whose end failed stays in its producer for ever: only a new one can go on. Its first
// transaction waits for the end of the one before, whatever that was.
let producer
const begin = async () => {
  if (producer === undefined) {
    const transactional = { transactionalId: name, transactionTimeout: 10000 }
    producer = kafka.producer({ ...transactional, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
  }
  return producer.transaction()
}

const copied = async (partition, messages) => {
  const transaction = await begin()
  number += 1
  const values = messages.map(({ value }) => String(value))
  say('began', { values })
  try {
    // One partition at a time. If a send to several brokers fails at one of them, kafkajs 2.2 begins it
    // anew while the others still answer: it then loses records of a partition whose new leader has
    // answered, and writes twice what was under way.
    for (let each = 0; each < PARTITIONS; each++) {
      const copies = values
        .filter(value => Number(value) % PARTITIONS === each)
        .map(value => ({ partition: each, value: `${number}:${value}` }))
      if (copies.length > 0) await transaction.send({ topic: target, messages: copies })
    }
    const offset = String(Number(messages[messages.length - 1].offset) + 1)
    const topics = [{ topic: source, partitions: [{ partition, offset }] }]
    await transaction.sendOffsets({ consumerGroupId: name, topics })
    if (number % 5 !== 4) {
      await transaction.commit()
      say('committed')
      return true
    }
    await transaction.abort()
    say('aborted')
  } catch (error) {
    say('error', { message: String(error) })
    await producer.disconnect().catch(() => {})
    producer = undefined
  }
  return false
}

const goOnWhereCommitted = async partition => {
  // Nothing of the transaction before is open any more.
  await (await begin()).abort()
  const [{ partitions }] = await admin.fetchOffsets({ groupId: name, topics: [source] })
  const { offset } = partitions.find(each => each.partition === partition)
  consumer.seek({ topic: source, partition, offset: String(Math.max(0, Number(offset))) })
}

const eachBatch = async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
  const { messages, partition } = batch
  for (let at = 0; at < messages.length && isRunning() && !isStale(); at += BATCH) {
    const some = messages.slice(at, at + BATCH)
    if (!(await copied(partition, some))) return goOnWhereCommitted(partition)
    resolveOffset(some[some.length - 1].offset)
    await heartbeat()
  }
}

const main = async () => {
  const commands = readline.createInterface({ input: process.stdin })
  commands.on('line', line => line === 'leave' && commands.close())
  commands.on('close', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    say('error', { message: String(payload.error) })
    if (payload.restart) return
    console.error(payload.error)
    process.exit(1)
  })
  await admin.connect()
  await (await begin()).abort()
  await consumer.connect()
  await consumer.subscribe({ topics: [source], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
