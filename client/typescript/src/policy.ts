/** What the app permits, whatever a server asks for. */
import type { Attribute, Campaign } from "./campaign.js";
import type { Demand } from "./demand.js";
import type { PublicKey } from "./envelope.js";
import type { Charge, Field, Form } from "./form.js";
import { GeoveilError, ParameterError, PrivateValueError } from "./errors.js";
import { floorDiv } from "./exact/rational.js";
import { exactRate, type Privacy, repeated } from "./gp/mechanism.js";
import { type Centre, geodesicDistance, holds } from "./gp/plane.js";
import { positive, requireEnds } from "./gp/profile.js";
import { inDays, lengthIn, MOST_COHORTS } from "./readings.js";
import { between, toOne } from "./saying.js";
import { say } from "./words.js";

/** A guarantee with the unit of its distance: values `per` apart are distinguishable by at most `epsilon`. */
export interface GeoPrivacy extends Privacy {
  readonly unit: string;
}

/** What a value is. The app states it, so that no server decides how a value is read. */
export type ValueKind =
  | { readonly kind: "number"; readonly least?: number; readonly most?: number } // others are slips, and refused
  | { readonly kind: "point"; readonly dimension: number }
  | { readonly kind: "place"; readonly area: Area | null; readonly outside?: Outside }
  // With a limit per "option", or per "step" for "ordinal"; the options that a form may offer (or
  // fewer); any by default.
  | { readonly kind: "choice" | "ordinal" | "multiple"; readonly options?: readonly string[] };

/**
 * What happens to a place outside a campaign's area. "moved", the default: it counts as the nearest
 * place in the area, so that neither silence nor an error reveals where somebody is not; "refused":
 * `contribute` throws, so that no slip is sent.
 */
export type Outside = "moved" | "refused";

/** A disc on the Earth. */
export interface Area {
  readonly longitudeDeg: number;
  readonly latitudeDeg: number;
  readonly radiusM: number;
}

/** One number in the unit of its limit. */
export const number: ValueKind = { kind: "number" };
/** Several numbers in the unit of their limit. */
export const point = (dimension: number): ValueKind => ({ kind: "point", dimension });
/** A place on the Earth; null, which must be stated: anywhere. */
export const place = (area: Area | null): ValueKind => ({ kind: "place", area });

/**
 * The most that reports leaving in any stretch of this length may cost: a waiting report counts until it
 * is settled, and a reading whenever anything made from it leaves.
 */
export interface Window {
  readonly limit: GeoPrivacy;
  readonly lengthMs: number;
}

/**
 * A value is read and perturbed once in a stretch of time, at the rate of `privacy`, for campaigns about
 * points and about one number with debiased Laplace noise. The device draws when the first stretch
 * begins.
 */
export interface Epoch {
  /** What one reading costs. */
  readonly privacy: GeoPrivacy;
  readonly lengthMs: number;
  /**
   * The largest rate that a campaign may ask for; by default that of `privacy`. A smaller one makes
   * every campaign's point coarser, so that two campaigns seldom see the same point.
   */
  readonly finest?: GeoPrivacy | undefined;
}

/** What to tell people about an epoch, after the name of the value. */
export function describeEpoch({ privacy, lengthMs }: Epoch): string {
  requireLength(lengthMs);
  const days = inDays(BigInt(Math.round(lengthMs * 1000)));
  return say("epoch", { days, privacy: words(privacy, privacy.unit), twice: words(repeated(privacy, 2n), privacy.unit) });
}

