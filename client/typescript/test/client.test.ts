import "fake-indexeddb/auto";
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Backoff } from "../src/backoff.js";
import { Campaign } from "../src/campaign.js";
import { Client, type ClientOptions } from "../src/client.js";
import { hex, PublicKey, unhex } from "../src/envelope.js";
import { GeoveilError } from "../src/errors.js";
import { CampaignEnvelopeSchema, CampaignSchema } from "../src/gen/geoveil/proto/v1/campaign_pb.js";
import { BrowseCampaignsResponseSchema } from "../src/gen/geoveil/proto/v1/collector_pb.js";
import { type ReportResult, ReportResultSchema, ReportStatus } from "../src/gen/geoveil/proto/v1/report_pb.js";
import { describeEpoch, Policy, type PolicyOptions } from "../src/policy.js";
import { FileStorage } from "../src/node.js";
import { IndexedDbStorage, MemoryStorage, type Storage } from "../src/storage.js";
import { type Transport, TransportError, transportTo } from "../src/transport.js";
import { emptyFolder, vectors } from "./files.js";

const OPENS = Date.UTC(2026, 0, 1);
const DOLLARS = { epsilon: 1, per: 8000, unit: "dollar" };

// Node has no Web Locks: these are enough of them, for one process.
const queues = new Map<string, Promise<unknown>>();
const locks = {
  request: (name: string, work: () => Promise<unknown>) => {
    const next = (queues.get(name) ?? Promise.resolve()).then(work);
    queues.set(name, next.catch(() => undefined));
    return next;
  },
};
Object.defineProperty(globalThis, "navigator", { configurable: true, value: { locks } });

function campaignNamed(name: string): Uint8Array {
  const told = vectors<{ name: string; envelope: string }>("campaigns.json", "campaigns");
  return unhex(told.find((item) => item.name === name)!.envelope)!;
}

/** A server in memory, that a test can have fail. */
class Server implements Transport {
  readonly received: string[] = [];
  failures: (TransportError | "after")[] = [];
  envelope = campaignNamed("signed");

  campaign(): Promise<{ envelope: Uint8Array; closed: boolean }> {
    return Promise.resolve({ envelope: this.envelope, closed: false });
  }
  browse(): Promise<{ envelope: Uint8Array; closed: boolean }[]> {
    return Promise.resolve([{ envelope: this.envelope, closed: false }]);
  }
  submit(_: string, __: Uint8Array, report: Uint8Array): Promise<ReportResult> {
    const failure = this.failures.shift();
    if (failure instanceof TransportError) return Promise.reject(failure);
    const again = this.received.includes(hex(report));
    this.received.push(hex(report));
    if (failure === "after") return Promise.reject(unavailable());
    return Promise.resolve(create(ReportResultSchema, { status: again ? ReportStatus.DUPLICATE : ReportStatus.ACCEPTED }));
  }
}

function unavailable(retryAfterMs?: number): TransportError {
  return new TransportError("unavailable", retryAfterMs);
}

function policy(epsilon = 1): Policy {
  const limit = { ...DOLLARS, epsilon };
  return new Policy({ limits: { "household income": { campaign: limit, lifetime: limit } } });
}

function client(server: Transport, options: Partial<ClientOptions> = {}): Client {
  return new Client({
    server,
    policy: policy(),
    storage: new MemoryStorage(),
    background: false,
    releaseFloorMs: 0,
    now: () => OPENS + 86_400_000,
    ...options,
  });
}

async function refused(work: Promise<unknown>, code: string): Promise<GeoveilError> {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.ok(error instanceof GeoveilError, `${String(error)} is not a GeoveilError`);
  assert.equal(error.code, code, error.message);
  return error;
}

const storages: Record<string, () => Promise<Storage>> = {
  memory: () => Promise.resolve(new MemoryStorage()),
  "a file": async () => FileStorage.open(emptyFolder()),
  IndexedDB: () => IndexedDbStorage.open(`test ${Math.random()}`),
};

