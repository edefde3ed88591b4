/**
 * The questions of a survey as inputs: one for a campaign about one attribute, one per field for a form.
 * What people type stays in these inputs: they are read when needed, and emptied once a report is
 * stored.
 */
import {
  type Answers,
  type Area,
  type Attribute,
  between,
  both,
  type Campaign,
  describeEpoch,
  digits,
  type Epoch,
  type Field,
  type Form,
  GeoveilError,
  inLanguage,
  isForm,
  type Key,
  type Offer,
  ratio,
  type Receipt,
  say,
  spoken,
  spokenAttribute,
  textsOf,
  type Value,
  whatItTells,
  whatItTellsOf,
  whatToAsk,
} from "./index.js";
import { type Meaning, readNumber, separatorsOf, spelled } from "./numbers.js";

/** With more options, people choose from a drop-down list. */
const MOST_BUTTONS = 12;

/** A price, and ε of any two answers; undefined: there is none. */
type Price = (NonNullable<Offer["price"]> & { readonly anyTwo: number }) | undefined;
type Asked = Pick<Campaign, "attribute" | "dimension" | "questions">;

/** A place in degrees. */
export interface Place {
  readonly longitude: number;
  readonly latitude: number;
}

/** Shows a place, and lets people point at one. */
export interface PlaceMap {
  readonly box: Node;
  /** Show a place, and return what is near it, in words; "" for nothing. */
  show(place: Place): string;
  close(): void;
}

/** Makes a map that calls `put` on a click, and `changed` when it shows something else. */
export type Maps = (asked: {
  readonly centre: Area;
  readonly questions: Campaign["questions"];
  readonly price: Price;
  readonly put: (place: Place) => void;
  readonly changed: () => void;
}) => PlaceMap;

/** What surrounds the inputs. */
export interface Surroundings {
  /** Called when an answer changes without an event from its input. */
  readonly changed: () => void;
  /** Prefix of the inputs' ids, to show several questions at once. */
  readonly prefix?: string;
  /** By default, places are asked for by their coordinates alone. */
  readonly maps?: Maps;
  /** The epoch of the app's policy whose readings answer the campaign. */
  readonly epoch?: Epoch | undefined;
}

interface Input {
  readonly box: HTMLElement;
  wrong(): string;
  clear(): void;
}

interface PointInput extends Input {
  read(): Value | null;
  shown(): string;
}

interface OptionsInput extends Input {
  read(): number | number[] | null;
}

/** A question, and the answer in its inputs. */
export interface Question {
  /** The name of a field; else "". */
  readonly name: string;
  readonly title: string;
  readonly box: HTMLElement;
  readonly attribute: Attribute;
  /** Whether it is a number or a place, not one of some options. */
  readonly point: boolean;
  /** Undefined of options. */
  readonly price: Price;
  /** Whether the answer is sent as it is. */
  readonly open: boolean;
  /** What it tells about anybody. */
  readonly tells: readonly string[];
  /** The people to whom it applies, in words; "": everybody. */
  readonly condition: string;
  /** What to tell people to whom it does not apply. */
  readonly skipped: string;
  /** Null until there is an answer. */
  read(): unknown;
  /** What is missing or invalid; else "". */
  wrong(): string;
  /** A question if the answer may be a slip; else "". */
  doubt(): string;
  /** The answer in words. */
  shown(): string;
  /** What the answer reveals about the person. */
  tellsOf(): readonly string[];
  /** What a report says about it, in words. */
  sent(values: readonly bigint[]): string;
  clear(): void;
}

/** An element; text never becomes markup. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Readonly<Record<string, string | undefined>> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The questions of what a server offers. */
export function questionsOf(offer: Offer, around: Surroundings): Question[] {
  const { campaign, price } = offer;
  if (!isForm(campaign)) {
    const anyTwo = around.epoch ? Infinity : campaign.largestEpsilon;
    return [ofAttribute(campaign, price && { ...price, anyTwo }, around)];
  }
  const { fields, tells, charges, permission } = campaign;
  const priced = (name: string): Price => {
    const [limit, charge] = [permission.limits[name]?.campaign, charges.find(({ attribute }) => attribute === name)];
    return limit && charge && { ...limit, anyTwo: charge.anyTwo * Number(campaign.periods) };
  };
  const { prefix } = around;
  return fields.map((field, at) =>
    ofField(campaign, field, tells[at]!, priced(field.name), prefix === undefined ? around : { ...around, prefix: `${prefix}${at}-` }),
  );
}