/** How much privacy one attribute may cost. */
export interface Limit {
  /** The most that one campaign may cost, with all its periods. */
  readonly campaign: GeoPrivacy;
  /**
   * The most that all campaigns together may ever cost; undefined: the same as `campaign`, unless
   * windows bound it.
   */
  readonly lifetime?: GeoPrivacy | "unbounded" | undefined;
  readonly windows?: readonly Window[];
  /** The kind of value; one number by default. */
  readonly value?: ValueKind;
  /** How long one perturbed value answers campaigns; undefined: every report is drawn anew, unless the
   * campaign asks for readings of its own. */
  readonly epoch?: Epoch | undefined;
  /**
   * The number of parts of an epoch, 2 to 16; campaigns may learn in which of them this device's epochs
   * begin. It links a person's reports for years; 0, the default: no campaign may.
   */
  readonly cohorts?: number;
  /**
   * The largest ε of one campaign between any two values, however far apart: Math.log(1000) for 1,000 to
   * 1. Undefined: no cap is required.
   */
  readonly anyTwo?: number;
}

export interface PolicyOptions {
  /** Name of an attribute → its limit; others are never answered about. */
  readonly limits: Readonly<Record<string, Limit>>;
  /** The keys whose campaigns are answered; undefined: anybody's, signed or not. */
  readonly trustedKeys?: readonly PublicKey[] | undefined;
  /** Campaigns that close later are refused. */
  readonly latestClose?: Date | undefined;
  readonly minimumParticipants?: number;
  readonly mostQueries?: number;
  /** Processor time in microseconds, by the protocol's estimate. */
  readonly mostWork?: number;
  /** Name of a field → "choice", "ordinal" or "multiple": forms may ask for it unprotected. */
  readonly openly?: Readonly<Record<string, ValueKind>>;
  /**
   * The largest ε of a whole form between any two sets of answers. It refuses forms with an open field,
   * or with a number without a stated range.
   */
  readonly formAnyTwo?: number;
}

const LONGEST_MS = 36_525 * 86_400_000;
const MOST_QUERIES = 100;
const MOST_WORK = 10_000;
const OPTIONS = ["limits", "trustedKeys", "latestClose", "minimumParticipants", "mostQueries", "mostWork", "openly", "formAnyTwo"];
const LIMIT = ["campaign", "lifetime", "windows", "value", "epoch", "cohorts", "anyTwo"];
const GUARANTEE = "{ epsilon, per, unit }";
const KINDS: Readonly<Record<string, readonly string[]>> = { number: ["least", "most"], point: ["dimension"], place: ["area", "outside"], choice: ["options"], ordinal: ["options"], multiple: ["options"] };
/** Units that only one kind of value has. */
const UNITS: Readonly<Partial<Record<ValueKind["kind"], string>>> = { place: "metre", choice: "option", multiple: "option", ordinal: "step" };

/** What campaigns may ask of a person, for each attribute that the app answers about. */
export class Policy {
  readonly limits: ReadonlyMap<string, Limit>;
  readonly openly: ReadonlyMap<string, ValueKind>;

