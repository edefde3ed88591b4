/** Envelopes: a campaign's bytes and their signature. */
import { parse } from "./campaign.js";
import { isCanonical } from "./canonical.js";
import { GeoveilError, ParameterError, UnsupportedError } from "./errors.js";
import { CampaignEnvelopeSchema } from "./gen/geoveil/proto/v1/campaign_pb.js";

const MOST_BYTES = (1 << 20) + 256;
const CONTEXT = new TextEncoder().encode("geoveil campaign v1\n");
// Points of order 1, 2, 4 and 8, by y: anybody can sign for such a key.
const SMALL_ORDER = new Set([
  "00".repeat(32),
  `01${"00".repeat(31)}`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  `ec${"ff".repeat(30)}7f`,
  `ed${"ff".repeat(30)}7f`,
  `ee${"ff".repeat(30)}7f`,
]);

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes that hexadecimal digits stand for; undefined if the text is not hexadecimal. */
export function unhex(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (text.length % 2 || !/^[0-9a-fA-F]*$/.test(text)) return undefined;
  return Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

/** An Ed25519 public key: names an analyst whom an app may trust. */
export class PublicKey {
  private constructor(readonly bytes: Uint8Array) {}

  static of(bytes: Uint8Array): PublicKey {
    if (bytes.length !== 32) throw new ParameterError("public key", bytes.length, "32 bytes");
    const y = Uint8Array.from(bytes);
    y[31]! &= 0x7f;
    if (SMALL_ORDER.has(hex(y))) throw new ParameterError("public key", hex(bytes), "a key that somebody can own");
    return new PublicKey(Uint8Array.from(bytes));
  }

  /** The key that `toString` wrote: "ed25519:" and 64 hexadecimal digits. */
  static parse(text: string): PublicKey {
    const bytes = typeof text === "string" && text.startsWith("ed25519:") ? unhex(text.slice(8)) : undefined;
    if (bytes?.length !== 32) throw new ParameterError("public key", text, "'ed25519:' and 64 hexadecimal digits");
    return PublicKey.of(bytes);
  }

  toString(): string {
    return `ed25519:${hex(this.bytes)}`;
  }
}

export interface Opened {
  /** The campaign's bytes, as they were published. */
  readonly campaign: Uint8Array;
  /** The key of their valid signature; undefined: unsigned. */
  readonly signer: PublicKey | undefined;
}

/** Open an envelope and verify its signature. `Campaign` checks whether the campaign is sound. */
export async function openEnvelope(published: Uint8Array): Promise<Opened> {
  if (published.length > MOST_BYTES) {
    throw new ParameterError("size of the envelope", published.length, `at most ${MOST_BYTES} bytes`);
  }
  const { campaign, signature } = parse(CampaignEnvelopeSchema, published, "envelope");
  if (!isCanonical(CampaignEnvelopeSchema, published)) {
    throw new UnsupportedError("the envelope has fields that this version does not know, or is not in canonical form");
  }
  if (!signature) return { campaign, signer: undefined };
  if (signature.publicKey.length !== 32 || signature.signature.length !== 64) {
    throw invalid("its key or signature has the wrong length");
  }
  let key: PublicKey;
  try {
    key = PublicKey.of(signature.publicKey);
  } catch {
    throw invalid("its key is one that anybody can sign for");
  }
  const message = new Uint8Array(CONTEXT.length + campaign.length);
  message.set(CONTEXT);
  message.set(campaign, CONTEXT.length);
  if (!(await verified(signature.signature, message, key.bytes))) throw invalid(`it was not made by ${key} for these bytes`);
  return { campaign, signer: key };
}

/**
 * By the platform or, if it fails in any way, by a library that is loaded then: a failure says nothing
 * about a signature.
 */
export async function verified(signature: Uint8Array, message: Uint8Array, key: Uint8Array): Promise<boolean> {
  const [s, m, k] = [signature, message, key] as Uint8Array<ArrayBuffer>[];
  try {
    return await crypto.subtle.verify("Ed25519", await crypto.subtle.importKey("raw", k!, "Ed25519", false, ["verify"]), s!, m!);
  } catch {
    // The platform may not know the curve, or how to import its keys.
  }
  const { ed25519 } = await import("@noble/curves/ed25519.js").catch(() => {
    throw new UnsupportedError("this browser does not check signatures of Ed25519, and the code that does can't be loaded");
  });
  const { Point } = ed25519;
  const [r, scalar] = [signature.subarray(0, 32), littleEndian(signature.subarray(32))];
  const hashed = new Uint8Array(await crypto.subtle.digest("SHA-512", new Uint8Array([...r, ...key, ...message])));
  try {
    // The equation without a cofactor, as on platforms; the library's own has one.
    if (scalar >= Point.CURVE().n) return false;
    const hA = Point.fromBytes(key).multiplyUnsafe(littleEndian(hashed) % Point.CURVE().n);
    return hex(Point.BASE.multiplyUnsafe(scalar).subtract(hA).toBytes()) === hex(r);
  } catch {
    return false;
  }
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${hex(Uint8Array.from(bytes).reverse())}`);
}

function invalid(reason: string): GeoveilError {
  return new GeoveilError("signature-invalid", `the signature of the campaign is not valid: ${reason}`);
}

