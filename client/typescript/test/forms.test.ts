/** Forms: read, refused, priced, answered and drawn as in Python. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { Campaign, digest, messageOf } from "../src/campaign.js";
import { Client } from "../src/client.js";
import { whatItTells } from "../src/consent.js";
import { demandOf } from "../src/demand.js";
import { hex } from "../src/envelope.js";
import { PrivateValueError } from "../src/errors.js";
import { CampaignEnvelopeSchema, CampaignSchema } from "../src/gen/geoveil/proto/v1/campaign_pb.js";
import { Policy, type PolicyOptions } from "../src/policy.js";
import { fromReport } from "../src/report.js";
import { MemoryStorage } from "../src/storage.js";
import { type Form, readForm } from "../src/form.js";
import { seeded, vectors } from "./files.js";
import { bytesOf, fills, type Formed, judged, type Stated, states } from "./tuples.js";

interface Sound extends Stated {
  name: string;
  form: string;
  cases: Formed[];
}
/** Another form in bytes; refused if it has no charges. */
interface Changed extends Partial<Stated> {
  name: string;
  base: string;
  from: number;
  to: number;
  put: string;
}

const told = vectors<Sound | Changed>("forms.json", "forms");
const sound = told.filter((item) => "cases" in item);
const forms = new Map(sound.map(({ name, form }) => [name, bytesOf(form)]));
const form = (name: string): Form => readForm(forms.get(name)!);

test("the same answers and bits give the same reports and charges", () => {
  assert.equal(sound.length, 4);
  for (const item of sound) {
    states(form(item.name), item);
    for (const tuple of item.cases) {
      assert.ok(fills(form(item.name), tuple), item.name);
      const [first, ...others] = tuple.report;
      assert.ok(!fills(form(item.name), { ...tuple, report: [(BigInt(first!) ^ 1n).toString(), ...others] }));
      assert.ok(!fills(form(item.name), { ...tuple, drawn: tuple.drawn + 1 }));
    }
    assert.throws(() => new Campaign(forms.get(item.name)!), /is a form/);
  }
});

test("a campaign says by whose relay it is answered, and of which issuer tokens are, and one that has a window is refused by name", () => {
  const message = messageOf(forms.get(sound[0]!.name)!);
  const other = (change: object): Uint8Array => toBinary(CampaignSchema, { ...message, ...change });
  const operator = new Uint8Array(32).fill(9);
  assert.equal(String(readForm(other({ relayOperator: operator })).relayOperator), `ed25519:${hex(operator)}`);
  for (const wrong of [new Uint8Array(31), new Uint8Array(32)]) assert.throws(() => readForm(other({ relayOperator: wrong })), /public key must be/);
  assert.throws(() => readForm(other({ tokenKey: new Uint8Array(256).fill(8) })), /token_key must be/);
  assert.throws(() => readForm(other({ window: { $typeName: "google.protobuf.Duration", seconds: 9n, nanos: 0 } })), /in a window/);
});

test("hostile forms are refused as Python refuses them", () => {
  const changes = told.filter((item) => "base" in item);
  assert.ok(changes.filter(({ charges }) => !charges).length > 80);
  for (const item of changes) {
    const base = forms.get(item.base)!;
    const bytes = Uint8Array.from([...base.subarray(0, item.from), ...bytesOf(item.put), ...base.subarray(item.to)]);
    judged(bytes, item);
  }
});

test("an answer that is none of its field is refused without being shown, and so are strange names", () => {
  const several = form("several");
  const sound = { rents: "yes", rent: 700, mood: "fair", by: ["bus"] };
  assert.equal(several.prepare(sound).length, 5);
  for (const wrong of [
    { rents: "SECRET" },
    { rent: "SECRET" },
    { rent: NaN },
    { rent: undefined },
    { mood: null },
    { mood: 1 },
    { by: "SECRET" },
    { by: ["bus", "bus"] },
    { by: ["SECRET"] },
    { by: ["bus", "bike", "foot"] },
    { SECRET: 1 },
  ]) {
    const refused = (error: Error): boolean => error instanceof PrivateValueError && !error.message.includes("SECRET");
    assert.throws(() => several.prepare({ ...sound, ...wrong }), refused, JSON.stringify(wrong));
  }
  for (const answers of [null, undefined, 1, [], ["yes"]]) assert.throws(() => several.prepare(answers as never), PrivateValueError);
});

