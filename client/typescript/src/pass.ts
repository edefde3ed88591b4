/** Gets the one token that a person has for a campaign: loaded only when needed. */
import { messageOf } from "./campaign.js";
import { ParameterError } from "./errors.js";
import { fromReport } from "./report.js";
import type { Entry } from "./storage.js";
import { exchanged, safe, TransportError } from "./transport.js";

const tools = { exchanged, fromReport, messageOf, TransportError };
export type Tools = typeof tools;

/** Gives each person one token. */
export interface Issuer {
  /** Its https address. */
  readonly url: string;
  /** The person's credential, such as an invitation code. */
  readonly credential: string;
}

export function requireIssuer({ url, credential }: Issuer): void {
  safe("issuer", url);
  if (typeof credential !== "string" || !/^[!-~]+$/.test(credential)) throw new ParameterError("credential", "(not shown)", "printable characters of ASCII");
}

let code: typeof import("./tokens.js") | undefined;

/**
 * The bytes of a report with its token, in hexadecimal; undefined if the issuer gave this person one for
 * another report.
 */
export async function completed(campaign: Uint8Array, entry: Entry, issuer: Issuer, timeoutMs: number): Promise<string | undefined> {
  code ??= await import("./tokens.js").catch(() => {
    throw new TransportError("aborted", undefined, "the code for tokens can't be loaded");
  });
  return await code.completed(tools, campaign, entry, issuer, timeoutMs);
}
