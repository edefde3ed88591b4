/** Campaigns: read from bytes, checked as a whole, and answered. */
import { fromBinary, type Message } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { isCanonical } from "./canonical.js";
import { hex, PublicKey } from "./envelope.js";
import { ParameterError, PrivateValueError, UnsupportedError } from "./errors.js";
import { below, type BitSource } from "./exact/bits.js";
import { Rational } from "./exact/rational.js";
import {
  Allocation,
  type Campaign as CampaignMessage,
  CampaignSchema,
  Profile,
  type Query as QueryMessage,
  type Readings as ReadingsMessage,
  type Translation as TranslationMessage,
} from "./gen/geoveil/proto/v1/campaign_pb.js";
import {
  answerFrom,
  below as laplaceBelow,
  debiasedLaplace,
  exactRate,
  largestEpsilon,
  lipschitzLaplace,
  type Mechanism,
  type OwnSide,
  PlanarLaplace,
  type Privacy,
  QueryMechanism,
  repeated,
} from "./gp/mechanism.js";
import { coordinateOf, LOG, type LogScale } from "./gp/log-scale.js";
import { inPlane, type Plane, requirePlane } from "./gp/plane.js";
import { readRegion } from "./gp/polygon.js";
import { MOST, positive, requireEnds } from "./gp/profile.js";
import * as queries from "./gp/query.js";
import { hasSlack, smooth } from "./gp/smooth.js";
import { Table } from "./gp/table.js";
import { loadVectors, type SmoothVector, vectorOf } from "./gp/together.js";
import { DAY_US, movedOn, Readings } from "./readings.js";
import { between } from "./saying.js";
import { plain, requireLanguages } from "./text.js";

const TEN_YEARS_US = 3660n * DAY_US;
const MOST_BYTES = 1 << 20;
const MOST_QUESTIONS = 10_000;
const MOST_SLOTS = 100_000n;
/** Radii from one end of an area to the other, with a margin for the rounding of projected places. */
const ACROSS = Rational.of(2_000_000_002n, 1_000_000_000n);
/** What has an inside. */
const SIDED = new Set(["threshold", "range", "twoWayThreshold", "disc", "polygon"]);
const STEPS = new Set(["threshold", "range"]);
/** Queries that a perturbed number answers, about one coordinate. */
const NESTING = new Set(["threshold", "range", "gaussianKernel", "linear"]);

export interface Question {
  readonly label: string;
  /** The query, with the fields of the protocol: {kind: "threshold", at, width, profile, ...}. */
  readonly query: { readonly kind: string; readonly [field: string]: unknown };
}

/** What a participant holds. */
export interface Attribute {
  readonly name: string;
  readonly unit: string;
  /** The plane of places given as longitude and latitude; undefined: numbers are used as they are. */
  readonly coordinates: Plane | undefined;
  /** Turns numbers into logarithms, so that ratios are distances. */
  readonly scale: LogScale | undefined;
  /** The unit of what participants hold: "dollar" where distances are in "log dollar". */
  readonly valueUnit: string;
  /**
   * The range of numbers that people are expected to hold: a number beyond it is confirmed, then taken;
   * see `clamped`.
   */
  readonly least: number | undefined;
  readonly most: number | undefined;
}

export type State = "pending" | "open" | "closed";

/** The digest that names a campaign's exact bytes. */
export async function digest(campaign: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", campaign as Uint8Array<ArrayBuffer>));
}

/** Who asks, covered by the campaign's signature; nobody checks that it is true. */
export interface Asker {
  readonly organisation: string;
  /** What the answers are for. */
  readonly purpose: string;
  readonly contact: string;
  /** An address, https://..., of the whole notice; empty: none. */
  readonly notice: string;
}

/** The texts of a campaign in another language; the campaign's own replace what is empty or undefined. */
export interface Translation {
  /** A BCP 47 tag. */
  readonly language: string;
  readonly title: string;
  readonly asker: Asker | undefined;
  /** The name of the attribute, and the unit of its values. */
  readonly attribute: string;
  readonly unit: string;
  /** For each question, in order. */
  readonly labels: readonly string[];
}