for (const [name, open] of Object.entries(storages)) {
  test(`one draw for a campaign, whoever asks and however often: ${name}`, async () => {
    const [server, storage] = [new Server(), await open()];
    const clients = [client(server, { storage }), client(server, { storage })];
    const receipts = await Promise.all(
      [1, 2, 3, 4, 5, 6].map((i) => clients[i % 2]!.contribute("plain", 20_000 * i)),
    );
    assert.equal(new Set(receipts.map((r) => r.reportId)).size, 1);
    assert.equal(receipts.filter((r) => r.fresh).length, 1);
    assert.equal((await clients[0]!.history()).length, 1);
    const done = await Promise.all(clients.map((c) => c.flush()));
    assert.equal(done.reduce((sum, d) => sum + d.acknowledged, 0) >= 1, true);
    assert.equal(new Set(server.received).size, 1);
    assert.equal((await clients[1]!.history())[0]!.status, "acknowledged");
    assert.deepEqual((await clients[0]!.budgets()).map((b) => b.spent), [1]);
  });
}

test("the same bytes are sent again, whether the answer was lost or the server was down", async () => {
  const server = new Server();
  const device = client(server);
  const { reportId } = await device.contribute("plain", 52_000);
  server.failures = [unavailable(), "after", unavailable(1)];
  const done = await device.flush();
  assert.deepEqual(done, { acknowledged: 1, rejected: 0, pending: 0 });
  assert.equal(new Set(server.received).size, 1);
  assert.ok(server.received[0]!.includes(reportId));
});

test("a call within a flush of hours has ten seconds, and a flush a day at most", async () => {
  const [server, times]: [Server, number[]] = [new Server(), []];
  const device = client({
    campaign: () => server.campaign(),
    browse: () => server.browse(),
    submit: (id, digest, report, timeoutMs) => {
      times.push(timeoutMs);
      return server.submit(id, digest, report);
    },
  });
  await device.contribute("plain", 52_000);
  for (const deadlineMs of [0, -1, NaN, Infinity, 2 ** 31]) {
    assert.match((await refused(device.flush({ deadlineMs }), "parameter")).message, /deadlineMs must be a number > 0, at most 86400000/);
  }
  server.failures = [new TransportError("deadline_exceeded")];
  assert.equal((await device.flush({ deadlineMs: 86_400_000 })).acknowledged, 1);
  assert.deepEqual(times, [10_000, 10_000]);
});

test("what no retry can mend is not tried again at once, and stays", async () => {
  const server = new Server();
  const device = client(server);
  await device.contribute("plain", 52_000);
  server.failures = [new TransportError("failed_precondition")];
  assert.equal((await device.flush()).pending, 1);
  assert.equal((await device.history())[0]!.failure, "failed_precondition");
  assert.equal((await device.flush()).acknowledged, 1);
});

test("a campaign that is put off keeps no other waiting, and the server keeps all", () => {
  const backoff = new Backoff(2, 10, Infinity);
  backoff.failed("slow", new TransportError("resource_exhausted", 60_000));
  backoff.failed("quick", new TransportError("resource_exhausted", 0));
  assert.ok(!backoff.ready("slow") && backoff.ready() && backoff.waitMs()! <= 2);
  backoff.failed("other", unavailable(60_000));
  assert.ok(!backoff.ready("quick") && !backoff.ready("new") && backoff.waitMs()! >= 60_000);
  backoff.succeeded("quick");
  assert.ok(backoff.ready("quick") && !backoff.ready("slow"));
  backoff.retain(new Set(["quick"]));
  assert.equal(backoff.waitMs(), undefined);
});

test("a pause of the server that is over at once is no reason to give up", () => {
  const backoff = new Backoff(0, 0, Infinity);
  assert.equal(backoff.waitMs(), undefined);
  backoff.failed("a", unavailable());
  assert.equal(backoff.waitMs(), 0);
  backoff.succeeded("a");
  assert.equal(backoff.waitMs(), undefined);
});

test("a list of campaigns leaves out, unread, what asks too much of the device", async () => {
  const limits = { "household income": { campaign: DOLLARS } };
  const shown = async (mostWork: number): Promise<number> =>
    (await client(new Server(), { policy: new Policy({ limits, mostWork }) }).campaigns()).length;
  assert.deepEqual([await shown(10_000), await shown(100)], [1, 0]);
});

