/** Takes part through a relay, and dies of SIGKILL at a step: the argument is what `Given` says, in JSON; prints JSON. */
import { Client } from "../src/client.js";
import { PublicKey } from "../src/envelope.js";
import { FileStorage } from "../src/node.js";
import type { Issuer } from "../src/pass.js";
import { Policy } from "../src/policy.js";
import type { Entry, Journal, Storage } from "../src/storage.js";
import { transportThrough } from "../src/through.js";

interface Given {
  readonly relay: string;
  readonly operator: string;
  readonly folder: string;
  readonly campaign: string;
  readonly value: number;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** "before fetch 3" for example: by its number. */
  readonly killed?: string;
  readonly issuer?: Issuer;
}

const { relay, operator, folder, campaign, value, now, killed, issuer } = JSON.parse(process.argv[2]!) as Given;

async function around<T>(name: string, work: () => Promise<T>): Promise<T> {
  if (killed === `before ${name}`) process.kill(process.pid, "SIGKILL");
  const done = await work();
  if (killed === `after ${name}`) process.kill(process.pid, "SIGKILL");
  return done;
}

const platform = globalThis.fetch;
let fetches = 0;
globalThis.fetch = (input, init) => around(`fetch ${++fetches}`, () => platform(input, init));

const kept = await FileStorage.open(folder);
const mortal = (journal: Journal): Journal => ({
  ...journal,
  pin: (pinned) => around("pin", () => journal.pin(pinned)),
  add: (entry: Entry) => around("add", () => journal.add(entry)),
  settle: (entry: Entry) => around(entry.status === "pending" ? "mark" : "settle", () => journal.settle(entry)),
});
const storage: Storage = { persistent: true, exclusively: (work) => kept.exclusively((journal) => work(mortal(journal))) };
const server = transportThrough(relay, PublicKey.parse(operator), () => now);
const given = { server, storage, background: false, releaseFloorMs: 0, now: () => now, ...(issuer && { issuer }) };
const policy = Policy.permitting(await new Client({ ...given, policy: new Policy({ limits: {} }) }).offer(campaign, { kept: true }));
const client = new Client({ ...given, policy });
const { reportId } = await client.contribute(campaign, value);
await client.flush();
const history = await client.history();
console.log(JSON.stringify({ reportId, many: history.length, status: history[0]!.status, fetches }));
