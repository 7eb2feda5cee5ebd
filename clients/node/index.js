// A Kafka-compatible cluster whose disks a test may break: a client of `jbodlab serve`.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";

const END_TIMEOUT_MS = 30_000;
const REQUEST_TIMEOUT_MS = 180_000;

/** A request that the server refused; `status` is that of HTTP. */
export class JbodlabError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "JbodlabError";
    this.status = status;
  }
}

/** Start a cluster; `close` ends it. Under vitest, jest and node:test call it in a `before` hook. */
export async function start({ command = process.env.JBODLAB || "jbodlab", config = {}, ...spec } = {}) {
  const words = ["serve", "--output", "json", "--until-input-ends", "--cluster", `node-${randomUUID()}`];
  for (const [name, value] of Object.entries(spec)) {
    if (value) words.push(`--${optionOf(name)}`, ...(value === true ? [] : [String(value)]));
  }
  for (const [key, value] of Object.entries(config)) words.push("--config", `${key}=${value}`);
  // It ends when nobody can write to its input any more, however this process ends.
  const server = spawn(command, words, { stdio: ["pipe", "pipe", "pipe"] });
  let said = "";
  server.stderr.on("data", (piece) => { said += piece; });
  const ended = new Promise((resolve) => {
    server.once("exit", resolve);
    server.once("error", (error) => { said += error.message; resolve(); });
  });
  const first = new Promise((resolve) => createInterface({ input: server.stdout }).once("line", resolve));
  const line = await Promise.race([first, ended.then(() => undefined)]);
  if (typeof line !== "string") throw new JbodlabError(0, `${command} serve has ended: ${said.trim()}`);
  const { url, token } = JSON.parse(line);
  const end = async () => {
    server.stdin.end();
    const late = setTimeout(() => server.kill("SIGKILL"), END_TIMEOUT_MS);
    await ended;
    clearTimeout(late);
  };
  return new Cluster(url.split("#")[0], token, end);
}

/** Use the cluster of a server that runs; `close` heals it. */
export function connect(url, token = "") {
  const cluster = new Cluster(url, token, () => cluster.heal());
  return cluster;
}

export class Cluster {
  #base;
  #token;
  #end;

  constructor(url, token, end) {
    this.#base = `${url.replace(/\/$/, "")}/v1`;
    this.#token = token;
    this.#end = end;
  }

  async close() { await this.#end(); }
  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() { await this.close(); }

  async bootstrap() { return (await this.call("GET", "/cluster")).bootstrap; }
  async clientConfig(client, user = "alice") {
    return (await this.call("GET", "/client-config", undefined, { client, user })).config;
  }

  async newTopic({ name = `test-${randomUUID()}`, partitions = 1, replicas = 3, config = {} } = {}) {
    await this.call("POST", "/topics", { name, partitions, replicas, config });
    return name;
  }

  broker(id) { return new Broker(this, id); }
  logDir(broker, number = 1) { return new LogDir(this, `broker-${broker}/${number}`); }
  async controllers() {
    return (await this.call("GET", "/controllers")).map(({ id }) => new Controller(this, id));
  }
  async activeController(timeout = "30s") {
    await this.wait({ active: true, timeout });
    const { id } = (await this.call("GET", "/controllers")).find(({ role }) => role === "active");
    return new Controller(this, id);
  }
  async leader(topic, partition = 0) {
    return this.broker((await this.call("GET", `/topics/${topic}/${partition}`)).leader);
  }
  async leaderLogDir(topic, partition = 0) { return this.#logDirOf(topic, partition, true); }
  async followerLogDir(topic, partition = 0) { return this.#logDirOf(topic, partition, false); }

  async fails(kind, keys) { return this.inject(kind, "cluster", keys); }
  async heal() { return this.call("POST", "/heal"); }
  async waitLeaders(topic, timeout = "30s") { await this.wait({ leaders: topic, timeout }); }
  async waitIsr(topic, timeout = "60s") { await this.wait({ isr: topic, timeout }); }
  async waitSettled(timeout = "60s") { await this.wait({ settled: true, timeout }); }
  async wait(query) { return this.call("GET", "/wait", undefined, query); }

  async inject(kind, where, keys = {}) {
    const wanted = { kind, where, even_last_in_sync: true, ...keys };
    return new Fault(this, await this.call("POST", "/faults", wanted));
  }

  async call(method, path, body, query) {
    const fields = query ? `?${new URLSearchParams(query)}` : "";
    const answer = await fetch(`${this.#base}${path}${fields}`, {
      method,
      headers: {
        "Content-Type": "application/json",
        ...(this.#token ? { Authorization: `Bearer ${this.#token}` } : {}),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const text = await answer.text();
    const found = text ? JSON.parse(text) : undefined;
    if (!answer.ok) throw new JbodlabError(answer.status, `${method} ${path}: ${found?.title}: ${found?.detail}`);
    return found;
  }

  async #logDirOf(topic, partition, leads) {
    const { replicas } = await this.call("GET", `/topics/${topic}/${partition}`);
    const found = replicas.find((one) => one.leads === leads && one.directory);
    if (!found) throw new JbodlabError(404, `${topic}-${partition} has no such replica now`);
    return new LogDir(this, found.directory);
  }
}

export class LogDir {
  constructor(cluster, place) { this.cluster = cluster; this.place = place; }
  async fails(kind = "permission", keys = {}) { return this.cluster.inject(kind, this.place, keys); }
  async state() {
    return (await this.cluster.call("GET", `/directories/${this.place.replace("broker-", "")}`)).state;
  }
}

class Node {
  constructor(cluster, kind, id) { this.cluster = cluster; this.id = id; this.path = `/${kind}/${id}`; }
  async kill() { await this.cluster.call("POST", `${this.path}/kill`); }
  async stop() { await this.cluster.call("POST", `${this.path}/stop`); }
  async start() { await this.cluster.call("POST", `${this.path}/start`); }
  async freeze() { await this.cluster.call("POST", `${this.path}/freeze`); }
  async thaw() { await this.cluster.call("POST", `${this.path}/thaw`); }
}

export class Broker extends Node {
  constructor(cluster, id) { super(cluster, "brokers", id); }
  async fails(kind = "kill", keys = {}) { return this.cluster.inject(kind, `broker-${this.id}`, keys); }
}

export class Controller extends Node {
  constructor(cluster, id) { super(cluster, "controllers", id); }
}

export class Fault {
  constructor(cluster, told) { this.cluster = cluster; Object.assign(this, { id: told.id, kind: told.kind, where: told.where }); }
  async waitDetected(timeout = "10s") { await this.cluster.wait({ detected: this.id, timeout }); }
  async waitBroken(timeout = "10s") { await this.cluster.wait({ broken: this.id, timeout }); }
  async broken() { return (await this.cluster.call("GET", `/faults/${this.id}`)).broken; }
  async heal() { await this.cluster.call("DELETE", `/faults/${this.id}`); }
  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() { await this.heal(); }
}

const optionOf = (name) => name.replace(/[A-Z]/g, (one) => `-${one.toLowerCase()}`).replaceAll("_", "-");
