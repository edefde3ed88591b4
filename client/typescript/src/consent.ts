/**
 * What a campaign's reports tell about somebody, as sentences for the person: before and after. Every
 * number is computed from the campaign's own mechanism; the words are those of Python
 * (`geoveil.campaign.consent`), which proto/vectors/consent.json holds both to.
 */
import type { Attribute, Campaign } from "./campaign.js";
import type { Form } from "./form.js";
import { placeOf, pointOf, type Value } from "./values.js";
import { LOG } from "./gp/log-scale.js";
import type { Privacy } from "./gp/mechanism.js";
import { holds } from "./gp/plane.js";
import type { GeoPrivacy } from "./policy.js";
import { between, digits, grown, odds, onScale, percent, ratio, rightAtMost, roundedUp, times, toOne } from "./saying.js";

const SHOWN = 3;
const USUALLY_WITHIN = [3, 4.74, 6.3];
const [SURE, HARDLY, MOSTLY] = [0.99, 0.6, 0.5];
/** Times as far from 0 as what is asked about, or as what the guarantee is stated for: beyond both is likely a slip. */
const [FAR, FAR_APART] = [10, 100];

/** The fields that hold the numbers which a question compares a value with. */
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
  if (!LOG.test(unit)) return `${digits(apart)} ${unit} away`;
  const factor = ratio(apart);
  return factor === "2" ? "half or twice as much" : `a factor of ${factor} larger or smaller`;
}

/** A coordinate, as the value that is held there. */
function held({ scale }: Attribute, coordinate: number): string {
  return scale ? onScale(coordinate) : digits(coordinate);
}

/** A guarantee as a sentence: how much likelier a report is for one value than another. */
export function likelihood(privacy: Privacy, unit: string, subject: string, yours: string): string {
  const apart = apartOf(privacy);
  const factor = times(at(privacy, apart));
  const other = `one ${away(apart, unit)}`;
  if (!factor) return `${does(subject)} not hide the difference between ${yours} and ${other}.`;
  return `${subject} at most ${factor} times as likely for ${yours} as for ${other}${slack(privacy)}.`;
}

/** A subject and its verb, "This report is", with another verb: "This report does". */
function does(subject: string): string {
  return subject.replace(/ is( together)?$/, " does").replace(/ are( together)?$/, " do");
}

function slack({ delta }: Privacy): string {
  return delta ? `, plus a chance of at most 1 in ${digits(Math.floor(1 / delta + 1e-6))}` : "";
}

/** What is promised of values at any distance, as a sentence. */
function howeverFar(nats: number, privacy: Privacy, subject: string, yours: string): string {
  const factor = toOne(nats)?.split(" ")[0];
  if (!factor) return `${does(subject)} not hide which of two very different values you have.`;
  return `${subject} at most ${factor} times as likely for ${yours} as for any other, however far away${slack(privacy)}.`;
}

/**
 * What reports to a campaign tell about anybody, as sentences for those who are asked.
 *
 * @param reading - what one reading costs under the app's own policy; undefined: there are none but those that the
 *   campaign asks for.
 */
export function whatItTells(campaign: Campaign | Form, reading?: GeoPrivacy): string[] {
  if ("fields" in campaign) return campaign.tells;
  const { attribute, reportPrivacy, totalPrivacy } = campaign;
  const { name, unit } = attribute;
  const privacy = reading ?? reportPrivacy;
  const yours = `your ${name}`;
  const fromReading = reading !== undefined || campaign.readings !== undefined;
  const subject = fromReading ? "All that is made from one reading is together" : "This report is";
  const chance = rightAtMost(at(privacy, apartOf(privacy)), privacy.delta);
  const said = [
    likelihood(privacy, unit, subject, yours),
    odds(chance)
      ? `Somebody who thinks that both are equally likely, and guesses from it, is right at most ${percent(chance)} of the time.`
      : "Whoever guesses between the two from it can be right nearly always.",
  ];
  const most = fromReading ? Infinity : campaign.largestEpsilon;
  said.push(howeverFar(most, privacy, subject, yours));
  if (privacy.reach !== undefined) said.push(`For values more than ${digits(privacy.reach)} ${unit} apart less is promised.`);
  said.push(...countedAs(attribute, campaign.clamped && !reading));
  if (!reading && (totalPrivacy.epsilon !== reportPrivacy.epsilon || totalPrivacy.delta !== reportPrivacy.delta)) {
    const all = `All ${digits(Number(campaign.periods))} reports of this survey are together`;
    said.push(likelihood(totalPrivacy, unit, all, yours));
    if (toOne(most)) said.push(howeverFar(most * Number(campaign.periods), totalPrivacy, all, yours));
  }
  if (!campaign.questions.length) {
    const { dimension } = campaign;
    const scale = campaign.pointMechanism.scale.toNumber();
    const usual = USUALLY_WITHIN[dimension - 1]! * scale;
    const within = roundedUp(attribute.scale ? grown(usual) : usual, 2);
    const often = percent(gammaShare((attribute.scale ? Math.log(within) : within) / scale, dimension));
    const near = attribute.scale ? `a factor of ${digits(within)}` : `${digits(within)} ${unit}`;
    said.push(`A ${dimension === 1 ? "number" : "point"} is sent that is within ${near} of yours ${often} of the time.`);
  }
  return said;
}

/** Between which values all are told apart; nothing if all are. */
export function countedAs({ scale, least, most, valueUnit }: Attribute, clamped: boolean): string[] {
  if (!scale && !clamped) return [];
  const low = Math.max(scale?.floor ?? -Infinity, clamped ? least! : -Infinity);
  const lowest = `${digits(low)} ${valueUnit}`;
  const highest = clamped && digits(Math.max(low, most!));
  return [`Less than ${lowest} counts as ${lowest}${highest ? `, and more than ${highest} as ${highest}` : ""}.`];
}

