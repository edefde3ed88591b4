/** Readings: values that are read, and perturbed, once in a stretch of time. */
import { ParameterError } from "./errors.js";
import { floorDiv } from "./exact/rational.js";
import { saturated } from "./exact/release.js";

/** The name of strata that devices fill in themselves, by when in an epoch they read. */
export const COHORT = "reading";
const MINUTE_US = 60_000_000n;
export const DAY_US = 86_400_000_000n;

/** A campaign's wish that a device reads its value once in so long, and answers from that. */
export class Readings {
  constructor(
    /** How long an epoch is, in microseconds. */
    readonly everyUs: bigint,
    /** Whether an answer is moved on by what changed since the reading before. */
    readonly extrapolated: boolean,
  ) {
    if (everyUs < MINUTE_US || everyUs > 3660n * DAY_US) {
      throw new ParameterError("readings.every", everyUs, "a minute to ten years, in microseconds");
    }
  }

  /** How many epochs a stretch of time touches, at most. */
  most(lengthUs: bigint): bigint {
    return 1n - floorDiv(-lengthUs, this.everyUs);
  }

  toString(): string {
    const carried = this.extrapolated ? "; what changed since the last reading is carried on" : "";
    return (
      `Your value is read once in ${inDays(this.everyUs)} days, at a time that your device draws, and` +
      ` perturbed once for all reports in between${carried}.`
    );
  }
}

/** A length in days, to six digits. */
export function inDays(us: bigint): number {
  return Number((Number(us) / Number(DAY_US)).toPrecision(6));
}

/** latest + (age/gap)(latest − before), halves upwards, age/gap brought into [0, 1], within 64 bits. */
export function movedOn(latest: bigint, before: bigint, ageUs: bigint, gapUs: bigint): bigint {
  const age = ageUs < 0n ? 0n : ageUs > gapUs ? gapUs : ageUs;
  return saturated(latest + floorDiv(2n * age * (latest - before) + gapUs, 2n * gapUs));
}
