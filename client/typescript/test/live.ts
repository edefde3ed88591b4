/** Takes part in campaigns of a real server: arguments are its address and a folder; prints JSON. */
import { join } from "node:path";
import { Client } from "../src/client.js";
import { GeoveilError } from "../src/errors.js";
import { isForm } from "../src/form.js";
import { FileStorage } from "../src/node.js";
import { Policy } from "../src/policy.js";

const [server, folder] = process.argv.slice(2) as [string, string];
const nothing = new Policy({ limits: {} });
const looking = new Client({ server, policy: nothing, background: false });
const offers = await looking.campaigns();
const told: Record<string, unknown>[] = [];

// The answer to the first report of each campaign is lost on the way.
const platform = globalThis.fetch;
const lost = new Set<string>();
let current = "";
globalThis.fetch = async (input, init) => {
  const answer = await platform(input, init);
  if (String(input).endsWith("/SubmitReports") && !lost.has(current)) {
    lost.add(current);
    throw new TypeError("the connection was lost");
  }
  return answer;
};

for (const { campaign, digest, demand } of offers) {
  if (isForm(campaign)) continue;
  current = campaign.id;
  const policy = Policy.permitting({ campaign, demand });
  const value = campaign.attribute.coordinates ? { longitude: 2.35, latitude: 48.86 } : campaign.dimension === 1 ? 52_000 : [1, 2, 3].slice(0, campaign.dimension);
  for (let person = 0; person < 3; person++) {
    const where = join(folder, `${campaign.id}-${person}`);
    const device = new Client({ server, policy, storage: await FileStorage.open(where), background: false });
    const { reportId } = await device.contribute(campaign.id, value, { digest });
    const done = await device.flush();
    // Another process of the same person draws nothing, and has nothing to send.
    const again = new Client({ server, policy, storage: await FileStorage.open(where), background: false });
    const second = await again.contribute(campaign.id, value);
    if (second.reportId !== reportId || (await again.flush()).pending) throw new Error("drawn twice");
    told.push({ campaign: campaign.id, digest, status: second.status, acknowledged: done.acknowledged });
  }
}

const missing = await looking.offer("no-such-campaign").catch((error: unknown) => (error instanceof GeoveilError ? error.code : String(error)));
console.log(JSON.stringify({ told, missing }));
