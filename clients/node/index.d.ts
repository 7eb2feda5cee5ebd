/** Settings of a cluster, by their names in camel case; `config` has Kafka's for all nodes. */
export interface Spec {
  /** The program; by default $JBODLAB, else `jbodlab`. */
  command?: string;
  brokers?: number;
  disks?: number;
  controllers?: number;
  engine?: string;
  security?: "ssl" | "mtls" | "sasl_ssl";
  config?: Record<string, string>;
  [setting: string]: unknown;
}
/** Keys of a kind of fault, such as `for`, `calls`, `delay`, `percent`. */
export type Keys = Record<string, string | number | string[]>;
export interface Topic { name?: string; partitions?: number; replicas?: number; config?: Record<string, string>; }

export class JbodlabError extends Error { status: number; }
export function start(spec?: Spec): Promise<Cluster>;
export function connect(url: string, token?: string): Cluster;

export class Cluster {
  close(): Promise<void>;
  bootstrap(): Promise<string>;
  clientConfig(client: "java" | "librdkafka" | "kafka_python" | "franz_go", user?: string): Promise<Record<string, unknown>>;
  newTopic(topic?: Topic): Promise<string>;
  broker(id: number): Broker;
  logDir(broker: number, number?: number): LogDir;
  controllers(): Promise<Controller[]>;
  /** Wait until a controller is active, and return it. */
  activeController(timeout?: string): Promise<Controller>;
  leader(topic: string, partition?: number): Promise<Broker>;
  leaderLogDir(topic: string, partition?: number): Promise<LogDir>;
  followerLogDir(topic: string, partition?: number): Promise<LogDir>;
  /** Take something from users of a closed cluster: `user-removed` or `acl-removed`. */
  fails(kind: string, keys?: Keys): Promise<Fault>;
  heal(): Promise<{ healed: number[]; revived: string[]; started: string[] }>;
  waitLeaders(topic: string, timeout?: string): Promise<void>;
  waitIsr(topic: string, timeout?: string): Promise<void>;
  waitSettled(timeout?: string): Promise<void>;
}
export class LogDir {
  readonly place: string;
  fails(kind?: string, keys?: Keys): Promise<Fault>;
  state(): Promise<"online" | "offline" | "unknown">;
}
declare class Node {
  readonly id: number;
  kill(): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
}
export class Broker extends Node { fails(kind?: string, keys?: Keys): Promise<Fault>; }
export class Controller extends Node {}
export class Fault {
  readonly id: number;
  readonly kind: string;
  readonly where: string;
  waitDetected(timeout?: string): Promise<void>;
  waitBroken(timeout?: string): Promise<void>;
  broken(): Promise<{ count: number; text: string }>;
  heal(): Promise<void>;
}