/** How well a value can be told from another one, at the distance that sentences are about. It holds the private value. */
export function toldApart(attribute: Attribute, privacy: Privacy, point: readonly number[], anyTwo: number, begins?: string): string {
  const apart = apartOf(privacy);
  const pair =
    point.length === 1
      ? `${held(attribute, point[0]!)} from ${held(attribute, point[0]! + apart)} ${attribute.valueUnit}`
      : `your ${attribute.name} from one ${away(apart, attribute.unit)}`;
  const odds = toOne(anyTwo);
  const far = odds ? `, and no two values, however far apart, better than ${odds}` : "";
  return better(pair, rightAtMost(at(privacy, apart), privacy.delta), far, begins);
}

/**
 * What a report tells about one person, as sentences for nobody else: they hold the private value.
 *
 * @param read - whether the app's policy has one reading answer the campaign.
 */
export function whatItTellsOf(campaign: Campaign, value: Value, read = false): string[] {
  const { attribute, reportPrivacy, questions } = campaign;
  const { name, unit } = attribute;
  const point = pointOf(campaign, value);
  const said = [toldApart(attribute, reportPrivacy, point, read || reportPrivacy.delta ? Infinity : campaign.largestEpsilon)];
  const guesses: { right: number; plain: number; inside: boolean; index: number }[] = [];
  questions.forEach(({ label, query }, index) => {
    const law = campaign.ownSide(index, point, read || campaign.readings !== undefined);
    if (law) guesses.push({ ...law, index });
    else if (query.kind === "gaussianKernel" || query.kind === "radial") {
      const distance = Math.hypot(...point.map((x, i) => x - (query.center as number[])[i]!));
      if (!distance) return;
      const far = distance > (reportPrivacy.reach ?? Infinity);
      const chance = far ? 1 : rightAtMost(at(reportPrivacy, distance), reportPrivacy.delta);
      said.push(better(`your ${name} from the centre of “${label}” (${digits(roundedUp(distance, 3))} ${unit} away)`, chance));
    }
  });
  guesses.sort((a, b) => Math.round(1e6 * b.right) - Math.round(1e6 * a.right));
  const only = campaign.columns === 1;
  for (const { right, plain, inside, index } of guesses.slice(0, SHOWN)) {
    const { label } = questions[index]!;
    const begins = only ? "From it" : campaign.answersAll ? `From its answer to “${label}”` : `If it answers “${label}”, then from that`;
    said.push(guess(begins, `your ${name} is ${region(campaign, index, inside)}`, right));
    if (plain > MOSTLY) {
      said.push(`The ${only ? "report" : "answer"} is exactly ${inside ? "1, the plain yes" : "0, the plain no"}, ${percent(plain)} of the time.`);
    }
  }
  if (guesses.length > SHOWN) {
    const most = percent(guesses[SHOWN]!.right);
    said.push(`Of the other ${digits(guesses.length - SHOWN)} questions the best guess from one answer is right ${most} of the time.`);
  }
  if (guesses.length && campaign.readings?.extrapolated) said.push("That is so of a report made when your value was just read.");
  return said;
}

/**
 * What to ask somebody whose value is likely a slip, before anything leaves; else "". That is a place outside the
 * campaign's area, and a number beyond the range that the campaign states. Where it states none: a number below 0 where
 * no threshold is, and one beyond ten times the largest threshold, and beyond a hundred times the distance that the
 * guarantee is stated for. It holds the private value.
 */
export function whatToAsk(campaign: Pick<Campaign, "attribute" | "dimension" | "privacy" | "questions">, value: Value): string {
  const { attribute, dimension, privacy, questions } = campaign;
  const { name, valueUnit, coordinates, scale } = attribute;
  const point = pointOf(campaign, value);
  if (coordinates) {
    if (holds(coordinates, placeOf(campaign, value)!)) return "";
    return `The place is outside the area of the survey. Is it your ${name}? If so, it counts as the nearest place of the area.`;
  }
  // On a log scale in the unit of values, with no distance in it.
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
  const expects = expected && ` The survey expects ${expected}.`;
  return `You wrote ${numbers.map(digits).join(" and ")}. Is that your ${name}, in ${valueUnit}?${expects}`;
}

/** Which side of a question a value is on, in words. */
export function region({ questions, attribute }: Campaign, index: number, inside: boolean): string {
  const { label, query } = questions[index]!;
  const unit = attribute.valueUnit;
  const shown = (field: string): string => held(attribute, query[field] as number);
  if (query.kind === "threshold") return `${inside ? "at least" : "below"} ${shown("at")} ${unit}`;
  if (query.kind === "range") return `${inside ? "" : "not "}between ${shown("low")} and ${shown("high")} ${unit}`;
  return `${inside ? "inside" : "outside"} what “${label}” counts`;
}

function better(pair: string, chance: number, far = "", begins = "From it"): string {
  const sure = odds(chance);
  return sure ? `${begins} nobody can tell ${pair} better than ${sure}${far}.` : `${begins} somebody may tell ${pair}, nearly always.`;
}

function guess(begins: string, that: string, right: number): string {
  const often = `that guess is right ${percent(right)} of the time`;
  if (right >= SURE) return `${begins} the server can tell that ${that}, almost as surely as if you said so: ${often}.`;
  return `${begins} the server can ${right >= HARDLY ? "guess" : "hardly guess"} that ${that}: ${often}.`;
}

function gammaShare(x: number, shape: number): number {
  const terms = [1, x, (x * x) / 2].slice(0, shape);
  return 1 - Math.exp(-x) * terms.reduce((sum, term) => sum + term, 0);
}
