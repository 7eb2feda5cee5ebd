// node server.js HOST:PORT,... TOPIC PORT
import { Orders, serverOf } from "./orders.js";

const [bootstrap, topic, port] = process.argv.slice(2);
const orders = new Orders(bootstrap, topic, () => true);
await orders.connect();
serverOf(orders).listen(Number(port), "127.0.0.1");
