import assert from "node:assert/strict";
import { test } from "node:test";
import { Campaign, digest } from "../src/campaign.js";
import { demandOf } from "../src/demand.js";
import { hex, type Opened, openEnvelope } from "../src/envelope.js";
import { GeoveilError, ParameterError } from "../src/errors.js";
import { coordinateOf } from "../src/gp/log-scale.js";
import { distortion, loadGeodesics, project } from "../src/gp/plane.js";
import { vectors } from "./files.js";
import { agrees, bytesOf, type Categorical, type Nested, sends, type Tuple } from "./tuples.js";

interface Released {
  name: string;
  campaign: string;
  cases: Tuple[];
}

const released = vectors<Released>("release.json", "release");

test("the same bits give the same integers, for every mechanism, query, profile and allocation", () => {
  for (const { name, campaign, cases } of released) {
    const read = new Campaign(bytesOf(campaign));
    cases.forEach((tuple, i) => assert.ok(agrees(read, tuple), `${name} ${i}`));
  }
});

test("each change of a vector is noticed", () => {
  for (const { name, campaign, cases } of released) {
    const read = new Campaign(bytesOf(campaign));
    const tuple = cases[0]!;
    const [first, ...others] = tuple.answers;
    const changes: Partial<Tuple>[] = [
      { answers: [[first![0], (BigInt(first![1]) + 1n).toString()], ...others] },
      { answers: [[first![0] + 1, first![1]], ...others] },
      { id: `${tuple.id.slice(0, -1)}${tuple.id.endsWith("0") ? "1" : "0"}` },
      { bits: `${tuple.bits}01` },
    ];
    for (const change of changes) assert.ok(!agrees(read, { ...tuple, ...change }), name);
    assert.throws(() => agrees(read, { ...tuple, bits: tuple.bits.slice(0, -16) }), name);
  }
});

test("categories are sent as the vectors say, and each change of one is noticed", () => {
  const told = vectors<Categorical>("categories.json", "categories");
  assert.ok(told.length > 15);
  told.forEach((item, i) => {
    const [first, ...others] = item.report;
    const drawn = item.drawn + 1;
    assert.ok(sends(item), `${item.kind} ${i}`);
    assert.ok(!sends({ ...item, report: [(BigInt(first!) ^ 1n).toString(), ...others] }), `${item.kind} ${i}`);
    assert.ok(!sends({ ...item, drawn }), `${item.kind} ${i}`);
    for (const value of ["-1", (1n << BigInt(item.options)).toString()]) {
      assert.throws(() => sends({ ...item, value }), /not shown/);
    }
  });
});