  constructor(readonly options: PolicyOptions) {
    requireOptions(options);
    for (const [name, limit] of Object.entries(options.limits)) {
      requireKnown(`limits[${name}]`, limit, LIMIT);
      const { campaign, lifetime, windows = [], value = number, epoch } = limit;
      if (!Array.isArray(windows)) throw new ParameterError(`limits[${name}].windows`, windows, "an array");
      if (!Object.hasOwn(KINDS, value?.kind)) throw new ParameterError(`limits[${name}].value`, value, "number, point(n) or place(area)");
      requireKind(`limits[${name}].value`, value);
      if (!campaign) throw new ParameterError(`limits[${name}].campaign`, campaign, GUARANTEE);
      for (const part of windows) requireKnown(`limits[${name}].windows`, part, ["limit", "lengthMs"]);
      if (epoch) requireKnown(`limits[${name}].epoch`, epoch, ["privacy", "lengthMs", "finest"]);
      const ever = lifetime === "unbounded" ? undefined : lifetime;
      const all = [campaign, ever, ...windows.map((w) => w.limit), epoch?.privacy, epoch?.finest].filter((l) => l !== undefined);
      for (const one of all) {
        if (!one) throw new ParameterError(`limits[${name}]`, one, `of guarantees ${GUARANTEE}`);
        const { epsilon, per, unit, delta = 0, reach } = one;
        if (!(delta >= 0 && delta < 1)) throw new ParameterError(`limits[${name}].delta`, delta, "a number in [0, 1)");
        if (reach !== undefined && !(reach > 0 && delta > 0)) {
          throw new ParameterError(`limits[${name}].reach`, reach, "a number > 0, and left out without a delta");
        }
        positive(`limits[${name}].epsilon`, epsilon);
        positive(`limits[${name}].per`, per);
        if (!unit || unit !== limit.campaign.unit) throw new ParameterError(`limits[${name}].unit`, unit, "the same in all, not empty");
      }
      const reaches = new Set(all.filter((one) => one?.delta).map((one) => one?.reach));
      if (reaches.size > 1) throw new ParameterError(`limits[${name}].reach`, [...reaches], "the same in all with a delta");
      if (epoch?.privacy.delta || epoch?.finest?.delta) throw new ParameterError(`limits[${name}].epoch`, "a delta", "pure");
      for (const { lengthMs } of epoch ? [...windows, epoch] : windows) requireLength(lengthMs);
      if (epoch) requireEpoch(`limits[${name}].epoch`, epoch, limit);
      const { cohorts = 0, anyTwo } = limit;
      if (anyTwo !== undefined) positive(`limits[${name}].anyTwo`, anyTwo);
      if (!Number.isInteger(cohorts) || cohorts < 0 || cohorts === 1 || cohorts > MOST_COHORTS) {
        throw new ParameterError(`limits[${name}].cohorts`, cohorts, `0, or 2 to ${MOST_COHORTS}`);
      }
      if (cohorts && epoch?.finest) {
        throw new ParameterError(`limits[${name}].cohorts`, cohorts, "0 beside finest");
      }
      const unit = UNITS[value.kind];
      if (unit && limit.campaign.unit !== unit) throw new ParameterError(`limits[${name}].unit`, limit.campaign.unit, `'${unit}' for a ${value.kind}`);
    }
    this.limits = new Map(Object.entries(options.limits));
    this.openly = new Map(Object.entries(options.openly ?? {}));
    for (const [name, kind] of this.openly) {
      if (!kind || !isOfOptions(kind)) throw new ParameterError(`openly[${name}]`, kind, "of kind choice, ordinal or multiple");
      requireKind(`openly[${name}]`, kind);
    }
    if (options.formAnyTwo !== undefined) positive("formAnyTwo", options.formAnyTwo);
  }

  /**
   * The policy of somebody who has seen a campaign and agreed: permits it, in all its periods.
   *
   * @param epoch - how long one perturbed value answers it and others; undefined: as the campaign asks.
   *   Of a form every answer
   *   is drawn anew.
   */
  static permitting({ campaign, demand }: { readonly campaign: Campaign | Form; readonly demand: Demand }, epoch?: Epoch): Policy {
    const device = { mostQueries: Math.max(demand.queries, MOST_QUERIES), mostWork: Math.max(demand.work, MOST_WORK) };
    if ("fields" in campaign) return new Policy({ ...campaign.permission, ...device });
    const { name, unit } = campaign.attribute;
    let most = campaign.totalPrivacy;
    if (epoch && campaign.nests) {
      // As many readings as its dates touch, and two before them to extrapolate from.
      const lengthUs = BigInt(Math.round(epoch.lengthMs * 1000));
      const touched = 1n - floorDiv(campaign.opensUs - campaign.closesUs, lengthUs);
      const readings = repeated(epoch.privacy, touched + 2n);
      if (exactRate(readings).compare(exactRate(most)) > 0) most = readings;
    }
    return new Policy({
      limits: {
        [name]: {
          campaign: { ...most, unit },
          lifetime: "unbounded", // of other campaigns nothing was said
          value: kindOf(campaign),
          epoch,
          cohorts: campaign.readings?.cohorts ?? 0,
        },
      },
      ...device,
    });
  }

