/** Which calls wait after a failure, and until when: those of a campaign, or all calls to the server. */
import { systemSource } from "./exact/bits.js";
import type { TransportError } from "./transport.js";

/** Stands for every campaign; no campaign has this id. */
const SERVER = "";

interface PutOff {
  readonly untilMs: number;
  readonly boundMs: number;
}

/** A uniform number in [0, 1). */
function jitter(): number {
  return Number(systemSource.bits(53)) / 2 ** 53;
}

/** Milliseconds to wait before another try: a random share of a bound, plus what the server asks for. */
export function pauseMs(error: TransportError, boundMs: number): number {
  return jitter() * boundMs + (error.retryAfterMs ?? 0) * (1 + jitter());
}

export class Backoff {
  readonly #putOff = new Map<string, PutOff>();

  /**
   * @param firstMs - the longest first pause; each later bound is twice the one before.
   * @param longestMs - the longest pause of all.
   * @param hopelessMs - the wait after a failure that no retry can fix.
   */
  constructor(
    readonly firstMs: number,
    readonly longestMs: number,
    readonly hopelessMs: number,
  ) {}

  failed(campaignId: string, error: TransportError): void {
    const key = error.ofServer ? SERVER : campaignId;
    const boundMs = Math.min(2 * (this.#putOff.get(key)?.boundMs ?? this.firstMs / 2), this.longestMs);
    const wait = error.retryable ? pauseMs(error, boundMs) : this.hopelessMs;
    this.#putOff.set(key, { untilMs: performance.now() + wait, boundMs });
  }

  /** Forget the failures of a campaign and of the server, which has answered. */
  succeeded(campaignId: string): void {
    this.#putOff.delete(campaignId);
    this.#putOff.delete(SERVER);
  }

  /** Whether a campaign and the server may be tried now; without a campaign, the server alone. */
  ready(campaignId = SERVER): boolean {
    const now = performance.now();
    return [campaignId, SERVER].every((key) => (this.#putOff.get(key)?.untilMs ?? now) <= now);
  }

  /** Forget all but the server and some campaigns: nothing waits for the others any more. */
  retain(campaignIds: ReadonlySet<string>): void {
    for (const key of this.#putOff.keys()) if (key !== SERVER && !campaignIds.has(key)) this.#putOff.delete(key);
  }

  /** Milliseconds until something may be tried again; undefined if nothing waits. */
  waitMs(): number | undefined {
    // While the server must wait, a campaign that need not wait makes no difference.
    const serverReady = this.ready();
    const until = [...this.#putOff].filter(([key]) => (key === SERVER) !== serverReady).map(([, { untilMs }]) => untilMs);
    if (until.length) return Math.max(Math.min(...until) - performance.now(), 0);
    return this.#putOff.has(SERVER) ? 0 : undefined; // a pause that is over is no reason to give up
  }
}
