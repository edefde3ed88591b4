/** A device under attack: each line of the input is a life of one, each line of the output what came of it. */
import { createInterface } from "node:readline";
import { Client } from "../src/client.js";
import type { Value } from "../src/values.js";
import { PublicKey } from "../src/envelope.js";
import { GeoveilError } from "../src/errors.js";
import { FileStorage } from "../src/node.js";
import { Policy, type PolicyOptions } from "../src/policy.js";
import { type Transport, transportTo } from "../src/transport.js";

interface Life {
  readonly server: string;
  readonly folder: string;
  readonly limits: PolicyOptions["limits"];
  readonly trusted: readonly string[] | null;
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly patienceMs: number;
  readonly steps: readonly (readonly ["fetch", string] | readonly ["contribute", string, Value] | readonly ["flush", number])[];
}

/** The transport to a server, less patient. */
function impatient(server: string, mostMs: number): Transport {
  const inner = transportTo(server);
  return {
    campaign: (id, ms) => inner.campaign(id, Math.min(ms, mostMs)),
    browse: (ms) => inner.browse(Math.min(ms, mostMs)),
    submit: (id, digest, report, ms) => inner.submit(id, digest, report, Math.min(ms, mostMs)),
  };
}

async function lived({ server, folder, limits, trusted, now, patienceMs, steps }: Life): Promise<unknown> {
  const policy = new Policy({ limits, trustedKeys: trusted?.map((key) => PublicKey.parse(key)) });
  const storage = await FileStorage.open(folder);
  const client = new Client({ server: impatient(server, patienceMs), policy, storage, background: false, releaseFloorMs: 0, now: () => now });
  const errors: { kind: string; typed: boolean; text: string }[] = [];
  for (const step of steps) {
    try {
      if (step[0] === "fetch") await client.fetch(step[1]);
      else if (step[0] === "contribute") await client.contribute(step[1], step[2]);
      else await client.flush({ deadlineMs: step[1] });
    } catch (error) {
      const { name, message } = error as Error;
      errors.push({ kind: name, typed: error instanceof GeoveilError, text: message });
    }
  }
  const history = (await client.history()).map(({ reportId, status, reason, failure }) => ({ reportId, status, told: `${reason} ${failure}` }));
  client.close();
  return { errors, history };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await lived(JSON.parse(line) as Life)));
}