/** Word of a refusal: what the error begins with or holds; the first that fits. */
const REASONS: readonly (readonly [string, RegExp])[] = [
  ["bytes", /^(campaign|envelope|size of) |canonical form/],
  ["missing", /in every campaign$/],
  ["cap", /^cap/],
  ["readings", /^readings/],
  ["debiased", /no bounded debiased form/],
  ["grid", /^(step|grid\.step_exponent) /],
  ["scale", /^privacy\.per a distance in \[/],
  ["kind", /kind |profile one of|^allocation |of no kind/],
  ["text", /^(campaign_id|title|asker|language|translation|attribute\.(name|unit)|queries\[\d+\]\.label)/],
  ["labels", /^labels of the queries /],
  ["polygon", /^region|^parts/],
  ["table", /^number of (at|values|slopes) |of the whole|within 1,024|numbers up to|numbers that differ|^range of the values|^slope |^at\[/],
  ["count", /^(number of queries|dimensions? of the queries|mechanism\.dimension|minimum_participants) /],
  ["date", /^(opens|closes|period|delete_after) /],
  ["number", /^/],
];

function reasonOf(error: GeoveilError): string {
  if (error.code === "signature-invalid") return "signature";
  const told = error instanceof ParameterError ? error.message.replace(" must be ", " ").replace(/, got .*$/su, "") : error.message;
  return REASONS.find(([, pattern]) => pattern.test(told))![0];
}

interface Told {
  name: string;
  envelope: string;
  verdict: string;
  reason: string;
  campaign_id: string;
  digest: string;
  signer: string | null;
  price: { epsilon: number; per: number; unit: string };
  total: { epsilon: number; per: number; unit: string };
  work: number;
  queries: number;
  periods: number;
  any_two?: number;
}

async function compareCampaigns(): Promise<void> {
  const withReadings = vectors<Told>("epochs.json", "epochs").filter(({ envelope }) => envelope);
  assert.ok(withReadings.length > 20);
  for (const told of [...vectors<Told>("campaigns.json", "campaigns"), ...withReadings]) {
    const read = async (): Promise<[Campaign, Opened]> => {
      const opened = await openEnvelope(bytesOf(told.envelope));
      return [new Campaign(opened.campaign), opened];
    };
    if (told.verdict === "refused") {
      const error: unknown = await read().then(
        () => undefined,
        (e: unknown) => e,
      );
      assert.ok(error instanceof GeoveilError, told.name);
      assert.equal(reasonOf(error), told.reason, `${told.name}: ${error.message}`);
      continue;
    }
    const [campaign, opened] = await read();
    const { unit } = campaign.attribute;
    assert.equal(campaign.id, told.campaign_id);
    const asker = { organisation: "City", purpose: "Buses", contact: "x@y.z", notice: "https://y.z/n?a#b" };
    if (told.campaign_id !== "texts") assert.deepEqual(campaign.asker, told.campaign_id === "asker" ? asker : undefined, told.name);
    const kept = told.campaign_id === "asker" ? 30 * 86_400_000 : undefined;
    assert.equal(campaign.deleteAfter && campaign.deleteAfter.getTime() - campaign.closes.getTime(), kept, told.name);
    assert.equal(hex(await digest(opened.campaign)), told.digest);
    assert.equal(opened.signer?.toString() ?? null, told.signer);
    assert.deepEqual({ ...campaign.reportPrivacy, unit }, told.price, told.name);
    assert.deepEqual({ ...campaign.totalPrivacy, unit }, told.total, told.name);
    assert.equal(Number(campaign.periods), told.periods);
    assert.equal(campaign.largestEpsilon, told.any_two ?? Infinity, told.name);
    assert.deepEqual(demandOf(opened.campaign), { queries: told.queries, work: told.work }, told.name);
  }
}

test("campaigns are read, priced and refused as the vectors say", compareCampaigns);

test("where the platform fails in whatever way, the library gives the same verdicts", async (t) => {
  t.mock.method(crypto.subtle, "importKey", () => Promise.reject(new DOMException("not now", "OperationError")));
  await compareCampaigns();
});

test("the same readings and bits give the same points and reports of an epoch", () => {
  const told = vectors<{ name: string; campaign: string; cases: Nested[] }>("epochs.json", "epochs").filter(({ cases }) => cases);
  assert.ok(told.length >= 7);
  for (const { name, campaign, cases } of told) {
    const read = new Campaign(bytesOf(campaign));
    cases.forEach((tuple, i) => {
      assert.ok(agrees(read, tuple), `${name} ${i}`);
      const { latest } = tuple;
      const moved = { ...latest, reading: latest.reading.map((k) => (BigInt(k) + (1n << 34n)).toString()) };
      const changes: Nested[] = [
        { ...tuple, latest: moved },
        { ...tuple, latest: { ...latest, bits: `${latest.bits}01` } },
        { ...tuple, bits: `${tuple.bits}01` },
      ];
      for (const change of changes) assert.ok(!agrees(read, change), `${name} ${i}`);
    });
  }
});

test("every bit of a signed envelope counts", async () => {
  const signed = vectors<Told>("campaigns.json", "campaigns").find((told) => told.name === "signed")!;
  const bytes = bytesOf(signed.envelope);
  for (let i = 0; i < bytes.length; i += 3) {
    const changed = Uint8Array.from(bytes);
    changed[i]! ^= 1 << (i % 8);
    const read = async (): Promise<Campaign> => new Campaign((await openEnvelope(changed)).campaign);
    await assert.rejects(read, GeoveilError, `byte ${i}`);
  }
});

interface Projected {
  plane: [number, number, number];
  distortion: number;
  places: [number, number][];
  points: [number, number][];
}

test("values on a log scale have the same coordinates to the bit", () => {
  const told = vectors<{ floor: number; values: number[]; coordinates: number[] }>("logarithms.json", "logarithms");
  assert.equal(told.length, 1);
  for (const { floor, values, coordinates } of told) {
    assert.deepEqual(values.map((value) => coordinateOf({ floor }, value)), coordinates);
  }
});

test("places are projected to 1e-8 m", async () => {
  await loadGeodesics();
  for (const { plane, distortion: kappa, places, points } of vectors<Projected>("projection.json", "projection")) {
    const [longitudeDeg, latitudeDeg, radiusM] = plane;
    const given = { longitudeDeg, latitudeDeg, radiusM };
    assert.equal(distortion(given), kappa);
    places.forEach(([longitude, latitude], i) => {
      const [x, y] = project(given, longitude, latitude);
      const apart = Math.hypot(x - points[i]![0], y - points[i]![1]);
      assert.ok(apart <= 1e-8, `${longitude} ${latitude}: ${apart} m`);
    });
  }
});
