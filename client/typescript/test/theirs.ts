/** A token by @cloudflare/privacypass-ts in place of a device: the argument is what `Wanted` says, in JSON; prints the token in hexadecimal. */
import { publicVerif, TokenChallenge, util } from "@cloudflare/privacypass-ts";
import { createHash } from "node:crypto";
import { hex, unhex } from "../src/envelope.js";

interface Wanted {
  /** Where the issuer answers for the key. */
  readonly url: string;
  readonly credential: string;
  /** The key as SubjectPublicKeyInfo, and the campaign's bytes and a report's id, in hexadecimal. */
  readonly key: string;
  readonly campaignId: string;
  readonly campaign: string;
  readonly reportId: string;
}

const { url, credential, key, campaignId, campaign, reportId } = JSON.parse(process.argv[2]!) as Wanted;
const sha256 = (...parts: (string | Uint8Array)[]): Uint8Array<ArrayBuffer> => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return Uint8Array.from(hash.digest());
};
const client = new publicVerif.Client(publicVerif.BlindRSAMode.PSS);
const challenge = new TokenChallenge(2, "geoveil", sha256(unhex(campaign)!), [campaignId]);
// The nonce, which the library draws first, binds a token to its report.
const draw = crypto.getRandomValues.bind(crypto);
crypto.getRandomValues = (<T extends NodeJS.TypedArray>(array: T): T => {
  crypto.getRandomValues = draw;
  (array as unknown as Uint8Array).set(sha256("geoveil report v1\n", unhex(reportId)!));
  return array;
}) as typeof draw;
const spki = unhex(key)!;
util.convertRSASSAPSSToEnc(spki); // refuses what is no such key
const request = await client.createTokenRequest(challenge, spki);
const headers = { "Content-Type": "application/private-token-request", Authorization: `Bearer ${credential}` };
const answer = await fetch(url, { method: "POST", headers, body: request.serialize() as Uint8Array<ArrayBuffer> });
const token = await client.finalize(client.deserializeTokenResponse(new Uint8Array(await answer.arrayBuffer())));
console.log(hex(token.authenticator));
