/** Tokens: those of the standard and of Python, from an issuer that answers well, badly, and twice. */
import assert from "node:assert/strict";
import { constants, createHash, generateKeyPairSync, privateDecrypt, publicDecrypt } from "node:crypto";
import { test } from "node:test";
import { publicVerif, Token } from "@cloudflare/privacypass-ts";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Campaign } from "../src/campaign.js";
import { Client, type ClientOptions } from "../src/client.js";
import { hex, unhex } from "../src/envelope.js";
import { GeoveilError } from "../src/errors.js";
import { CampaignEnvelopeSchema, CampaignSchema } from "../src/gen/geoveil/proto/v1/campaign_pb.js";
import { type ReportResult, ReportResultSchema, ReportStatus } from "../src/gen/geoveil/proto/v1/report_pb.js";
import { Policy } from "../src/policy.js";
import { fromReport } from "../src/report.js";
import { MemoryStorage } from "../src/storage.js";
import { blind, isSound, keyIdOf, messageFor } from "../src/tokens.js";
import type { Transport } from "../src/transport.js";
import { whoAsks, whoLearns } from "../src/ways.js";
import { vectors } from "./files.js";
import { bytesOf } from "./tuples.js";

const of = (kind: string): Record<string, string>[] => vectors<Record<string, string>>("relay.json", "relay").filter((one) => one.kind === kind);
const bytes = (text: string | undefined): Uint8Array => bytesOf(text ?? "");

test("a token is blinded, unblinded and verified as in RFC 9578", async () => {
  const [told] = of("token") as [Record<string, string>];
  const [key, message] = [bytes(told.key), bytes(told.message)];
  assert.equal(hex(await keyIdOf(key)), told.key_id);
  const made = await blind(key, message, bytes(told.salt), BigInt(`0x${told.factor}`));
  assert.equal(`0002${told.key_id!.slice(-2)}${hex(made!.blinded)}`, told.request);
  const token = made!.unblind(bytes(told.signed));
  assert.equal(hex(token), told.token);
  assert.ok(await isSound(key, message, token));
  for (const at of [0, 100, 255]) {
    const changed = Uint8Array.from(token);
    changed[at]! ^= 1;
    assert.ok(!(await isSound(key, message, changed)));
  }
  assert.ok(!(await isSound(key, Uint8Array.from([...message.subarray(0, 97), message[97]! ^ 1]), token)));
  const even = Uint8Array.from([...key.subarray(0, 255), 4]);
  assert.equal(await blind(even, message, bytes(told.salt), 2n), undefined);
});

test("what an issuer signs is what Python's signs", async () => {
  const told = of("message");
  assert.equal(told.length, 2);
  for (const { campaign_id, campaign, key_id, report_id, message } of told) {
    assert.equal(hex(await messageFor(campaign_id!, bytes(campaign), bytes(key_id), bytes(report_id))), message);
  }
});

test("people are told who asks, and of relays and issuers, in the words of Python", () => {
  const told = vectors<{ kind: string; campaign: string; said: string[] }>("relay.json", "relay");
  for (const [asked, say, lengths] of [["learns", whoLearns, [0, 2, 4]], ["asks", whoAsks, [3, 5, 6]]] as const) {
    const cases = told.filter(({ kind }) => kind === asked);
    assert.deepEqual(cases.map(({ said }) => said.length), lengths);
    for (const { campaign, said } of cases) assert.deepEqual(say(new Campaign(bytesOf(campaign))), said);
  }
});

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const modulus = new Uint8Array(Buffer.from(publicKey.export({ format: "jwk" }).n!, "base64url"));
const ISSUER = { url: "https://issuer.example/", credential: "code" };
const NOW = Date.UTC(2026, 0, 2);

/** An issuer in place of the platform's fetch: a token a person, of the first message. */
class Issuing {
  readonly given = new Map<string, string>();
  asked = 0;
  answer: ((signed: Uint8Array) => Response) | undefined;

  fetch = (_: unknown, init?: RequestInit): Promise<Response> => {
    this.asked += 1;
    if (init?.method === "GET") return Promise.resolve(new Response(modulus));
    const request = init!.body as Uint8Array;
    const person = (init!.headers as Record<string, string>).Authorization!;
    const hashed = createHash("sha256").update(request).digest("hex");
    if ((this.given.get(person) ?? hashed) !== hashed) return Promise.resolve(new Response("", { status: 409 }));
    this.given.set(person, hashed);
    assert.deepEqual([...request.subarray(0, 2), request.length], [0, 2, 259]);
    const signed = privateDecrypt({ key: privateKey, padding: constants.RSA_NO_PADDING }, request.subarray(3));
    assert.ok(Buffer.from(request.subarray(3)).equals(publicDecrypt({ key: publicKey, padding: constants.RSA_NO_PADDING }, signed)));
    return Promise.resolve(this.answer?.(signed) ?? new Response(signed));
  };
}