  /** Refuse a campaign that asks too much of the device, before interpreting it. */
  checkDemand(campaignId: string, { queries, work }: Demand): void {
    const { mostQueries = MOST_QUERIES, mostWork = MOST_WORK } = this.options;
    if (queries > mostQueries) throw refused(campaignId, "number of questions", `${queries}`, `at most ${mostQueries}`);
    if (work > mostWork) throw refused(campaignId, "work in microseconds", `${work}`, `at most ${mostWork}`);
  }

  /**
   * Refuse a campaign that the policy forbids whatever the ledger holds; return the limit of each
   * attribute that it charges.
   */
  check(campaign: Campaign | Form, signer: PublicKey | undefined): readonly Limit[] {
    const { trustedKeys, latestClose, minimumParticipants = 0 } = this.options;
    const { id } = campaign;
    if (trustedKeys && !trustedKeys.some((key) => key.toString() === signer?.toString())) {
      throw refused(id, "signature", signer?.toString() ?? "nobody's", "one of a trusted key");
    }
    if (latestClose && campaign.closesUs > BigInt(latestClose.getTime()) * 1000n) {
      throw refused(id, "closing date", campaign.closes.toISOString(), `at latest ${latestClose.toISOString()}`);
    }
    if (campaign.minimumParticipants < BigInt(minimumParticipants)) {
      throw refused(id, "minimum of participants", `${campaign.minimumParticipants}`, `at least ${minimumParticipants}`);
    }
    if ("fields" in campaign) return this.#checkForm(campaign);
    const { name, unit } = campaign.attribute;
    const epoch = this.epochOf(campaign);
    const privacy = epoch ? campaign.answerPrivacy : campaign.reportPrivacy;
    const anyTwo = epoch ? Infinity : campaign.largestEpsilon;
    const limit = this.#checkCharge(campaign, { attribute: name, unit, privacy, anyTwo }, kindOf(campaign), epoch);
    this.#checkCohorts(campaign, limit);
    return [limit];
  }

  /** The epoch whose readings answer a campaign; undefined: as the campaign asks. */
  epochOf(campaign: Campaign | Form): Epoch | undefined {
    if ("fields" in campaign || !campaign.nests) return undefined;
    return this.limits.get(campaign.attribute.name)?.epoch;
  }

  #checkForm(form: Form): Limit[] {
    for (const { name, kind, options, privacy } of form.fields) {
      if (privacy || kind === "number" || kind === "place") continue;
      const permitted = this.openly.get(name);
      if (!permitted || !permits(permitted, { kind, options })) {
        throw refused(form.id, `open field ${name}`, `sent as it is: ${described({ kind, options })}`, permitted ? described(permitted) : "none");
      }
    }
    const { formAnyTwo = Infinity } = this.options;
    requireFar(form.id, "cap on the odds of any two forms", form.largestEpsilon * Number(form.periods), formAnyTwo);
    return form.charges.map((charge) => this.#checkCharge(form, charge, kindOf(form.fields.find(({ name }) => name === charge.attribute)!)));
  }

  #checkCharge({ id, periods }: Campaign | Form, { attribute, unit, privacy, anyTwo }: Charge, kind: ValueKind, epoch?: Epoch): Limit {
    const limit = this.limits.get(attribute);
    if (!limit) throw refused(id, "attribute", attribute, [...this.limits.keys()].join(", ") || "nothing");
    const within = (aspect: string, most: GeoPrivacy): void => {
      if (unit === most.unit && !exceeds(privacy, most)) return;
      throw refused(id, aspect, words(privacy, unit), `at most ${words(most, most.unit)}`);
    };
    within("privacy loss", limit.campaign);
    if (epoch) within("privacy loss in an epoch", epoch.finest ?? epoch.privacy);
    requireFar(id, "cap on the odds of any two values", anyTwo * Number(periods), limit.anyTwo ?? Infinity);
    const { value = number } = limit;
    if (!permits(value, kind)) throw refused(id, "value", described(kind), described(value));
    return limit;
  }

  #checkCohorts({ id, readings }: Campaign, { epoch, cohorts = 0 }: Limit): void {
    if (!readings?.cohorts) return;
    const every = readings.everyUs;
    const length = epoch ? BigInt(Math.round(epoch.lengthMs * 1000)) : every;
    if (cohorts && cohorts % readings.cohorts === 0 && length === every) return;
    const most = cohorts ? `of ${cohorts} parts of ${lengthIn(length)} days` : "none";
    throw refused(id, "cohort of a device", `which of ${readings.cohorts} parts of ${lengthIn(every)} days it begins in`, most);
  }
}