/** What campaigns of all kinds state. */
export abstract class Dated {
  readonly id: string;
  readonly title: string;
  readonly opensUs: bigint;
  readonly closesUs: bigint;
  readonly periodUs: bigint | undefined;
  readonly minimumParticipants: bigint;
  /** Reports leave only through a relay, sealed for a gateway whose keys this one signs. */
  readonly relayOperator: PublicKey | undefined;
  /**
   * Each report needs a token from the issuer with this key, the 256 bytes of its modulus; with periods:
   * the ids of their keys.
   */
  readonly tokenKey: Uint8Array | undefined;
  /** Undefined: that is unknown. */
  readonly asker: Asker | undefined;
  /** When the server deletes single reports and keeps sums; undefined: unknown. */
  readonly deleteAfter: Date | undefined;
  /** The language of its texts; "": none is stated. */
  readonly language: string;
  /** Its texts in other languages: see `textsOf`. */
  readonly translations: readonly Translation[];

  constructor(
    readonly bytes: Uint8Array,
    message: CampaignMessage,
  ) {
    if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(message.campaignId)) {
      throw new ParameterError("campaign_id", message.campaignId, "1 to 64 of a-z, 0-9, - and _");
    }
    if (message.window) throw new UnsupportedError("its reports leave at random times in a window, when a page may be closed: an app can answer it");
    this.asker = message.asker && askerOf(message.asker);
    this.relayOperator = message.relayOperator.length ? PublicKey.of(message.relayOperator) : undefined;
    this.id = message.campaignId;
    this.title = plain("title", message.title, 200);
    [this.opensUs, this.closesUs] = [microseconds("opens", message.opens), microseconds("closes", message.closes)];
    if (!(this.opensUs < this.closesUs)) throw new ParameterError("closes", this.closesUs, `after ${this.opensUs}`);
    if (this.closesUs - this.opensUs > TEN_YEARS_US) throw new ParameterError("closes", this.closesUs, "within ten years");
    if (message.deleteAfter) {
      const until = microseconds("delete_after", message.deleteAfter);
      if (until < this.closesUs || until - this.closesUs > TEN_YEARS_US) throw new ParameterError("delete_after", until, "within ten years");
      this.deleteAfter = dateOf(until);
    }
    this.periodUs = message.period && duration("period", message.period);
    this.minimumParticipants = message.minimumParticipants;
    if (this.minimumParticipants > 10n ** 12n) {
      throw new ParameterError("minimum_participants", this.minimumParticipants, "an integer from 0 to 10^12");
    }
    if (this.periodUs !== undefined && this.periodUs < 60_000_000n) {
      throw new ParameterError("period", this.periodUs, "at least a minute");
    }
    this.tokenKey = message.tokenKey.length ? tokenKeyOf(message.tokenKey, this.periodUs === undefined ? undefined : Number(this.periods)) : undefined;
    this.language = message.language;
    this.translations = message.translations.map((translation) => translationOf(translation, message));
    requireLanguages("languages of texts", [this.language, ...this.translations.map(({ language }) => language)]);
  }

  /** Integers that all reports of a period hold, by query_index. */
  abstract get indices(): number;

  get periods(): bigint {
    if (this.periodUs === undefined) return 1n;
    return (this.closesUs - this.opensUs + this.periodUs - 1n) / this.periodUs;
  }
  get opens(): Date {
    return dateOf(this.opensUs);
  }
  get closes(): Date {
    return dateOf(this.closesUs);
  }

  stateAt(nowUs: bigint): State {
    if (nowUs >= this.closesUs) return "closed";
    return nowUs < this.opensUs ? "pending" : "open";
  }

  /** The period at a time, from 0; times outside the dates belong to the nearest period. */
  periodAt(nowUs: bigint): number {
    if (this.periodUs === undefined || nowUs < this.opensUs) return 0;
    const period = (nowUs - this.opensUs) / this.periodUs;
    return Number(period < this.periods ? period : this.periods - 1n);
  }

  protected requireSlots(): void {
    if (BigInt(this.indices) * this.periods > MOST_SLOTS) {
      throw new ParameterError("period", this.periods, "so few that all sums are at most 100,000");
    }
  }
}

function askerOf({ organisation, purpose, contact, notice }: Asker): Asker {
  plain("asker.organisation", organisation, 200);
  plain("asker.purpose", purpose, 500);
  plain("asker.contact", contact, 200);
  if (notice && !/^(?=.{0,500}$)https:\/\/[a-zA-Z\d.-]+(:\d{1,5})?(\/[!-~]*)?$/.test(notice)) throw new ParameterError("asker.notice", notice, "https://...");
  return { organisation, purpose, contact, notice };
}