/** What to contribute: the answer, or those to the questions of a form that apply. */
export function contribution({ campaign }: Offer, questions: readonly Question[]): Value | Answers {
  if (!isForm(campaign)) return questions[0]!.read() as Value;
  return answersTo(applying(campaign, questions));
}

/** The questions that apply, given the answers so far. */
export function applying(campaign: Campaign | Form, questions: readonly Question[]): readonly Question[] {
  if (!isForm(campaign)) return questions;
  const names = new Set(campaign.applying(answersTo(questions)).map(({ name }) => name));
  return questions.filter(({ name }) => names.has(name));
}

function answersTo(questions: readonly Question[]): Answers {
  return Object.fromEntries(questions.map((question) => [question.name, question.read()]));
}

/** What an answer reveals, for somebody who reads the question above it. */
export function toldOf({ name, tells, tellsOf }: Pick<Question, "name" | "tells" | "tellsOf">): string[] {
  const named = name && say("field.name", { name });
  return [...tells, ...tellsOf()].map((text) => sentence(named && text.startsWith(named) ? text.slice(named.length) : text));
}

/** Titles in quotes, with "and" between them. */
function quoted(titles: readonly string[]): string {
  return both(titles.map((text) => say("quoted", { text })));
}

/** What a form asks for, in a sentence or two. */
export function aboutForm(questions: readonly Question[]): string {
  const open = questions.filter((one) => one.open).map(({ title }) => title);
  const n = questions.length;
  if (open.length === n) return say("asks.open", { n });
  return say("asks.form", { n, open: open.length ? say("asks.but", { titles: quoted(open) }) : "" });
}

/** A distance, or a factor, with its unit. */
export function distanceText(apart: number, unit: string): string {
  if (unit.startsWith("log ")) return say("distance.factor", { factor: ratio(apart), unit: unit.slice(4) });
  if (unit !== "metre") return `${digits(apart)} ${unit}`;
  return apart < 1000 ? `${digits(apart)} m` : `${digits(apart / 1000)} km`;
}

/** A price in words. */
export function costText({ epsilon, per }: { readonly epsilon: number; readonly per: number }, unit: string): string {
  return say("past.cost", { epsilon: digits(epsilon), distance: distanceText(per, unit) });
}

/** A time, as the language writes it. */
export function dateText(when: Date): string {
  return when.toLocaleString(spoken().locale ?? spoken().language, { dateStyle: "medium", timeStyle: "short" });
}

const ERRORS: Partial<Record<string, Key>> = {
  "answer-not-yet": "error.wait",
  "budget-exceeded": "error.budget",
  "campaign-not-found": "trouble.missing",
  "campaign-not-open": "error.closed",
  "policy-refused": "trouble.unable",
  "private-value": "error.value",
  "signature-invalid": "trouble.signature",
  storage: "error.storage",
  transport: "error.refused",
  unsupported: "trouble.unable",
};

/** What went wrong: in English with all details; in other languages its meaning. */
export function errorText(error: unknown): string {
  const { message, code } = error as GeoveilError;
  if (spoken().language === "en") return sentence(message);
  return say((error instanceof GeoveilError && ERRORS[code]) || "error");
}

/** All that leaves the device, in sentences. */
export function whatIsSent(campaign: Campaign | Form, questions: readonly Question[], epoch?: Epoch): string[] {
  const id = say("sent.id");
  if (isForm(campaign)) {
    const open = questions.filter((question) => question.open).map(({ title }) => title);
    const numbers = say("sent.form", { n: campaign.columns });
    const drawn = say("sent.drawn", { numbers, open: open.length ? say("sent.but", { titles: quoted(open) }) : "" });
    return [open.length === questions.length ? numbers : drawn, id, say("sent.nothing.form")];
  }
  const { readings } = campaign;
  const n = campaign.answersAll ? campaign.columns : Math.min(1, campaign.columns);
  const lines = [say(campaign.questions.length ? "sent.questions" : "sent.answer", { n }), id, say("sent.nothing")];
  if (epoch) lines.push(say("tell.epoch", { name: textsOf(campaign).attribute.name, epoch: describeEpoch(epoch) }));
  else if (readings) lines.push(say("sent.readings", { readings: readings.toString(), cost: costText(campaign.totalPrivacy, campaign.attribute.unit) }));
  if (readings && campaign.cohorts > 1) lines.push(readings.telling);
  return lines;
}

