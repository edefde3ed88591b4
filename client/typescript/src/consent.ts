/**
 * What a campaign's reports reveal about somebody, as sentences for the person, before and after. Every
 * number is computed from the campaign's own mechanism; the words are those of Python
 * (`geoveil.campaign.consent`), which proto/vectors/consent.json holds both to.
 */
import type { Attribute, Campaign } from "./campaign.js";
import type { Form } from "./form.js";
import { placeOf, pointOf, type Value } from "./values.js";
import { LOG } from "./gp/log-scale.js";
import type { Privacy } from "./gp/mechanism.js";
import { holds } from "./gp/plane.js";
import { LEAST } from "./gp/profile.js";
import type { GeoPrivacy } from "./policy.js";
import { between, both, grown, odds, onScale, percent, ratio, rightAtMost, roundedUp, times, toOne } from "./saying.js";
import { type Texted, textsOf } from "./texts.js";
import { digits, type Key, say } from "./words.js";

const SHOWN = 3;
const USUALLY_WITHIN = [3, 4.74, 6.3];
const [SURE, HARDLY, MOSTLY] = [0.99, 0.6, 0.5];
/** Multiples of the largest threshold, and of the guarantee's distance: a value beyond both is likely a slip. */
const [FAR, FAR_APART] = [10, 100];

/** The fields with the numbers to which a question compares a value. */
const EDGES: Readonly<Record<string, readonly string[]>> = { threshold: ["at"], range: ["low", "high"], twoWayThreshold: ["first", "second"] };

/** ε at a distance. */
function at({ epsilon, per }: Privacy, apart: number): number {
  return (epsilon / per) * apart;
}

/** The distance that sentences are about. */
function apartOf({ per, reach = Infinity }: Privacy): number {
  return Math.min(per, reach);
}

/** How another value differs: by a distance, or by a factor. */
function away(apart: number, unit: string): string {
  if (!LOG.test(unit)) return say("away", { x: digits(apart), unit });
  const factor = ratio(apart);
  return factor === digits(2) ? say("away.twice") : say("away.factor", { factor });
}

/** A coordinate, as the value that it stands for. */
function held({ scale }: Attribute, coordinate: number): string {
  return scale ? onScale(coordinate) : digits(coordinate);
}

/** What a sentence is about. */
type Subject = "report" | "reading" | "all" | "field";
type Names = Readonly<Record<string, string>>;

/** A guarantee as a sentence: how much likelier a report is for one value than another. */
export function likelihood(privacy: Privacy, unit: string, subject: Subject, yours: string, anyTwo: number, more = "", names: Names = {}): string {
  const apart = apartOf(privacy);
  const factor = times(Math.min(at(privacy, apart), anyTwo));
  const other = say("one", { away: away(apart, unit) });
  if (!factor) return say("hidden", { subject: say(`${subject}.hides`, names), yours, other });
  return say("likely", { subject: say(`${subject}.is`, names), factor, yours, other, slack: slack(privacy) + more });
}

function slack({ delta }: Privacy): string {
  return delta ? say("slack", { many: digits(Math.floor(1 / delta + 1e-6)) }) : "";
}

/** The promise for values at any distance, as a sentence. */
function howeverFar(nats: number, privacy: Privacy, subject: Subject, yours: string, names: Names = {}): string {
  if (!toOne(nats)) return say("far.none", { subject: say(`${subject}.hides`, names) });
  return say("far", { subject: say(`${subject}.is`, names), factor: digits(roundedUp(Math.exp(nats), 4)), yours, slack: slack(privacy) });
}

/**
 * What reports to a campaign reveal about anybody, as sentences for the people asked.
 *
 * @param reading - what one reading costs under the app's own policy; undefined: there are none but those that the
 *   campaign asks for.
 */
