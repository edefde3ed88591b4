/** Answers a form, and dies of SIGKILL at a step: arguments are a folder, the envelope in hexadecimal, and the step, or none. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "../src/client.js";
import { hex } from "../src/envelope.js";
import { ReportStatus } from "../src/gen/geoveil/proto/v1/report_pb.js";
import { FileStorage } from "../src/node.js";
import { Policy } from "../src/policy.js";
import type { Entry, Journal, Storage } from "../src/storage.js";
import type { Transport } from "../src/transport.js";
import { bytesOf } from "./tuples.js";

const [folder, envelope, answers, killed] = process.argv.slice(2) as [string, string, string, string | undefined];

function at(step: string): void {
  if (step === killed) process.kill(process.pid, "SIGKILL");
}

/** What is done, with death before and after it. */
async function around<T>(name: string, work: () => Promise<T>): Promise<T> {
  at(`before ${name}`);
  const done = await work();
  at(`after ${name}`);
  return done;
}

const kept = await FileStorage.open(folder);
const mortal = (journal: Journal): Journal => ({
  ...journal,
  pin: (campaign) => around("pin", () => journal.pin(campaign)),
  add: (entry: Entry) => around("add", () => journal.add(entry)),
  settle: (entry: Entry) => around(entry.status === "pending" ? "mark" : "settle", () => journal.settle(entry)),
});
const storage: Storage = { persistent: true, exclusively: (work) => kept.exclusively((journal) => work(mortal(journal))) };
const server: Transport = {
  campaign: () => Promise.resolve({ envelope: bytesOf(envelope), closed: false }),
  browse: () => Promise.resolve([]),
  submit: (_id, _digest, report) =>
    around("submit", () => {
      appendFileSync(join(folder, "sent"), `${hex(report)}\n`);
      return Promise.resolve({ status: ReportStatus.ACCEPTED } as Awaited<ReturnType<Transport["submit"]>>);
    }),
};
const now = (): number => Date.UTC(2026, 0, 2);
const options = { server, storage, background: false, releaseFloorMs: 0, now };
const offer = await new Client({ ...options, policy: new Policy({ limits: {} }) }).offer("f");
const client = new Client({ ...options, policy: Policy.permitting(offer) });
const { reportId } = await client.contribute("f", JSON.parse(answers) as Record<string, unknown>, { digest: offer.digest });
await client.flush();
const history = await client.history();
console.log(JSON.stringify({ reportId, many: history.length, status: history[0]!.status, columns: history[0]!.answers.length }));
