/**
 * Tokens by which a person has one report: Privacy Pass type 2 (RFC 9578), with blind RSA (RFC 9474).
 *
 * It is loaded for campaigns that ask for one, and imports nothing, so that it is a separate file. A
 * token is that of Python
 * (`geoveil.relay.tokens`), which proto/vectors/relay.json holds both to.
 */
import type { Issuer, Tools } from "./pass.js";
import type { Entry } from "./storage.js";

type Bytes = Uint8Array<ArrayBuffer>;

const [KEY, ID, HASH, SALT] = [256, 32, 48, 48] as const;
const TYPE = [0, 2] as const;
/** The bytes before and after the modulus of a key for RSASSA-PSS with SHA-384 and 48 bytes of salt. */
const INFO =
  "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d" +
  "010108300b0609608648016503040202a2030201300382010f003082010a0282010100";
const AFTER = "0203010001";
const REQUEST_TYPE = "application/private-token-request";
/** The field of a report for its token: bytes. */
const TAG = (4 << 3) | 2;
/** Failures that no retry fixes, but the person or the issuer may. */
const REFUSALS = [401, 403, 404];
const GIVEN = 409;

const text = (content: string): Bytes => new TextEncoder().encode(content) as Bytes;
const joined = (...parts: readonly Iterable<number>[]): Bytes => Uint8Array.from(parts.flatMap((part) => [...part]));
const of16 = (x: number): readonly number[] => [x >> 8, x & 255];
const hexOf = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (digits: string): Bytes => Uint8Array.from(digits.match(/../g) ?? [], (byte) => parseInt(byte, 16));
const integer = (bytes: Uint8Array): bigint => BigInt(`0x0${hexOf(bytes)}`);
const bytesOf = (x: bigint, size: number): Bytes => unhex(x.toString(16).padStart(2 * size, "0"));
const equal = (a: Uint8Array, b: Uint8Array): boolean => hexOf(a) === hexOf(b);

async function hashed(content: Uint8Array, by: "SHA-256" | "SHA-384" = "SHA-256"): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest(by, content as Bytes));
}

/** A message padded by PSS, for a modulus of this many bits: RFC 8017, 9.1.1. */
export async function encodePss(message: Uint8Array, salt: Uint8Array, bits: number): Promise<Bytes> {
  const size = Math.floor((bits + 6) / 8);
  const hash = await hashed(joined(new Uint8Array(8), await hashed(message, "SHA-384"), salt), "SHA-384");
  const block = new Uint8Array(size - HASH - 1);
  block.set([1, ...salt], block.length - salt.length - 1);
  for (let at = 0; at < block.length; at += HASH) {
    const mask = await hashed(joined(hash, [0, 0], of16(at / HASH)), "SHA-384");
    mask.subarray(0, block.length - at).forEach((byte, i) => (block[at + i]! ^= byte));
  }
  block[0]! &= 0xff >> (8 * size - bits + 1);
  return joined(block, hash, [0xbc]);
}

/** The inverse modulo a number, if there is one. */
function inverse(x: bigint, modulus: bigint): bigint | undefined {
  let [a, b, u, v] = [x % modulus, modulus, 1n, 0n];
  while (a) [a, b, u, v] = [b % a, a, v - (b / a) * u, u];
  return b === 1n ? ((v % modulus) + modulus) % modulus : undefined;
}

/** A number to the power of 65,537, modulo another. */
function power(x: bigint, modulus: bigint): bigint {
  let found = x;
  for (let i = 0; i < 16; i++) found = (found * found) % modulus;
  return (found * x) % modulus;
}

/**
 * A blinded message, and a function that unblinds the answer into a signature; undefined if the issuer's
 * key is invalid.
 *
 * @param key - modulus of the issuer's key.
 * @param salt - 48 bytes that others can't predict.
 * @param factor - a number modulo the key that others can't predict.
 */
export async function blind(key: Uint8Array, message: Uint8Array, salt: Uint8Array, factor: bigint): Promise<{ blinded: Bytes; unblind: (signed: Uint8Array) => Bytes } | undefined> {
  const modulus = integer(key);
  const back = inverse(factor, modulus);
  const encoded = integer(await encodePss(message, salt, modulus.toString(2).length));
  if (back === undefined || inverse(encoded, modulus) === undefined) return undefined;
  return {
    blinded: bytesOf((encoded * power(factor, modulus)) % modulus, key.length),
    unblind: (signed) => bytesOf((integer(signed) * back) % modulus, key.length),
  };
}