/** Refuse unreadable texts, and texts for things that a campaign does not have. */
function translationOf({ language, title, asker, attribute, unit, labels }: TranslationMessage, of: CampaignMessage): Translation {
  const absent = (asker && !of.asker) || (!of.attribute && (attribute || unit)) || (labels.length && labels.length !== of.queries.length);
  if (absent || new Set(labels).size < labels.length) throw new ParameterError("translation", language, "of what the campaign has, with distinct labels");
  for (const text of [language, ...labels]) plain("translation", text, 100);
  for (const [text, most] of [[title, 200], [attribute, 64], [unit, 64]] as const) if (text) plain("translation", text, most);
  return { language, title, asker: asker && askerOf(asker), attribute, unit, labels };
}

/** A modulus or, with periods, one key id for each; anything else is refused. */
function tokenKeyOf(key: Uint8Array, periods: number | undefined): Uint8Array {
  const ids = new Set(hex(key).match(/.{1,64}/g));
  const sound = periods === undefined ? key.length === 256 && key[0]! >> 7 && key[255]! & 1 : key.length === 32 * ids.size && ids.size === periods;
  if (!sound) throw new ParameterError("token_key", `${key.length} bytes`, "256 of an RSA modulus, or 32 for each period");
  return key;
}

/** The content of a campaign's bytes, if every field is known. */
export function messageOf(bytes: Uint8Array): CampaignMessage {
  if (bytes.length > MOST_BYTES) throw new ParameterError("size of the campaign", bytes.length, `at most ${MOST_BYTES} bytes`);
  const message = parse(CampaignSchema, bytes, "campaign");
  if (!isCanonical(CampaignSchema, bytes)) {
    throw new UnsupportedError("the campaign has fields that this version does not know, or is not in canonical form");
  }
  return message;
}

/** A campaign about one attribute, parsed and checked. */
export class Campaign extends Dated {
  readonly attribute: Attribute;
  /** The stated guarantee; a report spends `reportPrivacy`. */
  readonly privacy: Privacy;
  readonly questions: readonly Question[];
  readonly mechanism: string;
  readonly allocation: "partition" | "split" | "repeat" | "vector";
  readonly stepExponent: number;
  /** How often the device reads a value; undefined: for every report, unless the app's policy says otherwise. */
  readonly readings: Readings | undefined;
  /** Up to where distances count; undefined: everywhere. */
  readonly cap: queries.Cap | undefined;
  /** Coordinates of a value, as queries take it. */
  readonly dimension: number;
  readonly #queries: readonly queries.Query[];
  readonly #mechanisms: readonly Mechanism[];
  readonly #ofPoints: boolean;
  #vector: SmoothVector | undefined;
  /** ε of each answer between any two values. */
  #each: readonly number[] = [];

  /** Read a campaign from its bytes; refuse one that is unsound or has unknown parts. */
  constructor(bytes: Uint8Array) {
    const message = messageOf(bytes);
    if (message.fields.length) throw new UnsupportedError("the campaign is a form, of several answers");
    for (const name of ["attribute", "privacy", "mechanism", "grid", "opens", "closes"] as const) {
      if (!message[name]) throw new ParameterError(name, "none", "in every campaign");
    }
    if (message.queries.length > MOST_QUESTIONS) {
      throw new ParameterError("number of queries", message.queries.length, `1 to ${MOST_QUESTIONS}`);
    }
    super(bytes, message);
    this.attribute = attributeOf(message.attribute);
    this.privacy = privacyOf(message);
    this.stepExponent = message.grid?.stepExponent ?? 0;
    if (Math.abs(this.stepExponent) > 200) {
      throw new ParameterError("grid.step_exponent", this.stepExponent, "an integer in [-200, 200]");
    }
    this.allocation = allocationOf(message.allocation);
    this.#ofPoints = message.mechanism?.kind.case === "planarLaplace";
    if (!message.mechanism?.kind.case) throw new ParameterError("mechanism", "none", "one that is known");
    this.mechanism = message.mechanism.kind.case;
    const read = message.queries.map((q, i) => questionOf(q, `queries[${i}]`));
    this.questions = read.map(({ question }) => question);
    this.dimension = this.#ofPoints ? dimensionOf(message) : (read[0]?.query.dimension ?? 0);
    this.#queries = read.map(({ query }) => query);
    this.#requireQuestions(this.#queries);
    const { cap, readings } = message;
    this.cap = cap && { below: cap.below, above: cap.above };
    this.readings = readings && readingsOf(readings);
    this.requireSlots();
    positive("privacy", this.totalPrivacy.epsilon);
    this.#mechanisms = this.#build(message, this.#queries);
    this.#requireReadings();
  }