/** A server that counts reports whose token is sound. */
class Server implements Transport {
  readonly received: string[] = [];
  lost = 0;
  constructor(
    readonly bytes: Uint8Array,
    readonly keyId: Uint8Array,
    readonly recurs: boolean,
  ) {}
  campaign(): Promise<{ envelope: Uint8Array; closed: boolean }> {
    return Promise.resolve({ envelope: toBinary(CampaignEnvelopeSchema, create(CampaignEnvelopeSchema, { campaign: this.bytes })), closed: false });
  }
  browse(): Promise<[]> {
    return Promise.resolve([]);
  }
  async submit(campaignId: string, _: Uint8Array, report: Uint8Array): Promise<ReportResult> {
    const { reportId, token } = fromReport(report);
    const key = this.recurs ? token.subarray(0, 256) : modulus;
    const sound = await isSound(key, await messageFor(campaignId, this.bytes, this.keyId, reportId), token.subarray(this.recurs ? 256 : 0));
    assert.ok(sound);
    this.received.push(hex(report));
    if (this.lost-- > 0) throw new TypeError("the process ends here");
    return create(ReportResultSchema, { status: ReportStatus.ACCEPTED });
  }
}

async function serverOf(recurs: boolean): Promise<Server> {
  const told = vectors<{ name: string; envelope: string }>("campaigns.json", "campaigns").find(({ name }) => name === "signed")!;
  const { campaign } = fromBinary(CampaignEnvelopeSchema, unhex(told.envelope)!);
  const message = fromBinary(CampaignSchema, campaign);
  const keyId = await keyIdOf(modulus);
  const other = new Uint8Array(32);
  const { closes } = message;
  if (recurs) {
    const seconds = (closes!.seconds - message.opens!.seconds + 1n) / 2n;
    Object.assign(message, { tokenKey: Uint8Array.from([...keyId, ...other]), period: { $typeName: "google.protobuf.Duration", seconds, nanos: 0 } });
  } else Object.assign(message, { tokenKey: modulus });
  return new Server(toBinary(CampaignSchema, message), keyId, recurs);
}

function client(server: Server, options: Partial<ClientOptions> = {}): Client {
  const limit = { epsilon: 10, per: 8000, unit: "dollar" };
  const policy = new Policy({ limits: { "household income": { campaign: limit, lifetime: limit } } });
  return new Client({ server, policy, issuer: ISSUER, background: false, releaseFloorMs: 0, now: () => NOW, ...options });
}

for (const recurs of [false, true]) {
  test(`a device gets the one token of its person${recurs ? ", of the period" : ""}, and the same again after a crash`, async (t) => {
    const issuing = new Issuing();
    t.mock.method(globalThis, "fetch", issuing.fetch);
    const server = await serverOf(recurs);
    const { id } = new Campaign(server.bytes);
    const storage = new MemoryStorage();
    await client(server, { storage }).contribute(id, 50_000);
    // The process ends when the issuer has signed, then when the server has taken the report.
    issuing.answer = () => {
      throw new Error("the process ends here");
    };
    await client(server, { storage }).flush({ deadlineMs: 200 });
    assert.deepEqual([server.received.length, issuing.given.size], [0, 1]);
    issuing.answer = undefined;
    server.lost = 1;
    await assert.rejects(client(server, { storage }).flush({ deadlineMs: 200 }), /process ends/);
    const asked = issuing.asked;
    assert.equal((await client(server, { storage }).flush()).acknowledged, 1);
    assert.deepEqual([new Set(server.received).size, issuing.asked], [1, asked]);
    // Another device of the person is refused, for good; another person is not.
    const second = client(server);
    await second.contribute(id, 50_000);
    assert.equal((await second.flush()).rejected, 1);
    assert.equal((await second.history())[0]!.reason, "WRONG_TOKEN");
    const third = client(server, { issuer: { ...ISSUER, credential: "other" } });
    await third.contribute(id, 50_000);
    assert.equal((await third.flush()).acknowledged, 1);
    assert.equal(new Set(server.received).size, 2);
  });
}