test("a new client of the storage sends what the one before left", async () => {
  const folder = emptyFolder();
  const server = new Server();
  const before = client(server, { storage: await FileStorage.open(folder) });
  const { reportId } = await before.contribute("plain", 52_000);
  const after = client(server, { storage: await FileStorage.open(folder) });
  assert.equal((await after.flush()).acknowledged, 1);
  assert.ok(server.received[0]!.includes(reportId));
  assert.equal((await after.contribute("plain", 99_000)).reportId, reportId);
});

test("a file of which a byte has changed is not used, and a line that was cut never counted", async () => {
  const folder = emptyFolder();
  const device = client(new Server(), { storage: await FileStorage.open(folder) });
  await device.contribute("plain", 52_000);
  const [path] = (await readdir(folder)).map((name) => join(folder, name));
  const kept = await readFile(path!);
  await writeFile(path!, Buffer.concat([kept, Buffer.from('{"report":{"campaignId":"pl')]));
  assert.equal((await client(new Server(), { storage: await FileStorage.open(folder) }).history()).length, 1);
  for (let i = 0; i < kept.length; i += 97) {
    const changed = Buffer.from(kept);
    changed[i]! ^= 1;
    await writeFile(path!, changed);
    if (changed[i] !== 10 && kept[i] !== 10) await refused(FileStorage.open(folder), "storage");
  }
});

test("nothing is drawn or spent for what is refused", async () => {
  const server = new Server();
  const device = client(server, { policy: policy(0.5) });
  await refused(device.contribute("plain", 52_000), "policy-refused");
  const nobody = new Policy({ limits: {} });
  await refused(client(server, { policy: nobody }).contribute("plain", 52_000), "policy-refused");
  const keys = new Policy({ limits: policy().options.limits, trustedKeys: [] });
  await refused(client(server, { policy: keys }).contribute("plain", 52_000), "policy-refused");
  const early = client(server, { now: () => OPENS - 1 });
  await refused(early.contribute("plain", 52_000), "campaign-not-open");
  await refused(client(server).contribute("another", 52_000), "campaign-invalid");
  const mine = client(server);
  for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY, "52000", [1, 2], null]) {
    const error = await refused(mine.contribute("plain", wrong as never), "private-value");
    assert.ok(!error.message.includes("52"), error.message);
  }
  assert.deepEqual(await mine.history(), []);
  assert.deepEqual(server.received, []);
});

test("an app that requires a cap refuses a looser one, none, and answers from an epoch", () => {
  const told = vectors<{ name: string; campaign: string }>("consent.json", "consent").find(({ name }) => name === "capped")!;
  const free = vectors<{ name: string; campaign: string }>("consent.json", "consent").find(({ name }) => name === "debiased")!;
  const [asked, other] = [told, free].map(({ campaign }) => new Campaign(unhex(campaign)!)) as [Campaign, Campaign];
  const limit = { ...DOLLARS, epsilon: 9 };
  const checked = (campaign: Campaign, more: object) => () =>
    new Policy({ limits: { "household income": { campaign: limit, ...more } } }).check(campaign, undefined);
  assert.equal(asked.largestEpsilon, 4);
  checked(asked, { anyTwo: 8 })(); // twice, of two periods
  const refusal = { code: "policy-refused" };
  assert.throws(checked(asked, { anyTwo: 7.9999 }), { ...refusal, message: /is 2,981 to 1, the policy permits at most 2,981 to 1/ });
  assert.throws(checked(asked, { anyTwo: Math.log(1000) }), { ...refusal, message: /is 2,981 to 1, the policy permits at most 1,000 to 1/ });
  assert.throws(checked(other, { anyTwo: 100 }), { ...refusal, message: /is none that protects/ });
  const epoch = { privacy: limit, lengthMs: 86_400_000 };
  checked(asked, { epoch })();
  assert.throws(checked(asked, { epoch, anyTwo: 8 }), refusal);
});

test("a campaign that changes after it was seen is refused", async () => {
  const server = new Server();
  const device = client(server);
  await device.fetch("plain");
  const base = campaignNamed("plain");
  assert.equal((await device.offer("plain")).signer !== null, true);
  const told = vectors<{ name: string; envelope: string }>("campaigns.json", "campaigns");
  const other = told.find((item) => item.name.startsWith("plain: title = caf"))!;
  server.envelope = unhex(other.envelope)!;
  assert.notEqual(hex(base), other.envelope);
  await refused(device.fetch("plain"), "campaign-invalid");
});

