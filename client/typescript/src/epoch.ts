/** Epochs: a value is read and perturbed once in a stretch of time, and all its reports are made from that. */
import type { Before, Campaign, Drawn } from "./campaign.js";
import { below, type BitSource } from "./exact/bits.js";
import { floorDiv } from "./exact/rational.js";
import { AnswerNotYet } from "./errors.js";
import { coarsen } from "./gp/nested.js";
import { exactRate, type Privacy } from "./gp/mechanism.js";
import type { Kept } from "./ledger.js";
import { kindOf, type Limit, refused, words } from "./policy.js";
import type { Entry } from "./storage.js";

/** One perturbed value. It was released like a report, and contains neither the value nor its noise. */
export interface Reading {
  readonly beginsUs: bigint;
  readonly endsUs: bigint;
  readonly privacy: Privacy;
  /** On the grid of `Campaign.reader`. */
  readonly point: readonly bigint[];
  readonly drawnUs: bigint;
}

/** A reading made as coarse as a campaign asks, once per epoch. */
export interface CampaignPoint {
  readonly reading: Reading;
  /** On the grid of `Campaign.pointMechanism`. */
  readonly point: readonly bigint[];
}

/** A report, its cost, and what else to store with it. */
export interface Made {
  readonly drawn: Drawn;
  readonly privacy: Privacy;
  readonly kept: Pick<Entry, "epochUs" | "beforeUs" | "reading" | "points">;
}

/** What a campaign has once per epoch: the readings that answer it, and its points made from them. */
export class Epochs {
  readonly readings: readonly Reading[];
  readonly #points: CampaignPoint[];
  readonly #current: Reading | undefined;

  private constructor(
    readonly campaign: Campaign,
    /** What a reading costs. */
    readonly privacy: Privacy,
    readonly lengthUs: bigint,
    readonly space: string,
    entries: readonly Entry[],
    readonly nowUs: bigint,
  ) {
    const { name, unit } = campaign.attribute;
    const found: Reading[] = [];
    for (const { charges, reading, drawnUs } of entries) {
      if (!reading || !charges.some((one) => one.attribute === name && one.unit === unit) || reading.space !== space) continue;
      const { beginsUs, endsUs, epsilon, per, point } = reading;
      const times = { beginsUs: BigInt(beginsUs), endsUs: BigInt(endsUs), drawnUs: BigInt(drawnUs) };
      found.push({ ...times, privacy: { epsilon, per }, point: point.map(BigInt) });
    }
    this.readings = found.sort((a, b) => (a.beginsUs < b.beginsUs ? -1 : 1));
    this.#points = entries
      .filter(({ campaignId }) => campaignId === campaign.id)
      .flatMap(({ points }) => points ?? [])
      .flatMap(({ space: of, beginsUs, point }) => {
        const reading = found.find((one) => of === space && one.beginsUs === BigInt(beginsUs));
        return reading ? [{ reading, point: point.map(BigInt) }] : [];
      });
    this.#current = this.readings.findLast(({ beginsUs, endsUs }) => beginsUs <= nowUs && nowUs < endsUs);
  }

  /** Those of a permitted campaign; undefined: every report has its own noise. */
  static of(campaign: Campaign, limit: Limit, entries: readonly Entry[], nowUs: bigint): Epochs | undefined {
    const { readings, answerPrivacy, id } = campaign;
    const { epoch } = limit;
    if (!campaign.nests) return undefined;
    const { scale } = campaign.attribute;
    const kind = JSON.stringify(kindOf(campaign)) + (scale?.floor ?? "");
    if (epoch) return new Epochs(campaign, epoch.privacy, BigInt(Math.round(epoch.lengthMs * 1000)), kind, entries, nowUs);
    // At its own request: no campaign decides how coarse, or how old, another's answers are.
    return readings && new Epochs(campaign, answerPrivacy, readings.everyUs, `${kind} for ${id}`, entries, nowUs);
  }

  /** The cost of a reading yet to be made; undefined: there is one already. */
  get asked(): Privacy | undefined {
    return this.#current ? undefined : this.privacy;
  }