test("an issuer that answers badly leaves the report waiting, with a word of why", async (t) => {
  const server = await serverOf(false);
  const { id } = new Campaign(server.bytes);
  const cases: readonly (readonly [(signed: Uint8Array) => Response, string])[] = [
    [() => new Response("", { status: 401 }), "permission_denied"],
    [() => new Response("", { status: 503, headers: { "Retry-After": "9" } }), "aborted"],
    [() => new Response(""), "data_loss"],
    [(signed) => new Response(Uint8Array.from(signed, (byte, i) => byte ^ Number(i === 9))), "data_loss"],
    [() => Response.error(), "aborted"],
  ];
  for (const [answer, failure] of cases) {
    const issuing = Object.assign(new Issuing(), { answer });
    const mocked = t.mock.method(globalThis, "fetch", issuing.fetch);
    const device = client(server);
    await device.contribute(id, 50_000);
    assert.equal((await device.flush({ deadlineMs: 100 })).pending, 1);
    const [receipt] = await device.history();
    assert.deepEqual([receipt!.failure, receipt!.sent], [failure, undefined]);
    mocked.mock.restore();
  }
  assert.equal(server.received.length, 0);
});

test("a client without an issuer refuses before it draws, and an issuer is https with a credential", async () => {
  const server = await serverOf(false);
  const { id } = new Campaign(server.bytes);
  const { issuer, ...without } = { issuer: ISSUER, server, policy: new Policy({ limits: {} }), background: false };
  const offer = await new Client(without).offer(id);
  const device = new Client({ ...without, policy: Policy.permitting(offer) });
  const refusal = (error: unknown): boolean => error instanceof GeoveilError && error.code === "policy-refused" && /its token is one from its issuer, the policy permits none/.test(error.message);
  await assert.rejects(device.contribute(id, 1), refusal);
  assert.match((await device.offer(id)).acceptable ?? "", /token is one from its issuer/);
  for (const change of [{ url: "http://issuer.example" }, { url: "issuer" }, { credential: "" }, { credential: "a\nb" }]) {
    assert.throws(() => new Client({ ...without, issuer: { ...issuer, ...change } }), { code: "parameter" });
  }
});

test("a campaign's token key is a modulus or, with periods, ids that differ", async () => {
  for (const recurs of [false, true]) {
    const message = fromBinary(CampaignSchema, (await serverOf(recurs)).bytes);
    const wrong = [recurs ? modulus : modulus.subarray(1), new Uint8Array(64), new Uint8Array(256), new Uint8Array(32).fill(1)];
    for (const tokenKey of wrong) assert.throws(() => new Campaign(toBinary(CampaignSchema, { ...message, tokenKey })), /token_key must be/);
  }
});

test("an issuer of @cloudflare/privacypass-ts gives a device its token, and that library accepts it", async (t) => {
  const { Issuer, BlindRSAMode, BLIND_RSA, Origin, TokenRequest, getPublicKeyBytes } = publicVerif;
  const held = (key: typeof publicKey, use: KeyUsage): Promise<CryptoKey> =>
    crypto.subtle.importKey("jwk", key.export({ format: "jwk" }) as JsonWebKey, { name: "RSA-PSS", hash: "SHA-384" }, true, [use]);
  const pair = { privateKey: await held(privateKey, "sign"), publicKey: await held(publicKey, "verify") };
  const theirs = new Issuer(BlindRSAMode.PSS, "geoveil", pair.privateKey, pair.publicKey, { supportsRSARAW: false });
  const spki = await getPublicKeyBytes(pair.publicKey);
  assert.equal(hex(await keyIdOf(modulus)), createHash("sha256").update(spki).digest("hex"));
  t.mock.method(globalThis, "fetch", async (_: unknown, init: RequestInit) => {
    const answer = await theirs.issue(TokenRequest.deserialize(BLIND_RSA, init.body as Uint8Array));
    return new Response(answer.serialize() as Uint8Array<ArrayBuffer>);
  });
  const server = await serverOf(false);
  const { id } = new Campaign(server.bytes);
  const device = client(server);
  await device.contribute(id, 50_000);
  assert.equal((await device.flush()).acknowledged, 1);
  const { reportId, token } = fromReport(unhex(server.received[0]!)!);
  const input = await messageFor(id, server.bytes, server.keyId, reportId);
  const read = Token.deserialize(BLIND_RSA, Uint8Array.from([...input, ...token]));
  const origin = new Origin(BlindRSAMode.PSS, [id]);
  assert.ok(await origin.verify(read, pair.publicKey));
  const challenge = origin.createTokenChallenge("geoveil", Uint8Array.from(createHash("sha256").update(server.bytes).digest()));
  assert.equal(hex(read.authInput.challengeDigest), createHash("sha256").update(challenge.serialize()).digest("hex"));
  read.authenticator[9]! ^= 1;
  assert.ok(!(await origin.verify(read, pair.publicKey)));
});