/** The kind of value that a campaign, or a form's field, expects. */
export function kindOf(asked: Campaign | Field): ValueKind {
  const { attribute } = asked;
  if (attribute.coordinates) return place(attribute.coordinates);
  if ("kind" in asked) return asked.kind === "number" || asked.kind === "place" ? number : { kind: asked.kind, options: asked.options };
  return asked.dimension === 1 ? number : point(asked.dimension);
}

function requireFar(id: string, aspect: string, far: number, most: number): void {
  if (far > most) throw refused(id, aspect, toOne(far) ?? "none that protects", `at most ${toOne(most) ?? `ε = ${most}`}`);
}

function isOfOptions(kind: ValueKind): kind is Extract<ValueKind, { options?: unknown }> {
  return kind.kind === "choice" || kind.kind === "ordinal" || kind.kind === "multiple";
}

/** Refuse a value that is a slip by the policy, without showing it. */
export function checkValue(kind: ValueKind, { coordinates, valueUnit }: Attribute, value: number, place: Centre | undefined): void {
  if (kind.kind === "number" && !(value >= (kind.least ?? -Infinity) && value <= (kind.most ?? Infinity))) {
    throw new PrivateValueError(`${described(kind)}, in ${valueUnit}`);
  }
  if (kind.kind === "place" && kind.outside === "refused" && coordinates && place && !holds(coordinates, place)) {
    throw new PrivateValueError(described({ kind: "place", area: coordinates }));
  }
}

function permits(mine: ValueKind, asked: ValueKind): boolean {
  if (mine.kind === "point" && asked.kind === "point") return mine.dimension === asked.dimension;
  if (isOfOptions(mine) && isOfOptions(asked)) {
    // In this order, the scale of an ordinal field.
    const offered = asked.options ?? [];
    return mine.kind === asked.kind && (!mine.options || mine.options.filter((one) => offered.includes(one)).join("\n") === offered.join("\n"));
  }
  if (mine.kind !== "place" || asked.kind !== "place") return mine.kind === asked.kind;
  if (!mine.area || !asked.area) return mine.area === null;
  const [a, b] = [mine.area, asked.area];
  if (a.longitudeDeg === b.longitudeDeg && a.latitudeDeg === b.latitudeDeg && a.radiusM === b.radiusM) return true;
  return geodesicDistance(a, b) + b.radiusM <= a.radiusM;
}

function described(kind: ValueKind): string {
  if (kind.kind === "number") {
    const stated = between(kind);
    return `one number${stated && `, ${stated}`}`;
  }
  if (isOfOptions(kind)) {
    const { options } = kind;
    const of = { choice: "one of", ordinal: "one, in order, of", multiple: "any of" }[kind.kind];
    return `${of} ${options ? `the options ${options.slice(0, 20).join(", ")}${options.length > 20 ? ", …" : ""}` : "some options"}`;
  }
  if (kind.kind === "point") return `a point of ${kind.dimension} coordinates`;
  if (!kind.area) return "a place anywhere";
  return `a place within ${kind.area.radiusM} m of longitude ${kind.area.longitudeDeg}, latitude ${kind.area.latitudeDeg}`;
}

