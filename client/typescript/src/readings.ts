/** Readings: values that are read, and perturbed, once in a stretch of time. */
import { ParameterError } from "./errors.js";
import { floorDiv } from "./exact/rational.js";
import { saturated } from "./exact/release.js";
import { say } from "./words.js";

/** The most parts of an epoch in which devices tell that theirs begin. */
export const MOST_COHORTS = 16;
const MINUTE_US = 60_000_000n;
export const DAY_US = 86_400_000_000n;

/** A campaign's wish that a device reads its value once in so long, and answers from that. */
export class Readings {
  constructor(
    /** How long an epoch is, in microseconds. */
    readonly everyUs: bigint,
    /** Whether an answer is moved on by what changed since the reading before. */
    readonly extrapolated: boolean,
    /** In how many parts of an epoch a device tells that its epochs begin; 0: it does not. */
    readonly cohorts: number,
  ) {
    if (cohorts === 1 || cohorts > MOST_COHORTS) {
      throw new ParameterError("readings.cohorts", cohorts, `0, or 2 to ${MOST_COHORTS}`);
    }
    if (everyUs < MINUTE_US || everyUs > 3660n * DAY_US) {
      throw new ParameterError("readings.every", everyUs, "a minute to ten years");
    }
  }

  /** How many epochs a stretch of time touches, at most. */
  most(lengthUs: bigint): bigint {
    return 1n - floorDiv(-lengthUs, this.everyUs);
  }

  toString(): string {
    return say("readings", { days: inDays(this.everyUs), moved: this.extrapolated ? say("readings.moved") : "" });
  }

  /** What to tell people whose device tells in which part of an epoch it begins. */
  get telling(): string {
    return say("readings.cohorts", { cohorts: this.cohorts, days: inDays(this.everyUs), others: this.cohorts - 1 });
  }

  /** In which part an epoch began, from 0: counted from 1970 on, for all campaigns alike. */
  cohort(beginsUs: bigint): number {
    const since = beginsUs - floorDiv(beginsUs, this.everyUs) * this.everyUs;
    return Number((BigInt(this.cohorts) * since) / this.everyUs);
  }
}

/** A length in days, or in another unit, to six digits, not above it: what is said of any so long stretch must hold. */
export function lengthIn(us: bigint, unitUs = DAY_US): number {
  const places = 5 - Math.floor(Math.log10(Number(us) / Number(unitUs)));
  return Number((us * 10n ** BigInt(places)) / unitUs) / 10 ** places;
}

function inDays(us: bigint): string {
  return say("days", { n: lengthIn(us) });
}

/** latest + (age/gap)(latest − before), halves upwards, age/gap brought into [0, 1], within 64 bits. */
export function movedOn(latest: bigint, before: bigint, ageUs: bigint, gapUs: bigint): bigint {
  const age = ageUs < 0n ? 0n : ageUs > gapUs ? gapUs : ageUs;
  return saturated(latest + floorDiv(2n * age * (latest - before) + gapUs, 2n * gapUs));
}