export function whatItTells(campaign: Campaign | Form, reading?: GeoPrivacy): string[] {
  if ("fields" in campaign) return campaign.tells;
  const { reportPrivacy, totalPrivacy } = campaign;
  const { attribute } = textsOf(campaign);
  const { name, unit } = attribute;
  const privacy = reading ?? reportPrivacy;
  const yours = say("yours", { name });
  const fromReading = reading !== undefined || campaign.readings !== undefined;
  const subject = fromReading ? "reading" : "report";
  const most = fromReading ? Infinity : campaign.largestEpsilon;
  const chance = rightBetween(privacy, apartOf(privacy), most);
  const said = [likelihood(privacy, unit, subject, yours, most), odds(chance) ? say("guessed", { often: percent(chance) }) : say("guessed.always")];
  said.push(howeverFar(most, privacy, subject, yours));
  if (privacy.reach !== undefined) said.push(say("reach", { x: digits(privacy.reach), unit }));
  said.push(...countedAs(attribute, campaign.clamped && !reading));
  if (!reading && (totalPrivacy.epsilon !== reportPrivacy.epsilon || totalPrivacy.delta !== reportPrivacy.delta)) {
    const [many, far] = [digits(Number(campaign.periods)), most * Number(campaign.periods)];
    said.push(likelihood(totalPrivacy, unit, "all", yours, far, "", { many }));
    if (toOne(most)) said.push(howeverFar(far, totalPrivacy, "all", yours, { many }));
  }
  if (!campaign.questions.length) {
    const { dimension } = campaign;
    // Of true distances: in the plane places are farther apart, and noise is larger.
    const scale = campaign.answerPrivacy.per / campaign.answerPrivacy.epsilon;
    const usual = USUALLY_WITHIN[dimension - 1]! * scale;
    const within = attribute.scale ? 1 + roundedUp(Math.expm1(Math.min(usual, 700)), 2) : roundedUp(usual, 2);
    const often = percent(gammaShare((attribute.scale ? Math.log(within) : within) / scale, dimension));
    const near = attribute.scale ? say("near.factor", { factor: digits(within) }) : `${digits(within)} ${unit}`;
    said.push(say(dimension === 1 ? "near.number" : "near.point", { near, often }));
  }
  return said;
}

/** The values between which all can be told apart; empty if all can. */
export function countedAs({ scale, least, most, valueUnit }: Attribute, clamped: boolean): string[] {
  if (!scale && !clamped) return [];
  const low = Math.max(scale?.floor ?? -Infinity, clamped ? least! : -Infinity);
  const told = { least: digits(low), unit: valueUnit };
  return [clamped ? say("clamped", { ...told, most: digits(Math.max(low, most!)) }) : say("floor", told)];
}

/**
 * How well a value can be told from another, at the distance that the sentences are about. It holds the
 * private value.
 */
export function toldApart(attribute: Attribute, privacy: Privacy, point: readonly number[], anyTwo: number, begins: Key = "begins.report"): string {
  const apart = apartOf(privacy);
  const pair =
    point.length === 1
      ? say("pair.numbers", { one: held(attribute, point[0]!), other: held(attribute, point[0]! + apart), unit: attribute.valueUnit })
      : say("pair.values", { name: attribute.name, other: say("one", { away: away(apart, attribute.unit) }) });
  const odds = privacy.delta ? undefined : toOne(anyTwo);
  return better(pair, rightBetween(privacy, apart, anyTwo), odds ? say("better.far", { odds }) : "", begins);
}

/**
 * What a report reveals about one person, as sentences for that person alone: they contain the private value.
 *
 * @param read - whether the app's policy has one reading answer the campaign.
 */
export function whatItTellsOf(campaign: Campaign, value: Value, read = false): string[] {
  const privacy = read ? campaign.answerPrivacy : campaign.reportPrivacy;
  const most = read ? Infinity : campaign.largestEpsilon;
  const { attribute, questions } = textsOf(campaign);
  const { name, unit } = attribute;
  const point = pointOf(campaign, value);
  const said = [toldApart(attribute, privacy, point, most)];
  const guesses: { right: number; plain: number; inside: boolean; index: number }[] = [];
  questions.forEach(({ label, query }, index) => {
    const law = campaign.ownSide(index, point, read || campaign.readings !== undefined);
    if (law) guesses.push({ ...law, index });
    else if (query.kind === "gaussianKernel" || query.kind === "radial") {
      const distance = Math.hypot(...point.map((x, i) => x - (query.center as number[])[i]!));
      if (distance < LEAST) return;
      const far = distance > (privacy.reach ?? Infinity);
      const chance = far ? 1 : rightBetween(privacy, distance, most);
      said.push(better(say("pair.centre", { name, label, x: digits(roundedUp(distance, 3)), unit }), chance));
    }
  });
  guesses.sort((a, b) => Math.round(1e6 * b.right) - Math.round(1e6 * a.right));
  const only = campaign.columns === 1;
  for (const { right, plain, inside, index } of guesses.slice(0, SHOWN)) {
    const { label } = questions[index]!;
    const begins = say(only ? "begins.report" : campaign.answersAll ? "begins.answer" : "begins.if", { label });
    const key = right >= SURE ? "guess.sure" : right >= HARDLY ? "guess" : "guess.hardly";
    said.push(say(key, { begins, name, region: region(campaign, index, inside), often: percent(right) }));
    if (plain > MOSTLY) {
      const answer = say(inside ? "plain.yes" : "plain.no");
      said.push(say(only ? "plain.report" : "plain.answer", { answer, often: percent(plain) }));
    }
  }
  if (guesses.length > SHOWN) said.push(say("others", { n: guesses.length - SHOWN, often: percent(guesses[SHOWN]!.right) }));
  if (campaign.readings?.extrapolated) said.push(say("fresh"));
  return said;
}