  /** The readings from which a report is made. */
  get kept(): Kept[] {
    return [this.#current, this.#before(this.#current)]
      .filter((one) => one !== undefined)
      .map((one) => ({ privacy: one.privacy, reading: keyOf(this.space, one.beginsUs), used: this.#pointOf(one) !== undefined }));
  }

  /** Make a report; it reads the value only if the epoch has no reading. */
  report(pointOf: () => readonly number[], source: BitSource): Made {
    const { campaign, nowUs, space } = this;
    const latest = this.#current ?? this.#read(pointOf, source);
    const before = this.#before(latest);
    const found = (before ? [latest, before] : [latest]).map((one) => this.#pointOf(one) ?? coarser(campaign, one, source));
    const drawn = answered(campaign, found[0]!, found[1], nowUs, source);
    const points = found
      .filter(({ reading }) => !this.#pointOf(reading))
      .map(({ reading, point }) => ({ ...reading.privacy, space, beginsUs: `${reading.beginsUs}`, point: point.map(String) }));
    const { privacy, beginsUs, endsUs, point } = latest;
    const reading = { ...privacy, space, beginsUs: `${beginsUs}`, endsUs: `${endsUs}`, point: point.map(String) };
    const began = { epochUs: `${beginsUs}`, ...(before && { beforeUs: `${before.beginsUs}` }) };
    return { drawn, privacy, kept: { ...began, ...(!this.#current && { reading }), points } };
  }

  /**
   * The earlier reading from which an answer is extrapolated: at least as long before the latest as that
   * is before now. Undefined: the latest is from now, or is being made. Refused if there is none.
   */
  #before(latest: Reading | undefined): Reading | undefined {
    const { campaign, nowUs } = this;
    if (!campaign.readings?.extrapolated || !latest || nowUs <= latest.drawnUs) return undefined;
    const mostUs = 2n * latest.drawnUs - nowUs;
    const found = this.readings
      .filter((one) => one.drawnUs <= mostUs && serves(one, campaign))
      .reduce<Reading | undefined>((last, one) => (last && last.drawnUs >= one.drawnUs ? last : one), undefined);
    if (!found) throw new AnswerNotYet(campaign.id, latest.endsUs);
    return found;
  }

  #pointOf(reading: Reading): CampaignPoint | undefined {
    return this.#points.find((one) => one.reading === reading);
  }

  /** Perturb the value, once for all campaigns of the epoch; the start of the first epoch is random. */
  #read(pointOf: () => readonly number[], source: BitSource): Reading {
    const { campaign, privacy, lengthUs, nowUs } = this;
    const last = this.readings.at(-1)?.endsUs;
    let beginsUs = last === undefined ? nowUs - below(source, lengthUs) : last + floorDiv(nowUs - last, lengthUs) * lengthUs;
    const endsUs = beginsUs + lengthUs;
    // The length may have been different.
    for (const one of this.readings) if (one.endsUs <= nowUs && one.endsUs > beginsUs) beginsUs = one.endsUs;
    const point = campaign.reader(privacy).release(pointOf(), source);
    return { beginsUs, endsUs, privacy, point, drawnUs: nowUs };
  }
}

/** What distinguishes a reading from the others of its attribute. */
export function keyOf(space: string, beginsUs: bigint | string): string {
  return `${space} ${beginsUs}`;
}

/** Whether a reading is as fine as a campaign asks. */
function serves({ privacy }: Reading, { answerPrivacy }: Campaign): boolean {
  return exactRate(answerPrivacy).compare(exactRate(privacy)) <= 0;
}

/** The campaign's point of an epoch: each call draws a new one, and only one may be used. */
export function coarser(campaign: Campaign, reading: Reading, source: BitSource): CampaignPoint {
  if (!serves(reading, campaign)) {
    const { id, answerPrivacy, attribute } = campaign;
    const until = new Date(Number(reading.endsUs / 1000n)).toISOString();
    const most = `at most ${words(reading.privacy, attribute.unit)} until ${until}`;
    throw refused(id, "privacy loss in an epoch", words(answerPrivacy, attribute.unit), most);
  }
  return { reading, point: coarsen(reading.point, campaign.reader(reading.privacy), campaign.pointMechanism, source) };
}

/** A report made from the campaign's points: of the epoch and, to extrapolate, of an earlier one. */
export function answered(
  campaign: Campaign,
  { reading, point }: CampaignPoint,
  earlier: CampaignPoint | undefined,
  nowUs: bigint,
  source: BitSource,
): Drawn {
  let before: Before | undefined;
  if (earlier) {
    before = { point: earlier.point, ageUs: nowUs - reading.drawnUs, gapUs: reading.drawnUs - earlier.reading.drawnUs };
  }
  return campaign.answer(point, before, campaign.readings?.cohort(reading.beginsUs) ?? 0, source);
}
