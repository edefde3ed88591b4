/** What goes through a relay: equal to Python byte for byte, and a relay that answers badly. */
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { hex, PublicKey, verified } from "../src/envelope.js";
import { GeoveilError, UnsupportedError } from "../src/errors.js";
import { MessageInvalid, padded, readKey, readResponse, relayed, sealRequest, SIZES, writeRequest } from "../src/relay.js";
import { transportThrough } from "../src/through.js";
import { failure, TransportError } from "../src/transport.js";
import { vectors } from "./files.js";
import { bytesOf } from "./tuples.js";

interface Told {
  readonly kind: string;
  readonly refused?: string;
  readonly [field: string]: unknown;
}

const all = vectors<Told>("relay.json", "relay");
const of = (kind: string): Record<string, string>[] => all.filter((one) => one.kind === kind) as unknown as Record<string, string>[];
const bytes = (text: string | undefined): Uint8Array<ArrayBuffer> => bytesOf(text ?? "") as Uint8Array<ArrayBuffer>;

async function halves({ private: own, public: other }: Record<string, string>): Promise<CryptoKeyPair> {
  const pkcs8 = Uint8Array.from([...bytes("302e020100300506032b656e04220420"), ...bytes(own)]);
  return {
    privateKey: await crypto.subtle.importKey("pkcs8", pkcs8, "X25519", true, ["deriveBits"]),
    publicKey: await crypto.subtle.importKey("raw", bytes(other), "X25519", true, []),
  };
}

test("messages are sealed, and answers opened, as by Python and the standard", async () => {
  const told = of("sealed");
  assert.equal(told.length, 2);
  for (const one of told) {
    const pair = await halves(one.ephemeral as unknown as Record<string, string>);
    const { sealed, opened } = await sealRequest(1, bytes(one.key), bytes(one.request), pair);
    assert.equal(hex(sealed), one.sealed);
    const answer = bytes(one.answer);
    assert.equal(hex(await opened(answer)), one.response);
    answer[20]! ^= 1;
    await assert.rejects(opened(answer), MessageInvalid);
    const other = await sealRequest(1, bytes(one.key), bytes(one.request));
    assert.notEqual(hex(other.sealed), one.sealed);
    await assert.rejects(other.opened(bytes(one.answer)), MessageInvalid);
    for (const short of ["", "00"]) await assert.rejects(opened(bytes(short)), MessageInvalid);
  }
});

test("calls are written, and answers read or refused, as by Python", () => {
  for (const { content, message } of of("request")) assert.equal(hex(writeRequest("SubmitReports", bytes(content))), message);
  const told = of("response");
  assert.ok(told.length > 12);
  for (const { message, status, content, refused } of told) {
    const read = (): unknown => {
      const found = readResponse(bytes(message));
      return { status: found.status, content: hex(found.content) };
    };
    if (refused) assert.throws(read, { message: refused }, message);
    else assert.deepEqual(read(), { status, content }, message);
  }
});

test("only a key that the operator signed is taken, before its end", async () => {
  const told = of("key");
  assert.equal(told.filter(({ refused }) => refused).length, 7);
  for (const { content, signed, operator, now, serial, expires, key, refused } of told) {
    const read = readKey({ verified }, bytes(content), signed!, PublicKey.parse(operator!), 1000 * Number(now));
    if (refused) await assert.rejects(read, { message: refused });
    else {
      const found = await read;
      assert.deepEqual([Number(found.serial), Number(found.expires), hex(found.key), found.keyId], [serial, expires, key, Number(serial) % 256]);
    }
  }
  const [sound] = told as [Record<string, string>];
  for (const signed of ["", "1 2 %", `-1 ${sound.signed}`, sound.signed!.slice(0, -4)]) {
    const read = readKey({ verified }, bytes(sound.content), signed, PublicKey.parse(sound.operator!), 0);
    await assert.rejects(read, { message: "it is not a signed key of a gateway" });
  }
});

test("what travels has one of two sizes", async () => {
  const [{ key }] = of("sealed") as [Record<string, string>];
  const seen = new Set<number>();
  for (const length of [1, 969, 970, 4041]) seen.add((await sealRequest(1, bytes(key), padded(new Uint8Array(length), SIZES[0]))).sealed.length);
  assert.deepEqual([...seen], [...SIZES]);
  assert.equal(padded(new Uint8Array(1), SIZES[1]).length, 4041);
  assert.throws(() => padded(new Uint8Array(4042), SIZES[0]), /more than 4041 bytes/);
});