test("what a field holds that does not apply has no effect, nor whether there is anything", () => {
  const several = form("several");
  const none = several.prepare({ rents: "no", by: [] });
  assert.deepEqual(none, [1n, [2000], 1n, 0n, 0n]);
  for (const more of [{ rent: 5 }, { rent: "no number" }, { mood: "bad", why: "fair" }, { mood: "no option" }]) {
    assert.deepEqual(several.prepare({ rents: "no", by: [], ...more }), none);
  }
  assert.deepEqual(several.applying({ rents: "yes", mood: "bad" }).map(({ name }) => name), ["rents", "rent", "mood", "why", "by"]);
});

const sent = { rents: "yes", rent: 700, by: ["bus"], open: "y" };
const per = (epsilon: number, unit: string, per = 1): { campaign: { epsilon: number; per: number; unit: string } } => ({ campaign: { epsilon, per, unit } });
const limits: PolicyOptions["limits"] = {
  rents: { ...per(20, "option"), value: { kind: "choice", options: ["yes", "no"] } },
  rent: per(1, "dollar", 500),
  by: { ...per(0.7, "option"), value: { kind: "multiple" } },
};
const permitting: PolicyOptions = { limits, openly: { open: { kind: "choice" } } };

function device(options: PolicyOptions, storage = new MemoryStorage()): Client {
  const campaign = forms.get("conditions")!;
  const envelope = toBinary(CampaignEnvelopeSchema, create(CampaignEnvelopeSchema, { campaign }));
  const server = { campaign: () => Promise.resolve({ envelope, closed: false }), browse: () => Promise.resolve([]), submit: () => Promise.reject(new Error("offline")) };
  const now = (): number => Date.UTC(2026, 0, 2);
  return new Client({ server, policy: new Policy(options), storage, background: false, releaseFloorMs: 0, now });
}

test("a form is drawn once as a whole, and charged to each attribute", async () => {
  const storage = new MemoryStorage();
  const client = device(permitting, storage);
  const receipt = await client.contribute("f", sent);
  const { charges, columns } = form("conditions");
  assert.equal(receipt.answers.length, columns);
  assert.deepEqual(receipt.charges.map(({ attribute, epsilon }) => [attribute, epsilon]), charges.map(({ attribute, privacy }) => [attribute, privacy.epsilon]));
  assert.ok(receipt.fresh);
  const again = await device(permitting, storage).contribute("f", { rents: "no", by: [], open: "x" });
  assert.deepEqual([again.reportId, again.fresh], [receipt.reportId, false]);
  const budgets = await client.budgets();
  assert.deepEqual(budgets.map(({ attribute, spent }) => [attribute, spent]), charges.map(({ attribute, privacy }) => [attribute, privacy.epsilon]));
  const [entry] = await storage.exclusively((journal) => journal.entries());
  assert.equal(fromReport(bytesOf(entry!.report)).answers.length, columns);
  assert.equal(entry!.digest, Buffer.from(await digest(forms.get("conditions")!)).toString("hex"));
});

test("a form that exceeds what one attribute may cost, or asks openly without leave, draws nothing", async () => {
  const { rents, rent, by } = limits as { rents: object; rent: object; by: object };
  const few = { rents: { ...rents, campaign: { epsilon: 1.99, per: 1, unit: "option" } }, rent, by };
  const cases: [Partial<PolicyOptions>, RegExp][] = [
    [{ limits: few as PolicyOptions["limits"] }, /privacy loss/],
    [{ limits: { rents: limits.rents!, rent: limits.rent! } }, /attribute is by/],
    [{ limits: { ...limits, rents: { ...limits.rents!, value: { kind: "choice", options: ["yes"] } } } }, /its value is one of the options yes, no/],
    [{ limits: { ...limits, rents: { ...limits.rents!, value: { kind: "multiple" } } } }, /its value/],
    [{ openly: {} }, /open field open is sent as it is/],
    [{ openly: { open: { kind: "multiple" } } }, /open field/],
    [{ formAnyTwo: 1000 }, /any two forms is none that protects/],
    [{ mostQueries: 3 }, /number of questions is 4/],
  ];
  for (const [change, message] of cases) {
    const storage = new MemoryStorage();
    await assert.rejects(device({ ...permitting, ...change }, storage).contribute("f", sent), { code: "policy-refused", message });
    assert.equal((await storage.exclusively((journal) => journal.entries())).length, 0);
  }
  assert.throws(() => new Policy({ limits: { rents: { ...limits.rents!, campaign: { epsilon: 1, per: 1, unit: "step" } } } }), /'option'/);
  assert.throws(() => new Policy({ limits, openly: { a: { kind: "number" } } }), /openly/);
});