/** A report, line by line: the question, and what was sent. */
export function linesOf(campaign: Campaign | Form, questions: readonly Question[], { answers }: Pick<Receipt, "answers">): [string, string][] {
  if (!isForm(campaign)) return answers.map(({ queryIndex, perturbed }) => [asked(campaign, queryIndex), rounded(perturbed)]);
  let first = 0;
  return campaign.fields.map(({ columns }, i) => {
    const values = answers.slice(first, (first += columns)).map(({ value }) => value);
    return [questions[i]!.title, questions[i]!.sent(values)];
  });
}

/** What an answer is to. */
function asked(campaign: Campaign, index: number): string {
  const [cohort, column] = [Math.floor(index / campaign.columns), index % campaign.columns];
  const question = textsOf(campaign).questions[column]?.label ?? axis(campaign, column);
  return campaign.cohorts > 1 ? say("cohort", { cohort, label: question }) : question;
}

/** The name of a value that is sent whole, or its axis if it has several. */
function axis(campaign: Campaign, column: number): string {
  const { attribute } = textsOf(campaign);
  if (attribute.coordinates) return say(column ? "axis.north" : "axis.east");
  if (attribute.scale) return say("axis.log", { name: attribute.name });
  return campaign.columns > 1 ? `${attribute.name}, ${"xyz"[column]}` : attribute.name;
}

function rounded(x: number): string {
  return digits(x, 6);
}

function ofAttribute(campaign: Campaign, price: Price, around: Surroundings): Question {
  const { attribute, questions } = textsOf(campaign);
  const { epoch } = around;
  const title = sentence(attribute.name);
  const input = pointInput({ attribute, questions, dimension: campaign.dimension }, title, price, around);
  return {
    ...input,
    name: "",
    title,
    attribute,
    point: true,
    price,
    open: false,
    condition: "",
    skipped: "",
    tells: whatItTells(campaign, epoch?.privacy),
    doubt: () => whatToAsk(campaign, input.read()!),
    tellsOf: () => (input.wrong() ? [] : whatItTellsOf(campaign, input.read()!, epoch !== undefined)),
    sent: () => "",
  };
}

function ofField(form: Form, field: Field, tells: string, price: Price, around: Surroundings): Question {
  const { name, kind, privacy, columns: dimension } = field;
  const attribute = spokenAttribute(field);
  const wording = inLanguage(field.wordings);
  const title = wording?.text || field.wordings[0]?.text || name;
  const labels = wording?.options.length ? wording.options : field.options;
  const condition = conditionText(form, field);
  const named = (indices: readonly number[]): string => indices.map((index) => labels[index]).join(", ") || say("none");
  const shared = {
    name,
    title,
    attribute,
    open: !privacy,
    condition,
    tells: [tells],
    skipped: say("skipped", { instead: inItsPlace(field, labels) }),
  };
  const noted = ({ box }: Input): HTMLElement => {
    for (const note of [condition, privacy ? "" : say("open")]) if (note) box.append(make("p", { class: "note" }, note));
    if (wording?.language) [box.lang, box.dir] = [wording.language, directionOf(wording.language)];
    return box;
  };
  if (kind === "number" || kind === "place") {
    const input = pointInput({ attribute, dimension, questions: [] }, title, price, around);
    return {
      ...shared,
      ...input,
      box: noted(input),
      point: true,
      price,
      doubt: () => whatToAsk({ attribute, privacy: privacy!, dimension, questions: [] }, input.read()!),
      tellsOf: () => (input.wrong() ? [] : form.tellsOf(name, input.read())),
      sent(values) {
        const held = field.sent(values);
        if (kind === "number") return `${rounded(attribute.scale ? Math.exp(Math.min(held[0]!, 700)) : held[0]!)} ${attribute.valueUnit}`;
        const towards = (metres: number, ahead: Key, behind: Key): string => say(metres < 0 ? behind : ahead, { x: rounded(Math.abs(metres)) });
        return say("place.centre", { east: towards(held[0]!, "place.east", "place.west"), north: towards(held[1]!, "place.north", "place.south") });
      },
    };
  }
  const input = optionsInput(field, title, labels, around);
  const read = (): string | string[] | null => {
    const chosen = input.read();
    if (chosen === null) return null;
    return Array.isArray(chosen) ? chosen.map((index) => field.options[index]!) : field.options[chosen]!;
  };
  return {
    ...shared,
    ...input,
    box: noted(input),
    point: false,
    price: undefined,
    read,
    shown: () => named([input.read() ?? []].flat()),
    doubt: () => "",
    tellsOf: () => (input.wrong() ? [] : form.tellsOf(name, read())),
    sent: (values) => named(field.sent(values)),
  };
}

