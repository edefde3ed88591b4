/** Calls through a relay, so that nobody who sees an answer sees an address: loaded only when needed. */
import { type PublicKey, verified } from "./envelope.js";
import { UnsupportedError } from "./errors.js";
import { type Call, calling, exchanged, failure, safe, type Transport, TransportError } from "./transport.js";

const tools = { exchanged, failure, TransportError, UnsupportedError, verified };
export type Tools = typeof tools;
export type { Call };

let code: typeof import("./relay.js") | undefined;

/**
 * The transport to an operator's gateway through a relay, which sees addresses but no content.
 *
 * @param relay - its https address.
 * @param operator - the gateway's operator: keys without this signature are refused.
 * @param now - the date, in milliseconds since 1970.
 */
export function transportThrough(relay: string, operator: PublicKey, now: () => number = Date.now): Transport {
  const url = safe("relay", relay);
  let call: Call | undefined;
  const transport = calling(async (...asked) => {
    code ??= await import("./relay.js").catch(() => {
      throw new TransportError("unavailable", undefined, "the code for relays can't be loaded");
    });
    call ??= code.relayed(tools, url, operator, now);
    return await call(...asked);
  });
  return { ...transport, operator, browse: () => Promise.reject(new UnsupportedError("no list of campaigns comes through a relay: name one")) };
}