/** Refuse a NaN, which would limit nothing: `158 > NaN` is false. */
function requireOptions(options: PolicyOptions): void {
  requireKnown("policy", options, OPTIONS);
  const { limits, trustedKeys, latestClose, minimumParticipants = 0 } = options;
  if (typeof limits !== "object" || limits === null) throw new ParameterError("limits", limits, "an object");
  for (const name of ["mostQueries", "mostWork"] as const) {
    const most = options[name];
    if (most !== undefined && !(typeof most === "number" && most >= 0)) throw new ParameterError(name, most, "a number >= 0");
  }
  if (!(Number.isSafeInteger(minimumParticipants) && minimumParticipants >= 0)) {
    throw new ParameterError("minimumParticipants", minimumParticipants, "an integer >= 0");
  }
  if (trustedKeys !== undefined && !Array.isArray(trustedKeys)) throw new ParameterError("trustedKeys", trustedKeys, "an array");
  if (latestClose !== undefined && !(latestClose instanceof Date && !Number.isNaN(latestClose.getTime()))) {
    throw new ParameterError("latestClose", String(latestClose), "a Date");
  }
}

/** Refuse unknown names, so that a misspelt limit is not silently missing. */
function requireKnown(name: string, given: object, known: readonly string[]): void {
  if (typeof given !== "object" || given === null) throw new ParameterError(name, given, `an object of ${known.join(", ")}`);
  const other = Object.keys(given).find((key) => !known.includes(key));
  if (other !== undefined) throw new ParameterError(`a name in ${name}`, other, `one of ${known.join(", ")}`);
}

function requireKind(name: string, kind: ValueKind): void {
  requireKnown(name, kind, ["kind", ...KINDS[kind.kind]!]);
  if (kind.kind === "place" && !["moved", "refused", undefined].includes(kind.outside)) {
    throw new ParameterError(`${name}.outside`, kind.outside, "'moved' or 'refused'");
  }
  if (isOfOptions(kind) && kind.options !== undefined) {
    const { options } = kind;
    const texts = Array.isArray(options) && options.every((one) => typeof one === "string") && options.length > 0;
    if (!texts || new Set(options).size < options.length) throw new ParameterError(`${name}.options`, options, "distinct texts");
  }
  if (kind.kind !== "number") return;
  requireEnds(name, kind);
}

function requireLength(lengthMs: number): void {
  if (!(lengthMs >= 0.001 && lengthMs <= LONGEST_MS)) throw new ParameterError("lengthMs", lengthMs, "from 0.001 to a century");
}

function requireEpoch(name: string, { privacy, finest }: Epoch, { campaign, value }: Limit): void {
  const within = (part: string, asked: GeoPrivacy, most: GeoPrivacy): void => {
    if (exactRate(asked).compare(exactRate(most)) <= 0) return;
    throw new ParameterError(`${name}.${part}`, words(asked, asked.unit), `at most ${words(most, most.unit)}`);
  };
  within("privacy", privacy, campaign);
  if (finest) within("finest", finest, privacy);
  if (value?.kind === "point" && value.dimension > 3) throw new ParameterError(name, value.dimension, "of at most 3 coordinates");
}

/** Whether a guarantee promises less than a limit: in its rate, its delta, or the reach of its delta. */
export function exceeds(asked: Privacy, most: Privacy): boolean {
  const delta = asked.delta ?? 0;
  const shorter = delta > 0 && (asked.reach ?? Infinity) < (most.reach ?? Infinity);
  return exactRate(asked).compare(exactRate(most)) > 0 || delta > (most.delta ?? 0) || shorter;
}

export function words({ epsilon, per, delta, reach }: Privacy, unit: string): string {
  const slack = delta ? `, δ = ${delta}` : "";
  return `ε = ${epsilon} per ${per} ${unit}${slack}${reach === undefined ? "" : `, up to ${reach} ${unit}`}`;
}

export function refused(id: string, aspect: string, asked: string, permitted: string): GeoveilError {
  return new GeoveilError(
    "policy-refused",
    `campaign ${id} is refused: its ${aspect} is ${asked}, the policy permits ${permitted}`,
  );
}