/** The people to whom a field applies, in the words of the question that decides it. */
function conditionText(form: Form, field: Field): string {
  const { applies } = field;
  if (!applies) return "";
  const decides = form.fields.find(({ name }) => name === applies.field)!;
  const wording = inLanguage(decides.wordings);
  const answers = applies.options
    .map((option) => say("quoted", { text: wording?.options[decides.options.indexOf(option)] ?? option }))
    .reduce((one, other) => say("or", { one, other }));
  const question = wording?.text || decides.wordings[0]?.text || decides.name;
  return say("condition", { answers, question, instead: inItsPlace(field, inLanguage(field.wordings)?.options ?? []) });
}

/** What is sent for a field by people to whom it does not apply. */
function inItsPlace({ privacy, options, notAsked }: Field, labels: readonly string[]): string {
  if (privacy) return say("instead.random");
  const at = Number(notAsked);
  return say("instead.open", { label: labels[at] ?? options[at]! });
}

/** The languages of a survey's own words, the first of which is its default. */
export function languagesOf(campaign: Campaign | Form): string[] {
  const ofFields = isForm(campaign) ? campaign.fields.flatMap(({ wordings }) => wordings) : [];
  return [campaign, ...campaign.translations, ...ofFields].flatMap(({ language }) => language || []);
}

/** Scripts that are written from right to left, and languages of them. */
const RIGHT_TO_LEFT = /^(ar|arc|ckb|dv|fa|he|iw|ji|ks|nqo|ps|sd|syr|ug|ur|yi)\b|-(adlm|arab|hebr|nkoo|rohg|syrc|thaa)\b/i;

/** The direction in which a language is written. */
export function directionOf(tag: string): "ltr" | "rtl" {
  return RIGHT_TO_LEFT.test(tag) && !/-latn\b/i.test(tag) ? "rtl" : "ltr";
}

/** A number, several, or a place. */
function pointInput(asked: Asked, title: string, price: Price, around: Surroundings): PointInput {
  return asked.attribute.coordinates ? placeInput(asked.attribute.coordinates, asked, title, price, around) : numbersInput(asked, title, around);
}

function numbersInput({ attribute, dimension }: Asked, title: string, { prefix = "" }: Surroundings): PointInput {
  const { valueUnit: unit } = attribute;
  const inputs = Array.from({ length: dimension }, (_, i) =>
    make("input", {
      id: `${prefix}${i ? `value-${i + 1}` : "value"}`,
      inputmode: "decimal",
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": `${prefix}range ${prefix}problem`,
    }),
  );
  const box = make("div");
  inputs.forEach((input, i) => {
    const label = dimension === 1 ? title : say(i ? "number.next" : "number.first", { title, number: i + 1 });
    box.append(make("div", { class: "field" }, make("label", { for: input.id }, label), make("div", { class: "with-unit" }, input, make("span", {}, unit))));
  });
  const range = between(attribute);
  box.append(make("p", { class: "note", id: `${prefix}range` }, range && say("number.range", { range: sentence(range), unit })));
  const marks = separatorsOf(spoken().locale);
  const meanings = (): Meaning[] => inputs.map(({ value }) => readNumber(value, marks, unit));
  const read = (): number | number[] | null => {
    const given = meanings().map(({ numbers, sure }) => (sure && numbers.length === 1 ? numbers[0]! : NaN));
    if (!given.every(Number.isFinite)) return null;
    return dimension === 1 ? given[0]! : given;
  };
  return {
    box,
    read,
    wrong() {
      if (read() !== null) return "";
      const needs = say(dimension > 1 ? "needs.numbers" : "needs.number", { unit });
      const meant = meanings()
        .filter(({ sure }) => !sure)
        .flatMap(({ numbers }) => numbers)
        .filter(Number.isFinite);
      if (!meant.length) return needs;
      return say("needs.meant", { needs, meant: meant.map(inFull).reduce((one, other) => say("or.else", { one, other })), ...marks, indian: "" });
    },
    shown() {
      const value = read();
      return value === null ? "" : `${both([value].flat().map(inFull))} ${unit}`;
    },
    clear: () => inputs.forEach((input) => (input.value = "")),
  };
}

/** A number in digits and in words: in English in full, in other languages roughly. */
function inFull(x: number): string {
  const { language, locale } = spoken();
  const about = (): string => {
    const number = x.toLocaleString(locale, { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 2 });
    return Math.abs(x) < 1000 ? "" : say("number.about", { number });
  };
  const words = language === "en" ? spelled(x) : about();
  return words ? say("number.full", { digits: digits(x), words }) : digits(x);
}