/** A key's id: SHA-256 of it as SubjectPublicKeyInfo. */
export function keyIdOf(key: Uint8Array): Promise<Bytes> {
  return hashed(joined(unhex(INFO), key, unhex(AFTER)));
}

/** What an issuer signs for a report: RFC 9578, 6.2, with the challenge of RFC 9577, 2.1. */
export async function messageFor(campaignId: string, campaign: Uint8Array, keyId: Uint8Array, reportId: Uint8Array): Promise<Bytes> {
  const [issuer, origin, digest] = [text("geoveil"), text(campaignId), await hashed(campaign)];
  const challenge = joined(TYPE, of16(issuer.length), issuer, [digest.length], digest, of16(origin.length), origin);
  return joined(TYPE, await hashed(joined(text("geoveil report v1\n"), reportId)), await hashed(challenge), keyId);
}

/** Whether a key made a signature. */
export async function isSound(key: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  const n = btoa(String.fromCharCode(...key)).replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
  const scheme = { name: "RSA-PSS", hash: "SHA-384", saltLength: SALT };
  const made = await crypto.subtle.importKey("jwk", { kty: "RSA", n, e: "AQAB" }, scheme, false, ["verify"]);
  return await crypto.subtle.verify(scheme, made, signature as Bytes, message as Bytes);
}

/**
 * The bytes of a report with its token, in hexadecimal; undefined if the issuer gave this person one for
 * another report.
 *
 * A failure of the issuer concerns the campaign, not the server. The blinding is derived from 32 random
 * bytes stored with the report, so that after a crash the device sends the issuer the same request.
 *
 * @param bytes - of the campaign.
 */
export async function completed(tools: Tools, bytes: Uint8Array, { report, period, blinding }: Entry, issuer: Issuer, timeoutMs: number): Promise<string | undefined> {
  const { exchanged, TransportError } = tools;
  const { campaignId, tokenKey, period: recurs } = tools.messageOf(bytes);
  const { reportId } = tools.fromReport(unhex(report));
  const end = performance.now() + timeoutMs;
  const keyId = recurs ? tokenKey.subarray(ID * period, ID * (period + 1)) : await keyIdOf(tokenKey);

  async function asked(init: RequestInit): Promise<Uint8Array | undefined> {
    const url = `${issuer.url.replace(/\/$/, "")}/${hexOf(keyId)}`;
    const { status, headers, body } = await exchanged(url, init, end - performance.now()).catch(() => {
      throw new TransportError("aborted", undefined, "the issuer did not answer");
    });
    if (status === GIVEN) return undefined;
    const after = headers.get("Retry-After") ?? "";
    if (status === 200) return body;
    const retryAfterMs = /^\d{1,9}$/.test(after) ? Number(after) * 1000 : undefined;
    throw new TransportError(REFUSALS.includes(status) ? "permission_denied" : "aborted", retryAfterMs, `the issuer gives no token: status ${status}`);
  }

  const key = recurs ? await asked({ method: "GET" }) : tokenKey;
  if (key?.length !== KEY || !(key[0]! >> 7) || !equal(await keyIdOf(key), keyId)) throw new TransportError("data_loss", undefined, "the issuer answered with another key");
  const message = await messageFor(campaignId, bytes, keyId, reportId);
  const secret = await crypto.subtle.importKey("raw", unhex(blinding!), "HKDF", false, ["deriveBits"]);
  const made = async (label: string, size: number): Promise<Bytes> =>
    new Uint8Array(await crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: joined(text(label), message) }, secret, 8 * size));
  // Enough more bits than the modulus for the remainder to be uniform to within 2^-128.
  const factor = integer(await made("blind", KEY + 16)) % integer(key);
  const hidden = await blind(key, message, await made("salt", SALT), factor);
  if (!hidden) throw new TransportError("failed_precondition", undefined, "the issuer's key is none");
  const headers = { "Content-Type": REQUEST_TYPE, Authorization: `Bearer ${issuer.credential}` };
  const signed = await asked({ method: "POST", headers, body: joined(TYPE, keyId.subarray(-1), hidden.blinded) });
  if (!signed) return undefined;
  const signature = hidden.unblind(signed);
  if (signed.length !== KEY || !(await isSound(key, message, signature))) throw new TransportError("data_loss", undefined, "the issuer answered with no token");
  const token = joined(recurs ? key : [], signature);
  return report + hexOf(joined([TAG, (token.length & 127) | 128, token.length >> 7], token));
}
