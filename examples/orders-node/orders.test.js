import { afterEach, expect, test } from "vitest";
import { start } from "jbodlab";

import { Orders, serverOf } from "./orders.js";

const ends = [];
afterEach(async () => {
  while (ends.length) await ends.pop()();
});

/** Start a cluster and the application, which is reached over HTTP as its users reach it. */
async function started({ controllers = 1 } = {}) {
  // Each list of orders is read by a group of its own, for whose further members nobody need wait.
  const config = { "min.insync.replicas": "2", "group.initial.rebalance.delay.ms": "0" };
  const cluster = await start({ brokers: 3, disks: 2, controllers, config });
  ends.push(() => cluster.close());
  const topic = await cluster.newTopic({ partitions: 3 });
  const orders = new Orders(await cluster.bootstrap(), topic, (numbers) => !numbers.includes("unpaid"));
  await orders.connect();
  ends.push(() => orders.close());
  const server = serverOf(orders).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  ends.push(() => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }));
  const url = `http://127.0.0.1:${server.address().port}`;
  const post = async (path) => (await fetch(url + path, { method: "POST" })).status;
  const taken = async () => (await fetch(`${url}/orders`)).json();
  return { cluster, topic, orders, post, taken };
}

/** Place orders one after another while `act` is carried out; return their numbers. */
async function placedWhile(post, act) {
  let done = false;
  const acted = act().finally(() => { done = true; });
  const numbers = [];
  for (let after = 0; after < 20; after += done ? 1 : 0) {
    const number = `order-${String(numbers.length).padStart(6, "0")}`;
    expect(await post(`/orders/${number}`), number).toBe(200);
    numbers.push(number);
  }
  await acted;
  return numbers;
}

test("no order is lost or taken twice when the disk of the leader breaks", async () => {
  const { cluster, topic, post, taken } = await started();

  const placed = await placedWhile(post, async () => {
    await (await (await cluster.leaderLogDir(topic)).fails("eio")).waitDetected();
    await cluster.waitLeaders(topic);
  });

  expect(await taken()).toEqual(placed);
});

test("orders go on when the active controller is killed", async () => {
  const { cluster, topic, post, taken } = await started({ controllers: 3 });
  const killed = await cluster.activeController();

  const placed = await placedWhile(post, async () => {
    await killed.kill();
    // Only an active controller elects the next leader of the partition.
    await (await (await cluster.leaderLogDir(topic)).fails("eio")).waitDetected();
    await cluster.waitLeaders(topic);
  });

  expect(await taken()).toEqual(placed);
  expect((await cluster.activeController()).id).not.toBe(killed.id);
});

test("a basket is taken as a whole or not at all", async () => {
  const { cluster, topic, orders, post, taken } = await started();

  expect(await post("/baskets/a,b")).toBe(200);
  expect(await post("/baskets/c,unpaid")).toBe(402);
  await (await (await cluster.leaderLogDir(topic)).fails("eio")).waitDetected();
  await cluster.waitLeaders(topic);
  expect(await post("/baskets/d,e")).toBe(200);

  expect(await taken()).toEqual(["a", "b", "d", "e"]);
  expect(await orders.all({ uncommitted: true })).toEqual(["a", "b", "c", "d", "e", "unpaid"]);
});
