/**
 * Calls through a relay: sealed for a gateway (RFC 9458), as HTTP in bytes (RFC 9292).
 *
 * It is loaded for relays only, and imports nothing but HPKE, so that it is a separate file. Messages are those of
 * Python (`geoveil.relay`), which proto/vectors/relay.json holds both to.
 */
import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import type { Call, Tools } from "./through.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** Bytes of a message in transit, requests and answers alike. */
export const SIZES = [1 << 10, 4 << 10] as const;
const SIGNED = "geoveil-signed";
const [REQUEST_TYPE, KEYS_TYPE] = ["message/ohttp-req", "application/ohttp-keys"];
const COLLECTOR = "/geoveil.proto.v1.Collector/";
/** X25519 with HKDF-SHA256; HKDF-SHA256; AES-128-GCM. */
const [KEM, KDF, AEAD] = [0x20, 1, 1] as const;
const [PUBLIC, HEADER, SALT, TAG] = [32, 7, 16, 16] as const;
const OVERHEAD = HEADER + PUBLIC + TAG;
const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
/** The meaning of a relay's status; after any other, a later try may succeed. */
const OF_RELAY: Partial<Record<number, string>> = { 403: "permission_denied", 404: "unimplemented", 405: "unimplemented", 413: "unimplemented", 415: "unimplemented" };

/** A message through a relay is invalid; the error quotes none of it. */
export class MessageInvalid extends Error {}

/** The gateway no longer has the key for which a request was sealed. */
class OldKey extends Error {}

const text = (content: string): Bytes => new TextEncoder().encode(content) as Bytes;
const joined = (...parts: readonly Uint8Array[]): Bytes => Uint8Array.from(parts.flatMap((part) => [...part]));
const of16 = (...numbers: readonly number[]): Bytes => Uint8Array.from(numbers.flatMap((x) => [x >> 8, x & 255]));
const of64 = (x: bigint): Bytes => new Uint8Array(new BigUint64Array([x]).buffer).reverse();

/** An integer of QUIC (RFC 9000, 16): the first two bits say how many bytes hold the rest. */
function integer(value: number): Bytes {
  if (value < 1 << 6) return Uint8Array.of(value);
  return value < 1 << 14 ? of16(value | (1 << 14)) : of16((value >>> 16) | (2 << 14), value & 0xffff);
}

const sized = (data: Uint8Array): Bytes => joined(integer(data.length), data);

/** The bytes of a call. */
export function writeRequest(method: string, content: Uint8Array): Bytes {
  const control = ["POST", "https", "", COLLECTOR + method].map((part) => sized(text(part)));
  const fields = joined(sized(text("content-type")), sized(text("application/proto")));
  return joined(Uint8Array.of(0), ...control, sized(fields), sized(content), Uint8Array.of(0));
}

/** Status and content of the final response at the start of some bytes; its fields are ignored. */
export function readResponse(data: Uint8Array): { readonly status: number; readonly content: Uint8Array } {
  let at = 0;
  const take = (size: number): Uint8Array => {
    if (at + size > data.length) throw new MessageInvalid("it ends too early");
    return data.subarray(at, (at += size));
  };
  const number = (): number => {
    const [first, ...others] = take(1 << ((data[at] ?? 0) >> 6));
    return others.reduce((sum, byte) => sum * 256 + byte, (first ?? 0) & 63);
  };
  const bytes = (): Uint8Array => take(number());
  const form = number();
  if (form !== 1 && form !== 3) throw new MessageInvalid("it is of the wrong kind");
  const indeterminate = form === 3;
  const fields = (): void => {
    const end = indeterminate ? Infinity : number() + at;
    while (at !== end) {
      if (!bytes().length) {
        if (indeterminate) return;
        throw new MessageInvalid("a field has no name");
      }
      bytes();
      if (at > end) throw new MessageInvalid("a field is longer than its section");
    }
  };
  let status: number;
  while ((status = number()) >= 100 && status < 200) fields();
  if (!(status >= 200 && status < 600)) throw new MessageInvalid("its status is not one of HTTP");
  const ended = (): boolean => at === data.length;
  if (!ended()) fields();
  let content = ended() ? data.subarray(at) : bytes();
  while (indeterminate && content.length && !ended()) {
    const more = bytes();
    if (!more.length) break;
    content = joined(content, more);
  }
  if (!ended()) fields();
  if (data.subarray(at).some(Boolean)) throw new MessageInvalid("more than padding follows it");
  return { status, content };
}

/** The message padded with zeros so that, once sealed, it has one of the two sizes, and at least `least` bytes. */
export function padded(message: Uint8Array, least: number): Bytes {
  const size = SIZES.find((one) => one >= least && message.length <= one - OVERHEAD);
  if (!size) throw new MessageInvalid(`a request has more than ${SIZES[1] - OVERHEAD} bytes, the most that a relay carries`);
  return joined(message, new Uint8Array(size - OVERHEAD - message.length));
}

/**
 * A message sealed for a gateway, and a function that opens its answer. `ephemeral`: a key for this
 * message alone, for test vectors.
 */