  get columns(): number {
    return this.#ofPoints ? this.dimension : this.questions.length;
  }
  get cohorts(): number {
    return this.readings?.cohorts || 1;
  }
  get indices(): number {
    return this.columns * this.cohorts;
  }
  get answersAll(): boolean {
    return this.#ofPoints || this.allocation !== "partition";
  }
  get labels(): readonly string[] {
    if (!this.#ofPoints) return this.questions.map((q) => q.label);
    return (this.attribute.coordinates ? ["metres east", "metres north"] : ["x", "y", "z"]).slice(0, this.dimension);
  }

  /** The cost of one answer, or one point, over true distances. */
  get answerPrivacy(): Privacy {
    if (this.#ofPoints || this.allocation !== "split") return this.privacy;
    const { epsilon, delta } = this.privacy;
    const share = (whole: number): number => Rational.from(whole).div(Rational.of(BigInt(this.columns))).roundDown();
    const part = { ...this.privacy, epsilon: positive("epsilon", share(epsilon)) };
    return delta ? { ...part, delta: share(delta) } : part;
  }
  /** The cost of one report, all its answers together, over true distances. */
  get reportPrivacy(): Privacy {
    if (this.readings) return this.answerPrivacy; // all answers are made from one point
    const times = this.allocation === "repeat" && !this.#ofPoints ? BigInt(this.columns) : 1n;
    return repeated(this.privacy, times);
  }
  /** The cost for somebody who answers in every period. */
  get totalPrivacy(): Privacy {
    let times = this.periods;
    if (this.readings && this.periodUs !== undefined) {
      const touched = this.readings.most(times * this.periodUs);
      if (touched < times) times = touched;
    }
    return repeated(this.reportPrivacy, times);
  }
  /** ε of one report between any two values, however far apart; Infinity: there is none. */
  get largestEpsilon(): number {
    if (this.readings) return Infinity;
    if (this.#ofPoints) {
      return largestOfPoints(this.attribute, this.#inPlane(this.privacy), this.#ends);
    }
    const each = this.#each;
    const most = Math.max(...each);
    if (!this.answersAll || most === Infinity) return most;
    return each.map((x) => Rational.from(x)).reduce((sum, x) => sum.add(x)).roundUp();
  }
  /**
   * Whether values beyond the attribute's range are moved to its nearest end: not with a reading, which
   * answers other campaigns as well.
   */
  get clamped(): boolean {
    const { least, most } = this.attribute;
    return this.#ofPoints && !this.readings && least !== undefined && most !== undefined;
  }
  get #ends(): Ends | undefined {
    return this.clamped ? endsOf(this.attribute) : undefined;
  }

  /** Whether reports can be made from one perturbed point, at the rate of one answer. */
  get nests(): boolean {
    if (this.#ofPoints) return true;
    const asked = this.questions.every(({ query: { kind } }) => NESTING.has(kind) && !(this.cap && kind === "gaussianKernel"));
    return asked && this.dimension === 1 && this.mechanism === "debiasedLaplace";
  }
  /** The mechanism that perturbs a point at a rate over true distances, on the grid of that rate. */
  reader(privacy: Privacy): PlanarLaplace {
    return new PlanarLaplace(this.#inPlane(privacy), this.dimension);
  }
  /** The mechanism that perturbs a point at the rate of one answer. */
  get pointMechanism(): PlanarLaplace {
    const grid = this.#ofPoints ? this.stepExponent : undefined;
    return new PlanarLaplace(this.#inPlane(this.answerPrivacy), this.dimension, grid);
  }

  /**
   * The side on which a point lies, and how often an answer is on it; undefined if a question has no sides.
   *
   * @param ofPoint - whether answers are made from a perturbed point, whose noise can cross a whole range.
   */
  ownSide(index: number, point: readonly number[], ofPoint: boolean): OwnSide | undefined {
    const { query } = this.questions[index]!;
    if (!SIDED.has(query.kind)) return undefined;
    if (!ofPoint || query.kind !== "range") {
      // No cap clips a perturbed number.
      const mechanism = ofPoint ? debiasedLaplace(this.#queries[index]!, this.answerPrivacy, this.stepExponent) : this.#mechanisms[index];
      return (mechanism as QueryMechanism).ownSide(point);
    }
    const { epsilon, per } = this.answerPrivacy;
    const { low, high, width } = query as unknown as { low: number; high: number; width: number };
    const x = point[0]!;
    const between = (from: number, to: number): number => laplaceBelow(((to - x) * epsilon) / per) - laplaceBelow(((from - x) * epsilon) / per);
    if (low <= x && x <= high) {
      return { inside: true, right: between(low, high), plain: between(low + width / 2, high - width / 2) };
    }
    return { inside: false, right: 1 - between(low, high), plain: 1 - between(low - width / 2, high + width / 2) };
  }

  /**
   * Draw the answers and the id of one report: first which question, then the id, then the noise.
   *
   * @param point - the private value in the coordinates of queries, as doubles.
   */
  draw(point: readonly number[], source: BitSource): Drawn {
    return this.#drawn(0, source, (columns) => {
      if (this.readings) return this.#answersFrom(this.pointMechanism.release(point, source), columns, source);
      const ends = this.#ends;
      if (ends) return this.#mechanisms[0]!.release(clampedTo(ends, point), source);
      if (this.#ofPoints) return this.#mechanisms[0]!.release(point, source);
      if (this.#vector) return this.#vector.release(point, source);
      return columns.flatMap((column) => this.#mechanisms[column]!.release(point, source));
    });
  }

  /**
   * Draw the answers and the id of one report from the campaign's point of an epoch.
   *
   * @param latest - the point of the epoch.
   * @param before - that of an earlier one, the age of the latest and the time between both; undefined: answers
   *   are not moved on.
   * @param cohort - the device's cohort, from 0.
   */
  answer(latest: readonly bigint[], before: Before | undefined, cohort: number, source: BitSource): Drawn {
    return this.#drawn(cohort, source, (columns) => {
      const answers = this.#answersFrom(latest, columns, source);
      if (!before) return answers;
      const earlier = this.#answersFrom(before.point, columns, source);
      return answers.map((y, i) => movedOn(y, earlier[i]!, before.ageUs, before.gapUs));
    });
  }

  #drawn(cohort: number, source: BitSource, release: (columns: readonly number[]) => readonly bigint[]): Drawn {
    const columns = this.answersAll
      ? Array.from({ length: this.columns }, (_, i) => i)
      : [Number(below(source, BigInt(this.columns)))];
    const first = this.columns * cohort;
    const id = source.bits(128);
    const values = release(columns);
    return { id, answers: columns.map((column, i) => ({ queryIndex: first + column, value: values[i]! })) };
  }

  #answersFrom(point: readonly bigint[], columns: readonly number[], source: BitSource): bigint[] {
    if (this.#ofPoints) return columns.map((column) => point[column]!);
    const { privacy, stepExponent } = this.pointMechanism;
    return columns.map((column) =>
      answerFrom(point[0]!, stepExponent, this.#queries[column]!, privacy, this.stepExponent, source),
    );
  }

  #inPlane(privacy: Privacy): Privacy {
    return this.attribute.coordinates ? inPlane(privacy, this.attribute.coordinates) : privacy;
  }

  #requireQuestions(asked: readonly queries.Query[]): void {
    if (this.#ofPoints) {
      if (asked.length) throw new ParameterError("number of queries", asked.length, "0: they are asked of the points later");
      if (this.allocation !== "partition") throw new ParameterError("allocation", this.allocation, "'partition'");
    } else {
      if (!asked.length) throw new ParameterError("number of queries", 0, `1 to ${MOST_QUESTIONS}`);
      const labels = this.questions.map((q) => q.label);
      if (new Set(labels).size !== labels.length) throw new ParameterError("labels of the queries", labels.length, "distinct");
      if (asked.some((q) => q.dimension !== this.dimension)) {
        throw new ParameterError("dimensions of the queries", asked.map((q) => q.dimension), "all the same");
      }
    }
    if (this.attribute.coordinates && this.dimension !== 2) {
      throw new ParameterError("dimension of the queries", this.dimension, "2 for places");
    }
    if (this.attribute.scale && (this.dimension !== 1 || !this.questions.every(({ query }) => STEPS.has(query.kind)))) {
      throw new ParameterError("kind", "on a log scale", "a threshold or a range");
    }
    if (between(this.attribute) && this.dimension !== 1) {
      throw new ParameterError("attribute.least", between(this.attribute), "left out, but of one number");
    }
  }

  #requireReadings(): void {
    if (!this.readings) return;
    const { everyUs, extrapolated } = this.readings;
    if (!this.nests) throw new ParameterError("readings", everyUs, "left out for such questions");
    if (extrapolated && (this.#ofPoints || this.periodUs === undefined)) {
      throw new ParameterError("readings.extrapolated", extrapolated, "false, but of recurring questions");
    }
  }

  #build(message: CampaignMessage, asked: readonly queries.Query[]): readonly Mechanism[] {
    const privacy = this.#inPlane(this.answerPrivacy);
    positive("epsilon", privacy.epsilon);
    const { cap } = this;
    if (cap) {
      if (this.#ofPoints || this.readings) throw new ParameterError("cap", cap, "left out where points are perturbed");
      asked = asked.map((q) => queries.capped(q, cap, exactRate(privacy)));
    }
    const kind = message.mechanism!.kind;
    const together = this.allocation === "vector"; // where each band may be passed
    this.#each = asked.map(
      (q) => largestEpsilon(q, privacy, kind.case === "lipschitzLaplace") * ((together && q.edges?.length) || 1),
    );
    if (together) {
      this.#vector = vectorOf(asked, privacy, kind.case === "smooth" ? kind.value : undefined, this.stepExponent);
      return this.#vector.answers;
    }
    switch (kind.case) {
      case "debiasedLaplace":
        return asked.map((q) => debiasedLaplace(q, privacy, this.stepExponent));
      case "lipschitzLaplace":
        return asked.map((q) => lipschitzLaplace(q, privacy, this.stepExponent));
      case "smooth":
        return asked.map((q) => smooth(q, privacy, kind.value, this.stepExponent));
      case "planarLaplace":
        return [new PlanarLaplace(privacy, this.dimension, this.stepExponent)];
      default:
        throw new UnsupportedError("mechanism is of no kind that this client knows");
    }
  }
}

/** Load the code that few campaigns need. */
export async function loadFor(bytes: Uint8Array): Promise<void> {
  if (parse(CampaignSchema, bytes, "campaign").allocation === Allocation.VECTOR) await loadVectors();
}

export interface Answer {
  readonly queryIndex: number;
  /** It stands for value · 2^stepExponent. */
  readonly value: bigint;
}

/** What an answer is extrapolated from. */
export interface Before {
  readonly point: readonly bigint[];
  readonly ageUs: bigint;
  readonly gapUs: bigint;
}

export interface Drawn {
  readonly id: bigint;
  readonly answers: readonly Answer[];
}

export function parse<T extends Message>(schema: GenMessage<T>, bytes: Uint8Array, name: string): T {
  try {
    return fromBinary(schema, bytes);
  } catch {
    throw new ParameterError(name, `${bytes.length} bytes`, "a message of the protocol");
  }
}

export type Ends = readonly [number, number];

/** The points between which an attribute's numbers are clamped. */
export function endsOf({ least, most, scale }: Attribute): Ends | undefined {
  if (least === undefined || most === undefined) return undefined;
  const point = (end: number): number => (scale ? coordinateOf(scale, end) : end);
  return [point(least), point(most)];
}

/** A finite number, clamped. */
export function clampedTo([low, high]: Ends, point: readonly number[]): number[] {
  const [x] = point;
  if (point.length !== 1 || !Number.isFinite(x)) throw new PrivateValueError("one finite number");
  return [Math.min(Math.max(x!, low), high)];
}

/** ε between any two points, in the coordinates of queries; Infinity: nothing bounds how far apart they are. */
export function largestOfPoints({ coordinates }: Attribute, privacy: Privacy, ends: Ends | undefined): number {
  const across = coordinates ? Rational.from(coordinates.radiusM).mul(ACROSS) : ends && Rational.from(ends[1]).sub(Rational.from(ends[0]));
  return across ? exactRate(privacy).mul(across).roundUp() : Infinity;
}

export function attributeOf(found: CampaignMessage["attribute"]): Attribute {
  if (!found) throw new ParameterError("attribute", "none", "in every campaign");
  let coordinates: Plane | undefined;
  let scale: LogScale | undefined;
  if (found.coordinates.case === "azimuthalEquidistant") {
    const { longitudeDeg, latitudeDeg, radiusM } = found.coordinates.value;
    coordinates = { longitudeDeg, latitudeDeg, radiusM };
    requirePlane(coordinates);
  } else if (found.coordinates.case === "logScaleFloor") {
    scale = { floor: positive("floor", found.coordinates.value) };
  }
  plain("attribute.name", found.name, 64);
  plain("attribute.unit", found.unit, 64);
  if (coordinates && found.unit !== "metre") throw new ParameterError("attribute.unit", found.unit, "'metre' for places");
  // Policies and ledgers tell ratios from differences by their units.
  if (LOG.test(found.unit) === !scale) throw new ParameterError("attribute.unit", found.unit, "'log dollar' on a log scale");
  requireEnds("attribute", found);
  const { name, unit, least, most } = found;
  return { name, unit, coordinates, scale, valueUnit: unit.replace(LOG, ""), least, most };
}

export function privacyOf({ privacy, mechanism }: { privacy?: CampaignMessage["privacy"]; mechanism?: CampaignMessage["mechanism"] }): Privacy {
  const { epsilon, per, delta, reach } = privacy ?? { epsilon: 0, per: 0, delta: 0, reach: undefined };
  const pure = { epsilon: positive("privacy.epsilon", epsilon), per: positive("privacy.per", per) };
  if (!(delta >= 0 && delta < 1)) throw new ParameterError("privacy.delta", delta, "a number in [0, 1)");
  if (reach !== undefined && !(reach > 0)) throw new ParameterError("privacy.reach", reach, "a number > 0 (infinity is permitted)");
  if (reach === Infinity) throw new UnsupportedError("privacy.reach is not in canonical form: left out");
  if (Object.is(delta, -0)) throw new UnsupportedError("privacy.delta is not in canonical form: -0");
  if (delta === 0 && reach !== undefined) throw new ParameterError("privacy.reach", reach, "left out without a delta");
  const kind = mechanism?.kind;
  if (delta > 0 && !(kind?.case === "smooth" && hasSlack(kind.value))) {
    throw new ParameterError("privacy.delta", delta, "0, except for smooth noise of the family laplace");
  }
  if (delta === 0) return pure;
  return { ...pure, delta, ...(reach !== undefined && { reach }) };
}

function allocationOf(allocation: Allocation): Campaign["allocation"] {
  switch (allocation) {
    case Allocation.PARTITION:
      return "partition";
    case Allocation.SPLIT:
      return "split";
    case Allocation.REPEAT:
      return "repeat";
    case Allocation.VECTOR:
      return "vector";
    default:
      throw new ParameterError("allocation", allocation, "one of 1, 2, 3, 4");
  }
}

function readingsOf({ every, extrapolated, cohorts }: ReadingsMessage): Readings {
  return new Readings(duration("readings.every", every ?? { seconds: 0n, nanos: 0 }), extrapolated, cohorts);
}

function dimensionOf({ mechanism }: CampaignMessage): number {
  const kind = mechanism!.kind;
  const dimension = kind.case === "planarLaplace" ? kind.value.dimension : 0;
  if (dimension < 1 || dimension > 3) throw new ParameterError("mechanism.dimension", dimension, "one of 1, 2, 3");
  return dimension;
}

const LONGEST_S = 315_576_000_000n;
const FIRST_S = -62_135_596_800n;
const LAST_S = 253_402_300_799n;

function dateOf(us: bigint): Date {
  return new Date(Number(us / 1000n));
}

function microseconds(name: string, stamp: { seconds: bigint; nanos: number } | undefined): bigint {
  const { seconds, nanos } = stamp ?? { seconds: 0n, nanos: 0 };
  if (seconds < FIRST_S || seconds > LAST_S || nanos < 0 || nanos > 999_999_999) {
    throw new ParameterError(name, seconds, "a date between the years 1 and 9999");
  }
  if (nanos % 1000) throw new UnsupportedError(`${name} is not in canonical form: whole microseconds`);
  return seconds * 1_000_000n + BigInt(nanos / 1000);
}

function duration(name: string, { seconds, nanos }: { seconds: bigint; nanos: number }): bigint {
  if (seconds < -LONGEST_S || seconds > LONGEST_S || Math.abs(nanos) >= 1e9) {
    throw new ParameterError(name, seconds, "at most ten years");
  }
  if (nanos % 1000 || (seconds > 0n && nanos < 0) || (seconds < 0n && nanos > 0)) {
    throw new UnsupportedError(`${name} is not in canonical form: whole microseconds of one sign`);
  }
  return seconds * 1_000_000n + BigInt(nanos / 1000);
}

const PROFILES: Partial<Record<Profile, queries.ProfileName>> = {
  [Profile.LINEAR]: "linear",
  [Profile.SMOOTHSTEP]: "smoothstep",
};

function profileOf(profile: Profile): queries.ProfileName {
  const name = PROFILES[profile];
  if (!name) throw new ParameterError("profile", profile, "one of 1, 2");
  return name;
}

function tableOf(table: { at: number[]; values: number[]; slopes: number[] } | undefined, ray: boolean): Table {
  const { at, values, slopes } = table ?? { at: [], values: [], slopes: [] };
  const found = new Table(at, values, slopes, ray);
  if (found.at.length !== at.length) throw new UnsupportedError("the table is not in canonical form: it begins at 0");
  return found;
}

function questionOf(message: QueryMessage, name: string): { question: Question; query: queries.Query } {
  const label = plain(`${name}.label`, message.label, 100);
  const { softness, kind } = message;
  if (softness && !(Number.isFinite(softness.expectedDifference) && softness.bound >= 0 && softness.bound <= MOST)) {
    throw new ParameterError(`${name}.softness`, softness.bound, "a finite difference, and a bound >= 0");
  }
  const { value } = kind;
  const shown = (profile?: queries.ProfileName): Question => {
    const fields = Object.entries(value ?? {}).filter(([field]) => !field.startsWith("$"));
    return { label, query: { ...Object.fromEntries(fields), ...(profile && { profile }), kind: kind.case ?? "" } };
  };
  switch (kind.case) {
    case "threshold": {
      const profile = profileOf(kind.value.profile);
      return { question: shown(profile), query: queries.threshold(kind.value.at, kind.value.width, profile) };
    }
    case "range": {
      const profile = profileOf(kind.value.profile);
      const { low, high, width } = kind.value;
      return { question: shown(profile), query: queries.range(low, high, width, profile) };
    }
    case "twoWayThreshold": {
      const profile = profileOf(kind.value.profile);
      const { first, second, width } = kind.value;
      return { question: shown(profile), query: queries.twoWayThreshold(first, second, width, profile) };
    }
    case "disc": {
      const profile = profileOf(kind.value.profile);
      const { center, radius, width } = kind.value;
      return { question: shown(profile), query: queries.disc(center, radius, width, profile) };
    }
    case "polygon": {
      const profile = profileOf(kind.value.profile);
      const given = kind.value.parts.map((part) => part.rings.map((ring) => ring.coordinates));
      const region = readRegion(given);
      if (region.some((part, i) => part.some((ring, j) => 2 * ring.length !== given[i]![j]!.length))) {
        throw new UnsupportedError("a ring is not in canonical form: it repeats a point");
      }
      return { question: shown(profile), query: queries.polygon(given, kind.value.width, profile) };
    }
    case "gaussianKernel":
      return { question: shown(), query: queries.gaussianKernel(kind.value.center, kind.value.bandwidth) };
    case "radial":
      return { question: shown(), query: queries.radial(kind.value.center, tableOf(kind.value.profile, true)) };
    case "linear": {
      const { direction, offset, profile } = kind.value;
      return { question: shown(), query: queries.linear(direction, offset, tableOf(profile, false)) };
    }
    default:
      throw new UnsupportedError(`${name} asks something of no kind that this client knows`);
  }
}