function placeInput(centre: Area, { questions }: Asked, title: string, price: Price, { changed, prefix = "", maps }: Surroundings): PointInput {
  const degrees = ["latitude", "longitude"].map((id) =>
    make("input", { id: prefix + id, inputmode: "decimal", autocomplete: "off", "aria-describedby": `${prefix}problem` }),
  );
  const [latitude, longitude] = degrees as [HTMLInputElement, HTMLInputElement];
  const put = (place: Place): void => {
    const text = (x: number): string => x.toLocaleString(spoken().locale, { minimumFractionDigits: 5, maximumFractionDigits: 5 });
    [longitude.value, latitude.value] = [text(place.longitude), text(place.latitude)];
    changed();
  };
  const map = maps?.({ centre, questions, price, put, changed });
  const refused = make("p", { class: "problem", role: "alert" });
  const locate = make("button", { type: "button", id: `${prefix}locate`, class: "plain" }, say("locate"));
  locate.addEventListener("click", () => {
    const refuse = (key: Key): string => (refused.textContent = say(key));
    if (!navigator.geolocation) return void refuse("locate.none");
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => put(coords),
      () => refuse(map ? "locate.map" : "locate.failed"),
      { maximumAge: 600_000, timeout: 20_000 },
    );
  });
  const field = (input: HTMLInputElement, text: string): HTMLElement => make("div", { class: "field" }, make("label", { for: input.id }, text), input);
  const pair = make("div", { class: "pair" }, field(latitude, say("latitude")), field(longitude, say("longitude")));
  const box = make("fieldset", { id: `${prefix}place` }, make("legend", {}, title), ...(map ? [map.box] : []), pair, locate, refused);
  const parse = ({ value }: HTMLInputElement, most: number): number => {
    const fitting = readNumber(value, separatorsOf(spoken().locale)).numbers.filter((x) => Math.abs(x) <= most);
    return fitting.length === 1 ? fitting[0]! : NaN;
  };
  const read = (): Place | null => {
    const given = { longitude: parse(longitude, 180), latitude: parse(latitude, 90) };
    return Number.isFinite(given.longitude) && Number.isFinite(given.latitude) ? given : null;
  };
  return {
    box,
    read,
    wrong: () => (read() ? "" : say("needs.place")),
    shown() {
      const place = read();
      if (!place) return "";
      const near = map?.show(place);
      const [north, east] = [place.latitude, place.longitude].map((x) => digits(Number(x.toFixed(5)))) as [string, string];
      return say("place.shown", { north, east, near: near ? `, ${near}` : "" });
    },
    clear() {
      for (const input of degrees) input.value = "";
      map?.close();
    },
  };
}

/** One or several options, by index from 0. */
function optionsInput({ kind, most, options }: Field, title: string, labels: readonly string[], around: Surroundings): OptionsInput {
  const { prefix = "" } = around;
  const several = kind === "multiple";
  if (!several && options.length > MOST_BUTTONS) return listInput(title, labels, prefix);
  const inputs = labels.map((_, i) =>
    make("input", { type: several ? "checkbox" : "radio", name: `${prefix}option`, id: `${prefix}option-${i}`, "aria-describedby": `${prefix}problem` }),
  );
  const each = inputs.map((input, i) => make("label", { class: "option", for: input.id }, input, make("span", {}, labels[i]!)));
  const limit = most ?? options.length;
  const hint = several ? say(limit < options.length ? "tick.most" : "tick", { many: digits(limit) }) : "";
  const box = make("fieldset", { class: "options" }, make("legend", {}, title), ...(hint ? [make("p", { class: "note" }, hint)] : []), ...each);
  const chosen = (): number[] => inputs.flatMap((input, i) => (input.checked ? [i] : []));
  return {
    box,
    read: () => (several ? chosen() : (chosen()[0] ?? null)),
    wrong() {
      if (several) return chosen().length > limit ? say("needs.most", { many: digits(limit) }) : "";
      return chosen().length ? "" : say("needs.option");
    },
    clear: () => inputs.forEach((input) => (input.checked = false)),
  };
}

function listInput(title: string, labels: readonly string[], prefix: string): OptionsInput {
  const choices = labels.map((label) => new Option(label, label, false, false));
  const list = make("select", { id: `${prefix}label`, "aria-describedby": `${prefix}problem` }, new Option("", ""), ...choices);
  const box = make("div", { class: "field", id: `${prefix}group` }, make("label", { for: list.id }, title), list);
  return {
    box,
    read: () => (list.selectedIndex > 0 ? list.selectedIndex - 1 : null),
    wrong: () => (list.selectedIndex > 0 ? "" : say("needs.option")),
    clear: () => (list.selectedIndex = 0),
  };
}