/**
 * A question for somebody whose value is likely a slip, to ask before anything leaves; else "". A slip
 * is a place outside the campaign's area, or a number beyond the campaign's stated range. Without a
 * stated range: a number below 0 where no threshold is, or one beyond both ten times the largest
 * threshold and a hundred times the guarantee's distance. It holds the private value.
 */
export function whatToAsk(campaign: Pick<Campaign, "attribute" | "dimension" | "privacy" | "questions">, value: Value): string {
  const { dimension, privacy } = campaign;
  const { attribute, questions } = textsOf<typeof campaign & Texted>(campaign);
  const { name, valueUnit, coordinates, scale } = attribute;
  const point = pointOf(campaign, value);
  if (coordinates) {
    if (holds(coordinates, placeOf(campaign, value)!)) return "";
    return say("asks.outside", { name });
  }
  // On a log scale, in the unit of values, without distances.
  const numbers = scale ? [value].flat() as number[] : point;
  const edges = questions
    .flatMap(({ query }) => (EDGES[query.kind] ?? []).flatMap((field) => query[field] as number | number[]))
    .map((edge) => (scale ? grown(edge) : edge));
  edges.push(...[attribute.least, attribute.most].filter((end) => end !== undefined));
  const lowest = edges.length ? Math.min(...edges) : dimension === 1 ? 0 : -Infinity;
  const far = Math.max(FAR * Math.max(0, ...edges.map(Math.abs)), scale ? (questions.length ? 0 : Infinity) : FAR_APART * privacy.per);
  const { least = lowest >= 0 ? 0 : -far, most = far } = attribute;
  if (numbers.every((x) => least <= x && x <= most)) return "";
  const expected = between(attribute);
  const expects = expected && say("asks.expects", { range: expected });
  return say("asks.number", { numbers: both(numbers.map((x) => digits(x))), name, unit: valueUnit }) + expects;
}

/** The side of a question on which a value is, in words. */
export function region(campaign: Campaign, index: number, inside: boolean): string {
  const { questions, attribute } = textsOf(campaign);
  const { label, query } = questions[index]!;
  const unit = attribute.valueUnit;
  const shown = (field: string): string => held(attribute, query[field] as number);
  if (query.kind === "threshold") return say(inside ? "region.above" : "region.below", { x: shown("at"), unit });
  if (query.kind === "range") return say(inside ? "region.between" : "region.beyond", { low: shown("low"), high: shown("high"), unit });
  return say(inside ? "region.inside" : "region.outside", { label });
}

/** How often a guess between two values is right, with `most` as ε between any two. */
function rightBetween(privacy: Privacy, apart: number, most: number): number {
  return rightAtMost(Math.min(at(privacy, apart), most), privacy.delta);
}

function better(pair: string, chance: number, far = "", begin: Key = "begins.report"): string {
  const [sure, begins] = [odds(chance), say(begin)];
  return sure ? say("better", { begins, pair, odds: sure, far }) : say("better.none", { begins, pair });
}

function gammaShare(x: number, shape: number): number {
  const terms = [1, x, (x * x) / 2].slice(0, shape);
  return 1 - Math.exp(-x) * terms.reduce((sum, term) => sum + term, 0);
}
