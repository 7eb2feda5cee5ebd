import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { JbodlabError, connect, start } from "./index.js";

let cluster;
before(async () => { cluster = await start({ brokers: 3, disks: 2 }); });
after(async () => { await cluster?.close(); });

test("a disk breaks and heals", async () => {
  assert.equal((await cluster.bootstrap()).split(",").length, 3);
  const topic = await cluster.newTopic({ partitions: 2 });
  const directory = await cluster.leaderLogDir(topic);

  const fault = await directory.fails("permission");
  await fault.waitDetected();
  await cluster.waitLeaders(topic);
  assert.equal(await directory.state(), "offline");

  await fault.heal();
  await cluster.waitIsr(topic);
  assert.equal(await directory.state(), "online");
});

test("a killed broker is started by heal", async () => {
  await cluster.broker(2).kill();
  assert.deepEqual((await cluster.heal()).started, ["broker-2"]);
  assert.equal((await cluster.activeController()).id, (await cluster.controllers())[0].id);
});

test("a wrong request is refused with the reason", async () => {
  await assert.rejects(cluster.logDir(9, 1).fails("permission"), (error) => {
    assert.ok(error instanceof JbodlabError);
    assert.equal(error.status, 404);
    assert.match(error.message, /unknown broker-9/);
    return true;
  });
});

test("a program that is missing is named", async () => {
  await assert.rejects(start({ command: "/nonexistent/jbodlab" }), /nonexistent/);
});

test("a token goes with every request", async () => {
  const seen = [];
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization);
    response.end("{}");
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  await connect(`http://127.0.0.1:${server.address().port}/`, "secret").heal();
  server.close();
  assert.deepEqual(seen, ["Bearer secret"]);
});
