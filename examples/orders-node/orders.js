// Orders are taken over HTTP and kept in a Kafka topic.
//
// POST /orders/7 takes an order: 200 when Kafka has acknowledged it. POST /baskets/8,9 takes all
// orders of a basket or none, in a transaction: 402 when it is not paid. GET /orders lists those
// that are taken. 503: Kafka did not answer in time.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { Kafka, logLevel } from "kafkajs";

// A new leader is elected within a second; pauses that double would wait for it much longer.
const RETRY = { initialRetryTime: 100, maxRetryTime: 500, retries: 40 };
const READ_DEADLINE_MS = 20_000;

export class NotPaid extends Error {}

export class Orders {
  #kafka;
  #topic;
  #pay;
  #single;
  // One transaction at a time: a transactional id has no more.
  #lastBasket = Promise.resolve();

  /** `pay` tells whether a basket is paid. */
  constructor(bootstrap, topic, pay) {
    this.#kafka = new Kafka({ brokers: bootstrap.split(","), retry: RETRY, logLevel: logLevel.NOTHING });
    this.#topic = topic;
    this.#pay = pay;
    this.#single = this.#kafka.producer({ idempotent: true, maxInFlightRequests: 1, retry: RETRY });
  }

  async connect() { await this.#single.connect(); }
  async close() { await this.#single.disconnect(); }

  /** Take an order. */
  async take(number) { await this.#single.send({ topic: this.#topic, messages: messages([number]) }); }

  /** Take all orders of a basket or none. */
  takeBasket(numbers) {
    const taken = this.#lastBasket.then(() => this.#inTransaction(numbers));
    this.#lastBasket = taken.catch(() => {});
    return taken;
  }

  /** Return the orders that are in the topic now, sorted. */
  async all({ uncommitted = false } = {}) {
    const admin = this.#kafka.admin();
    await admin.connect();
    const ends = await admin.fetchTopicOffsets(this.#topic);
    const groupId = `orders-${randomUUID()}`;
    const consumer = this.#kafka.consumer({ groupId, maxWaitTimeInMs: 200, retry: RETRY, readUncommitted: uncommitted });
    const left = new Map(ends.filter((one) => one.high !== "0").map((one) => [one.partition, BigInt(one.high)]));
    const found = [];
    try {
      await consumer.connect();
      await consumer.subscribe({ topic: this.#topic, fromBeginning: true });
      await new Promise((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`partitions ${[...left.keys()]} cannot be read`)), READ_DEADLINE_MS);
        const check = () => { if (left.size === 0) { clearTimeout(late); resolve(); } };
        check();
        consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
          // The last record of a transaction is its marker, which is no message.
          if (BigInt(payload.lastOffset) + 1n >= (left.get(payload.partition) ?? 0n)) left.delete(payload.partition);
          check();
        });
        consumer.run({ eachMessage: async ({ message }) => { found.push(message.value.toString()); } }).catch(reject);
      });
    } finally {
      await consumer.disconnect();
      await admin.disconnect();
    }
    return found.sort();
  }

  async #inTransaction(numbers) {
    // kafkajs never leaves a transaction whose end failed, so each basket has a producer of its own:
    // when it connects, what the one before left open is aborted.
    const producer = this.#kafka.producer({
      transactionalId: `baskets-of-${this.#topic}`, maxInFlightRequests: 1, retry: RETRY,
    });
    await producer.connect();
    try {
      const transaction = await producer.transaction();
      try {
        // One record at a time: of a send to several partitions that fails at one, others are sent twice.
        for (const message of messages(numbers)) {
          await transaction.send({ topic: this.#topic, messages: [message] });
        }
        if (!this.#pay(numbers)) throw new NotPaid("the basket is not paid");
      } catch (error) {
        await transaction.abort();
        throw error;
      }
      await transaction.commit();
    } finally {
      await producer.disconnect();
    }
  }
}

/** Return a server of the orders; whoever asks listens. */
export const serverOf = (orders) => createServer(async (request, response) => {
  const [, what, numbers] = request.url.split("/");
  const acts = {
    "POST orders": () => orders.take(numbers),
    "POST baskets": () => orders.takeBasket(numbers.split(",")),
    "GET orders": () => orders.all(),
  };
  const act = acts[`${request.method} ${what}`];
  if (!act) {
    response.writeHead(404).end();
    return;
  }
  try {
    response.end(JSON.stringify((await act()) ?? null));
  } catch (error) {
    response.writeHead(error instanceof NotPaid ? 402 : 503).end(error.message);
  }
});

const messages = (numbers) => numbers.map((number) => ({ key: number, value: number }));