type Answer = readonly [status: number, body: string, headers?: Record<string, string>];

/** A relay that answers questions for the key with a sound one, and calls with what is given. */
async function answering(key: Answer, call: Answer, work: (url: string, operator: PublicKey, now: () => number) => Promise<void>): Promise<string[]> {
  const [sound] = of("key") as [Record<string, string>];
  const asked: string[] = [];
  const server: Server = createServer((request, response) => {
    asked.push(request.method!);
    const [status, body, headers] = request.method === "GET" ? key : call;
    response.writeHead(status, { connection: "close", ...headers }).end(Buffer.from(body, "latin1"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  try {
    await work(`http://127.0.0.1:${port}/way`, PublicKey.parse(sound.operator!), () => 1000 * Number(sound.now));
  } finally {
    server.close();
  }
  return asked;
}

test("a relay that answers badly ends a call with an error that says how", async () => {
  const [sound] = of("key") as [Record<string, string>];
  const key: Answer = [200, Buffer.from(bytes(sound.content)).toString("latin1"), { "geoveil-signed": sound.signed! }];
  const cases: readonly (readonly [Answer, Answer, string, RegExp, number?])[] = [
    [[502, ""], [200, ""], "unavailable", /status 502/],
    [[429, "", { "retry-after": "7" }], [200, ""], "unavailable", /status 429/, 7000],
    [key, [404, ""], "unimplemented", /status 404/],
    [key, [200, "xyz"], "data_loss", /differs in size from its request/],
    [key, [200, "x".repeat(4096)], "data_loss", /not sealed in answer/],
    [key, [400, "#ohttp-key"], "unavailable", /a key other than/],
    [[200, "", { "geoveil-signed": sound.signed! }], [200, ""], "data_loss", /not a signed key/],
  ];
  for (const [ofKey, ofCall, status, reason, retryAfterMs] of cases) {
    const asked = await answering(ofKey, ofCall, async (url, operator, now) => {
      const failed = await transportThrough(url, operator, now).campaign("income", 5000).then(() => undefined, (error: unknown) => error);
      assert.ok(failed instanceof TransportError);
      assert.deepEqual([failed.status, failed.retryAfterMs], [status, retryAfterMs], failed.message);
      assert.match(failed.message, reason);
    });
    // Of a key that the gateway has not, the device asks once more.
    assert.equal(asked.length, ofCall[1] === "#ohttp-key" ? 4 : ofKey === key ? 2 : 1, status);
  }
});

test("a key that is older than one before it is not taken, even after the relay says that there is another", async () => {
  const [sound] = of("key") as [Record<string, string>];
  const operator = PublicKey.parse(sound.operator!);
  const serials = [300n, 300n, 299n];
  const tools = {
    failure,
    TransportError,
    UnsupportedError,
    verified: () => Promise.resolve(true),
    exchanged: (_: string, init: RequestInit) => {
      if (init.method === "POST") return Promise.resolve({ status: 400, headers: new Headers(), body: new TextEncoder().encode("#ohttp-key") });
      const serial = serials.shift()!;
      const content = bytes(sound.content);
      content[2] = Number(serial % 256n);
      const headers = new Headers({ "geoveil-signed": sound.signed!.replace(/^\d+/, `${serial}`) });
      return Promise.resolve({ status: 200, headers, body: content });
    },
  };
  const call = relayed(tools, "https://relay.example", operator, () => 1000 * Number(sound.now));
  await assert.rejects(call("SubmitReports", new Uint8Array(), 1000), /a key other than the one it publishes/);
  await assert.rejects(call("SubmitReports", new Uint8Array(), 1000), /older than an earlier one/);
});

test("a relay is https or this machine, and carries no lists", async () => {
  const operator = PublicKey.parse(of("key")[0]!.operator!);
  assert.throws(() => transportThrough("http://relay.example/", operator), /the relay must be an https address/);
  assert.throws(() => transportThrough("relay", operator), /relay must be like https:\/\/relay\.example/);
  const transport = transportThrough("https://relay.example/", operator);
  await assert.rejects(transport.browse(1), (error) => error instanceof GeoveilError && error.code === "unsupported");
});