test("nothing that is kept, shown or thrown holds the value", async () => {
  const folder = emptyFolder();
  const device = client(new Server(), { storage: await FileStorage.open(folder) });
  const secret = 123_456.789;
  const receipt = await device.contribute("plain", secret);
  const kept = await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), "utf8")));
  const shown = [JSON.stringify(receipt, (_, v: unknown) => (typeof v === "bigint" ? `${v}` : v)), ...kept].join();
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(secret);
  for (const trace of ["123456", bytes.toString("hex"), bytes.toString("base64")]) assert.ok(!shown.includes(trace));
});

test("a limit without a lifetime or a window is that of all campaigns together", async () => {
  const { checkLedger, BudgetExceeded } = await import("../src/ledger.js");
  const history = [{ campaignId: "before", privacy: DOLLARS, toldUs: 0n }];
  const ask = (limit: Parameters<typeof checkLedger>[1]): void => checkLedger(DOLLARS, limit, history, "next", 1n);
  const windows = [{ limit: { ...DOLLARS, epsilon: 2 }, lengthMs: 86_400_000 }];
  assert.throws(() => ask({ campaign: DOLLARS }), BudgetExceeded);
  ask({ campaign: DOLLARS, lifetime: "unbounded" });
  ask({ campaign: DOLLARS, windows });
});

interface Sequence {
  limits: { campaign: Pair; lifetime: Pair | null; windows: (Pair & { length_us: number })[] };
  operations: { at_us: number; campaign: string; epsilon: number; per: number; delta?: number; verdict: string; spent?: number; spent_delta?: number; frees_us?: number | null }[];
}
interface Pair {
  epsilon: number;
  per: number;
  delta?: number;
}

test("sequences of answers are permitted and refused as the vectors say", async () => {
  const { checkLedger, BudgetExceeded } = await import("../src/ledger.js");
  for (const { limits, operations } of vectors<Sequence>("ledger.json", "ledgers")) {
    const unit = "unit";
    const limit = {
      campaign: { ...limits.campaign, unit },
      lifetime: limits.lifetime ? { ...limits.lifetime, unit } : ("unbounded" as const),
      windows: limits.windows.map((w) => ({ limit: { ...w, unit }, lengthMs: w.length_us / 1000 })),
    };
    const history: { campaignId: string; privacy: Pair; toldUs: bigint }[] = [];
    for (const { at_us, campaign, epsilon, per, delta = 0, verdict, spent, spent_delta, frees_us } of operations) {
      const privacy = { epsilon, per, delta };
      const ask = (): void => checkLedger(privacy, limit, history, campaign, BigInt(at_us));
      if (verdict === "permitted") {
        ask();
        history.push({ campaignId: campaign, privacy, toldUs: BigInt(at_us) });
        continue;
      }
      assert.throws(ask, (error) => {
        assert.ok(error instanceof BudgetExceeded);
        assert.equal(error.spent, spent);
        if (spent_delta !== undefined) assert.equal(error.spentDelta, spent_delta);
        assert.equal(error.freesUs?.toString() ?? null, frees_us?.toString() ?? null);
        return true;
      });
    }
  }
});

test("an envelope of another kind is refused with a typed error", async () => {
  const server = new Server();
  server.envelope = toBinary(CampaignEnvelopeSchema, create(CampaignEnvelopeSchema, { campaign: new Uint8Array([1, 2, 3]) }));
  await refused(client(server).contribute("plain", 1), "campaign-invalid");
});

test("pages of campaigns without an end are read no longer than one answer may take", async (t) => {
  const page = toBinary(BrowseCampaignsResponseSchema, create(BrowseCampaignsResponseSchema, { nextPageToken: "more" }));
  let asked = 0;
  t.mock.method(globalThis, "fetch", async (_: string, { signal }: { signal: AbortSignal }) => {
    asked += 1;
    await new Promise((resolve) => setTimeout(resolve, 50));
    signal.throwIfAborted();
    return new Response(page as Uint8Array<ArrayBuffer>, { headers: { "Content-Type": "application/proto" } });
  });
  await refused(transportTo("https://survey.example").browse(200), "transport");
  assert.ok(asked < 10, `${asked} pages`);
});

