/** Readings: values that are read, and perturbed, once in a stretch of time. */
import { ParameterError } from "./errors.js";
import { floorDiv } from "./exact/rational.js";
import { saturated } from "./exact/release.js";
import { say } from "./words.js";

/** The most cohorts that devices report. */
export const MOST_COHORTS = 16;
const MINUTE_US = 60_000_000n;
export const DAY_US = 86_400_000_000n;

/** A campaign's request that a device reads its value once per epoch, and answers from that. */
export class Readings {
  constructor(
    /** How long an epoch is, in microseconds. */
    readonly everyUs: bigint,
    /** Whether an answer is extrapolated by the change since the reading before. */
    readonly extrapolated: boolean,
    /** The number of parts of an epoch; devices tell in which their epochs begin; 0: they don't. */
    readonly cohorts: number,
  ) {
    if (cohorts === 1 || cohorts > MOST_COHORTS) {
      throw new ParameterError("readings.cohorts", cohorts, `0, or 2 to ${MOST_COHORTS}`);
    }
    if (everyUs < MINUTE_US || everyUs > 3660n * DAY_US) {
      throw new ParameterError("readings.every", everyUs, "a minute to ten years");
    }
  }

  /** The most epochs that a stretch of time touches. */
  most(lengthUs: bigint): bigint {
    return 1n - floorDiv(-lengthUs, this.everyUs);
  }

  toString(): string {
    return say("readings", { days: inDays(this.everyUs), moved: this.extrapolated ? say("readings.moved") : "" });
  }

  /** What to tell people whose device reveals in which part of an epoch its own begin. */
  get telling(): string {
    return say("readings.cohorts", { cohorts: this.cohorts, days: inDays(this.everyUs), others: this.cohorts - 1 });
  }

  /** The part in which an epoch began, from 0, counted from 1970 for all campaigns alike. */
  cohort(beginsUs: bigint): number {
    const since = beginsUs - floorDiv(beginsUs, this.everyUs) * this.everyUs;
    return Number((BigInt(this.cohorts) * since) / this.everyUs);
  }
}

/** A length in days, rounded down to six digits, so that a statement about any stretch of that length holds. */
export function lengthIn(us: bigint): number {
  const places = 5 - Math.floor(Math.log10(Number(us) / Number(DAY_US)));
  return Number((us * 10n ** BigInt(places)) / DAY_US) / 10 ** places;
}

/** The same in words. */
export function inDays(us: bigint): string {
  return say("days", { n: lengthIn(us) });
}

/** latest + (age/gap)(latest − before), halves upwards, age/gap brought into [0, 1], within 64 bits. */
export function movedOn(latest: bigint, before: bigint, ageUs: bigint, gapUs: bigint): bigint {
  const age = ageUs < 0n ? 0n : ageUs > gapUs ? gapUs : ageUs;
  return saturated(latest + floorDiv(2n * age * (latest - before) + gapUs, 2n * gapUs));
}
