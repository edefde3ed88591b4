/** Forms: several answers of one person, each perturbed separately, sent as one report. */
import { type Attribute, attributeOf, type Campaign, clampedTo, Dated, type Drawn, endsOf, largestOfPoints, messageOf, privacyOf } from "./campaign.js";
import { countedAs, likelihood, toldApart } from "./consent.js";
import { GeoveilError, ParameterError, PrivateValueError, UnsupportedError } from "./errors.js";
import type { BitSource } from "./exact/bits.js";
import { Rational, ZERO } from "./exact/rational.js";
import { choiceOf, MOST_EPSILON, release } from "./gp/categories.js";
import { exactRate, PlanarLaplace, type Privacy, repeated } from "./gp/mechanism.js";
import { inPlane } from "./gp/plane.js";
import { LEAST, positive } from "./gp/profile.js";
import { kindOf, type PolicyOptions } from "./policy.js";
import { percent, times } from "./saying.js";
import { plain, requireLanguages } from "./text.js";
import { spokenAttribute } from "./texts.js";
import { pointOf } from "./values.js";
import { digits, say } from "./words.js";

/** The texts of a field in one language. */
export interface Wording {
  /** A BCP 47 tag; "" if none is stated. */
  readonly language: string;
  /** "": the name of the field is used. */
  readonly text: string;
  /** One for each option; empty: the options themselves. */
  readonly options: readonly string[];
  /** The unit of a number or a place; "": the attribute's. */
  readonly unit: string;
}

/** The people to whom a field applies: those who gave one of some answers to an earlier field. */
export interface Condition {
  readonly field: string;
  readonly options: readonly string[];
}

/** An answer in the coordinates of queries, or an option's index or a mask of them. Private. */
export type Prepared = readonly number[] | bigint;

/** One answer of a form. */
export interface Field {
  readonly kind: "number" | "place" | "choice" | "ordinal" | "multiple";
  readonly name: string;
  readonly attribute: Attribute;
  /** Undefined: the answer is sent as it is. */
  readonly privacy: Privacy | undefined;
  readonly options: readonly string[];
  /** For "multiple": the most options that one person ticks. */
  readonly most: number | undefined;
  /** The first is the default. */
  readonly wordings: readonly Wording[];
  /** Undefined: it applies to everybody. */
  readonly applies: Condition | undefined;
  /** Its number of integers in a report. */
  readonly columns: number;
  /** ε between any two answers; Infinity: nothing is promised for some. */
  readonly largestEpsilon: number;
  /** The largest ε between any answer and the one that stands for "does not apply". */
  readonly epsilonIfNotAsked: number;
  prepare(answer: unknown): Prepared;
  /** What people release to whom it does not apply. */
  readonly notAsked: Prepared;
  release(prepared: Prepared, source: BitSource): bigint[];
  /** Its integers in a report are multiplied by 2 to this power; 0 for options. */
  readonly stepExponent: number;
  /** What its integers in a report stand for: coordinates, or indices of options, from 0. */
  sent(values: readonly bigint[]): number[];
}

/** What a report costs one attribute. */
export interface Charge {
  readonly attribute: string;
  readonly unit: string;
  readonly privacy: Privacy;
  /** ε between any two values; Infinity: nothing is promised. */
  readonly anyTwo: number;
}

/** Name of a field → answer: a number, a place, an option, or a list of options. */
export type Answers = Readonly<Record<string, unknown>>;

/** A form, parsed and checked. */
export interface Form extends Dated {
  readonly fields: readonly Field[];
  readonly columns: number;
  /** Without open fields. Revealing that a field applies is charged to the field that decides it. */
  readonly charges: readonly Charge[];
  /** ε between any two forms; Infinity: nothing is promised for some. */
  readonly largestEpsilon: number;
  /** The fields that apply to somebody who gives these answers. Private. */
  applying(answers: Answers): Field[];
  /** The powers of two by which the integers of a report are multiplied. */
  readonly exponents: readonly number[];
  /** What the reports reveal about anybody: a sentence for each field, then those about all together. */
  readonly tells: string[];
  /** What the reports reveal about one person's answer to a field: private, for that person alone. */
  tellsOf(name: string, answer: unknown): string[];
  /** The policy of somebody who has seen the form and agreed. */
  readonly permission: Pick<PolicyOptions, "limits" | "openly">;
  /** Refuses missing answers and unknown fields; the answer to a field that does not apply has no effect. Private. */
  prepare(answers: Answers): Prepared[];
  /** The id, then each field's integers, in this order. */
  draw(prepared: readonly Prepared[], source: BitSource): Drawn;
}

const tools = {
  attributeOf,
  choiceOf,
  clampedTo,
  countedAs,
  Dated,
  digits,
  endsOf,
  exactRate,
  inPlane,
  kindOf,
  largestOfPoints,
  LEAST,
  likelihood,
  messageOf,
  MOST_EPSILON,
  ParameterError,
  percent,
  plain,
  PlanarLaplace,
  pointOf,
  positive,
  PrivateValueError,
  privacyOf,
  Rational,
  release,
  repeated,
  requireLanguages,
  say,
  spokenAttribute,
  times,
  toldApart,
  UnsupportedError,
  ZERO,
};
export type Tools = typeof tools;

let code: typeof import("./fields.js") | undefined;

/** Load the code for forms. */
export async function loadForms(): Promise<void> {
  code ??= await import("./fields.js");
}

/** Read a form from its bytes; refuse one that is unsound or has unknown parts. */
export function readForm(bytes: Uint8Array): Form {
  if (!code) throw new GeoveilError("unsupported", "await loadForms() first");
  return code.readForm(tools, bytes);
}

export function isForm(campaign: Campaign | Form): campaign is Form {
  return "fields" in campaign;
}