test("a policy refuses what would be no limit, by its name", () => {
  const limits = { income: { campaign: DOLLARS } };
  const wrong: [string, object | undefined][] = [
    ["policy", undefined],
    ["limits", {}],
    ["a name in policy", { limits, mostwork: 1 }],
    ["a name in limits[income]", { limits: { income: { campaign: DOLLARS, lifeTime: DOLLARS } } }],
    ["a name in limits[income]", { limits: { income: DOLLARS } }],
    ["limits[income].campaign", { limits: { income: { lifetime: DOLLARS } } }],
    ["limits[income].value", { limits: { income: { campaign: DOLLARS, value: "number" } } }],
    ["limits[income].windows", { limits: { income: { campaign: DOLLARS, windows: {} } } }],
    ["limits[income]", { limits: { income: { campaign: DOLLARS, lifetime: null } } }],
    ["limits[income].anyTwo", { limits: { income: { campaign: DOLLARS, anyTwo: NaN } } }],
    ["mostWork", { limits, mostWork: NaN }],
    ["mostQueries", { limits, mostQueries: "100" }],
    ["minimumParticipants", { limits, minimumParticipants: NaN }],
    ["trustedKeys", { limits, trustedKeys: "ed25519:" }],
    ["latestClose", { limits, latestClose: new Date("soon") }],
  ];
  for (const [name, options] of wrong) {
    const refusal = { name: "ParameterError", parameter: name };
    assert.throws(() => new Policy(options as PolicyOptions), refusal, JSON.stringify(options));
  }
});

test("a client without a policy or with an address that is none is refused", () => {
  const given = { server: "https://survey.example", policy: policy() };
  for (const [name, wrong] of [
    ["server", { server: "127.0.0.1:7718" }],
    ["server", { server: "" }],
    ["server", { server: "http://127.0.0.1:99999" }],
    ["policy", { policy: undefined }],
    ["policy", { policy: { limits: {} } }],
  ] as const) {
    assert.throws(() => new Client({ ...given, ...wrong } as ClientOptions), { name: "ParameterError", parameter: name });
  }
  assert.throws(() => PublicKey.parse(5 as unknown as string), { name: "ParameterError" });
  assert.throws(() => describeEpoch({ privacy: DOLLARS, lengthMs: -1 }), { name: "ParameterError", parameter: "lengthMs" });
});

test("a campaign that asks for a relay is answered through it alone, also what an earlier client drew", async () => {
  const [own, other] = [9, 7].map((x) => PublicKey.of(new Uint8Array(32).fill(x)));
  const { campaign: bytes } = fromBinary(CampaignEnvelopeSchema, campaignNamed("signed"));
  const campaign = toBinary(CampaignSchema, { ...fromBinary(CampaignSchema, bytes), relayOperator: own!.bytes });
  const server = (operator?: PublicKey): Server => {
    const made = Object.assign(new Server(), operator && { operator });
    made.envelope = toBinary(CampaignEnvelopeSchema, create(CampaignEnvelopeSchema, { campaign }));
    return made;
  };
  const storage = new MemoryStorage();
  const [right, direct] = [server(own), server()];
  const refusals = [
    [direct, `to the gateway of ${own}, the policy permits none`],
    [server(other), `to the gateway of ${own}, the policy permits to the gateway of ${other}`],
  ] as const;
  const id = new Campaign(campaign).id;
  for (const [refused, said] of refusals) {
    const device = client(refused, { storage });
    const expected = (error: unknown): boolean => error instanceof GeoveilError && error.code === "policy-refused" && error.message.includes(said);
    await assert.rejects(device.fetch(id), expected);
    await assert.rejects(device.contribute(id, 1), expected);
    assert.ok((await device.offer(id)).acceptable?.includes(said));
  }
  const device = client(right, { storage });
  assert.equal((await device.offer(id)).acceptable, null);
  await device.contribute(id, 1);
  // What waits leaves by no other way, although the app now has one, and is not noted as sent.
  assert.equal((await client(direct, { storage }).flush({ deadlineMs: 500 })).pending, 1);
  const [waits] = await device.history();
  assert.deepEqual([waits!.failure, waits!.sent, direct.received.length], ["policy-refused", undefined, 0]);
  assert.equal((await client(right, { storage }).flush()).acknowledged, 1);
  assert.equal(right.received.length, 1);
});