export async function sealRequest(keyId: number, key: Uint8Array, message: Uint8Array, ephemeral?: CryptoKeyPair): Promise<{ sealed: Bytes; opened: (answer: Uint8Array) => Promise<Bytes> }> {
  const header = joined(Uint8Array.of(keyId), of16(KEM, KDF, AEAD));
  const context = await suite.createSenderContext({
    recipientPublicKey: await suite.kem.deserializePublicKey(key),
    info: joined(text("message/bhttp request\0"), header),
    ...(ephemeral && { ekm: ephemeral }),
  });
  const encapsulated = new Uint8Array(context.enc);
  const sealed = joined(header, encapsulated, new Uint8Array(await context.seal(message)));
  const opened = async (answer: Uint8Array): Promise<Bytes> => {
    const secret = await context.export(text("message/bhttp response"), 16);
    const made = await crypto.subtle.importKey("raw", secret, "HKDF", false, ["deriveBits"]);
    const salt = joined(encapsulated, answer.subarray(0, SALT));
    const [aes, iv] = await Promise.all(
      ([["key", 128], ["nonce", 96]] as const).map(([info, bits]) => crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info: text(info) }, made, bits)),
    );
    const cipher = await crypto.subtle.importKey("raw", aes!, "AES-GCM", false, ["decrypt"]);
    return await crypto.subtle.decrypt({ name: "AES-GCM", iv: iv! }, cipher, joined(answer.subarray(SALT))).then(
      (content) => new Uint8Array(content),
      () => Promise.reject(new MessageInvalid("it was not sealed in answer to this request")),
    );
  };
  return { sealed, opened };
}

/** A gateway's key, as its operator signed it. */
export interface PublishedKey {
  readonly serial: bigint;
  /** Seconds since 1970. */
  readonly expires: bigint;
  readonly keyId: number;
  readonly key: Uint8Array;
}

/**
 * The key that a gateway publishes.
 *
 * @param content - application/ohttp-keys.
 * @param signed - the header that came with it.
 * @param nowMs - since 1970.
 */
export async function readKey({ verified }: Pick<Tools, "verified">, content: Uint8Array, signed: string, operator: { readonly bytes: Uint8Array }, nowMs: number): Promise<PublishedKey> {
  const [, first, last, signature] = /^(\d{1,18}) (\d{1,18}) ([A-Za-z0-9+/]{86}==)$/.exec(signed) ?? [];
  const [keyId, key] = [content[2] ?? 0, content.subarray(5, 5 + PUBLIC)];
  if (!signature || content.length !== 11 + PUBLIC) throw new MessageInvalid("it is not a signed key of a gateway");
  const [serial, expires] = [BigInt(first!), BigInt(last!)];
  const expected = joined(of16(content.length - 2), Uint8Array.of(keyId), of16(KEM), key, of16(4, KDF, AEAD));
  const statement = joined(text("geoveil relay key v1\n"), of64(serial), of64(expires), content);
  const bytes = Uint8Array.from(atob(signature), (c) => c.charCodeAt(0));
  const sound = expected.every((byte, i) => byte === content[i]) && BigInt(keyId) === serial % 256n;
  if (!sound || !(await verified(bytes, statement, operator.bytes))) throw new MessageInvalid(`the gateway's key is not signed by ${operator}`);
  if (Number(expires) * 1000 <= nowMs) throw new MessageInvalid("the gateway's key has expired, or this clock is wrong");
  return { serial, expires, keyId, key };
}

/** Calls of a collector through a relay at a URL, to an operator's gateway. */
export function relayed(tools: Tools, url: string, operator: { readonly bytes: Uint8Array }, nowMs: () => number): Call {
  const { exchanged, failure, TransportError, UnsupportedError } = tools;
  let kept: PublishedKey | undefined;
  let newest = 0n;

  async function asked(content: Bytes | undefined, end: number): Promise<{ headers: Headers; body: Uint8Array }> {
    const init = content ? { method: "POST", headers: { "Content-Type": REQUEST_TYPE! }, body: content } : { method: "GET", headers: { Accept: KEYS_TYPE! } };
    const { status, headers, body } = await exchanged(url, init, end - performance.now());
    if (status === 200) return { headers, body };
    if (status === 400 && new TextDecoder().decode(body).includes("#ohttp-key")) throw new OldKey();
    const after = headers.get("Retry-After") ?? "";
    throw new TransportError(OF_RELAY[status] ?? "unavailable", /^\d{1,9}$/.test(after) ? Number(after) * 1000 : undefined, `the relay answered with status ${status}`);
  }

  async function answered(message: Uint8Array, end: number): Promise<Uint8Array> {
    if (!kept || Number(kept.expires) * 1000 <= nowMs()) {
      const { headers, body } = await asked(undefined, end);
      const fresh = await readKey(tools, body, headers.get(SIGNED) ?? "", operator, nowMs());
      if (fresh.serial < newest) throw new MessageInvalid("the gateway's key is older than an earlier one");
      [kept, newest] = [fresh, fresh.serial];
    }
    const { sealed, opened } = await sealRequest(kept.keyId, kept.key, message).catch(() => {
      throw new UnsupportedError("nothing can be sealed for a relay here: Chrome from 133, Firefox from 130, Safari from 17 and Node know X25519");
    });
    const { body } = await asked(sealed, end);
    if (body.length !== sealed.length) throw new MessageInvalid("the answer differs in size from its request");
    const { status, content } = readResponse(await opened(body));
    if (status !== 200) throw failure(status, content);
    return content;
  }

  return async (method, content, timeoutMs) => {
    const end = performance.now() + timeoutMs;
    // The larger size for a campaign, because the answer is longer than the request.
    const least = method === "GetCampaign" ? SIZES[1] : SIZES[0];
    try {
      const message = padded(writeRequest(method, content), least);
      return await answered(message, end).catch((error: unknown) => {
        if (!(error instanceof OldKey)) throw error;
        kept = undefined;
        return answered(message, end);
      });
    } catch (error) {
      if (error instanceof OldKey) throw new TransportError("unavailable", undefined, "the gateway uses a key other than the one it publishes");
      throw error instanceof MessageInvalid ? new TransportError("data_loss", undefined, error.message) : error;
    }
  };
}