test("a slip in one answer draws nothing of the others", async () => {
  const storage = new MemoryStorage();
  const narrow = { ...permitting, limits: { ...limits, rent: { ...limits.rent!, value: { kind: "number", least: 0, most: 600 } as const } } };
  for (const wrong of [sent, { ...sent, rent: "SECRET" }, { ...sent, by: ["SECRET"] }]) {
    const refused = (error: Error): boolean => error instanceof PrivateValueError && !error.message.includes("SECRET");
    await assert.rejects(device(narrow, storage).contribute("f", wrong), refused);
  }
  assert.equal((await storage.exclusively((journal) => journal.entries())).length, 0);
  await device(narrow, storage).contribute("f", { ...sent, rents: "no" }); // the rent does not apply
  await assert.rejects(device(permitting).contribute("f", 5), PrivateValueError);
});

test("what a form asks of a device is reckoned as in Python", () => {
  const work = [...forms.values()].map((bytes) => demandOf(bytes));
  assert.deepEqual(work.map(({ queries }) => queries), [...forms.keys()].map((name) => form(name).fields.length));
});

test("what somebody was shown and agreed to is permitted, and nothing more", async () => {
  const nothing = device({ limits: {} });
  const offer = await nothing.offer("f");
  assert.equal(offer.price, undefined);
  assert.match(offer.acceptable!, /open field open is sent as it is/);
  assert.deepEqual(whatItTells(offer.campaign).map((one) => one.split(":")[0]), ["rents", "rent", "by", "open", "What the answers reveal adds up"]);
  const { options } = Policy.permitting(offer);
  assert.deepEqual([...Object.keys(options.limits), ...Object.keys(options.openly!)], ["rents", "rent", "by", "open"]);
  await device(options).contribute("f", sent, { digest: offer.digest });
  // All periods of a form are permitted together.
  const campaign = form("several");
  const weekly = Policy.permitting({ campaign, demand: demandOf(forms.get("several")!) });
  campaign.charges.forEach(({ attribute, privacy }) => {
    const most = weekly.options.limits[attribute]!.campaign.epsilon / Number(campaign.periods);
    assert.ok(most >= privacy.epsilon && most < privacy.epsilon * (1 + 1e-15), attribute);
  });
});

test("a number beyond all coordinates is clamped as in Python, and a receipt says what numbers stand for", async () => {
  const several = form("several");
  const ends = [5e99, -5e99].map((rent) => several.fields[1]!.release(several.fields[1]!.prepare(rent), seeded("1")));
  const nearest = [4000, 0].map((rent) => several.fields[1]!.release([rent], seeded("1")));
  assert.deepEqual(ends, nearest);
  for (const rent of [Infinity, NaN]) assert.throws(() => several.fields[1]!.prepare(rent), PrivateValueError);
  const { answers } = await device(permitting).contribute("f", { ...sent, rent: 5e99 });
  const { stepExponent } = form("conditions").fields[1]!;
  assert.deepEqual(answers.map(({ value, perturbed }) => perturbed / Number(value || 1n)), [0, 1, 2, 3].map((i) => (i === 1 ? 2 ** stepExponent : Number(answers[i]!.value) && 1)));
});

test("what is said of one person's options is as often so", () => {
  const draws = 20_000;
  const source = seeded("shares");
  const percents: Record<string, readonly unknown[]> = { rents: ["yes", "no"], mood: ["bad", "fair", "good"] };
  const several = form("several");
  for (const [name, options] of Object.entries(percents)) {
    const field = several.fields.find((one) => one.name === name)!;
    for (const option of options) {
      const at = field.prepare(option);
      const own = Array.from({ length: draws }, () => field.sent(field.release(at, source))[0]).filter((i) => i === Number(at)).length / draws;
      const told = Number(/yours ([0-9.]+) %/.exec(several.tellsOf(name, option)[0]!)![1]) / 100;
      // Rounded up to 0.1 %; α = 1e-6 over 5 shares.
      assert.ok(Math.abs(own - told) < 0.001 + 5.2 * Math.sqrt(0.25 / draws), `${name} ${String(option)}: ${own}, ${told}`);
    }
  }
  assert.match(several.tellsOf("rent", 700)[0]!, /^From this answer alone nobody can tell 700 from 1,200 dollar/);
  assert.deepEqual(several.tellsOf("rent", 700)[1], "Less than 0 dollar counts as 0 dollar, and more than 4,000 as 4,000.");
  const [every] = several.tellsOf("by", ["bus"]);
  assert.equal(every, "For each option by itself, whether you ticked it is sent truthfully 66.9 % of the time.");
});
