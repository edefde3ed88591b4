/**
 * The questions of a survey as inputs: a campaign about one attribute has one, a form one a field. What is typed stays
 * in these inputs: they are read when it is needed, and emptied once a report is kept.
 */
import {
  type Answers,
  type Area,
  type Attribute,
  between,
  type Campaign,
  type Field,
  type Form,
  type GeoPrivacy,
  isForm,
  type Offer,
  type Receipt,
  type Value,
  whatItTells,
  whatItTellsOf,
  whatToAsk,
} from "./index.js";
import { type Meaning, readNumber, separatorsOf, spelled } from "./numbers.js";
import { digits, ratio } from "./saying.js";

/** Of more options one is chosen from a list that opens. */
const MOST_BUTTONS = 12;

type Price = Offer["price"];
type Asked = Pick<Campaign, "attribute" | "dimension" | "questions">;

/** A place in degrees. */
export interface Place {
  readonly longitude: number;
  readonly latitude: number;
}

/** What shows a place, and where one can be pointed at. */
export interface PlaceMap {
  readonly box: Node;
  /** Show a place, and return what is near it, in words; "" if nothing is. */
  show(place: Place): string;
  close(): void;
}

/** Makes a map that calls `put` when it is pointed at, and `changed` when it shows something else. */
export type Maps = (asked: {
  readonly centre: Area;
  readonly questions: Campaign["questions"];
  readonly price: Price;
  readonly put: (place: Place) => void;
  readonly changed: () => void;
}) => PlaceMap;

/** What surrounds the inputs. */
export interface Surroundings {
  /** Called when an answer has changed without an event of its input. */
  readonly changed: () => void;
  /** What the ids of inputs begin with, where several questions are shown at once. */
  readonly prefix?: string;
  /** Places are asked for by their coordinates alone if left out. */
  readonly maps?: Maps;
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

/** A question that is asked, and the answer that stands in its inputs. */
export interface Question {
  /** Of a field its name; else "". */
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
  /** To whom it applies, in words; "": to everybody. */
  readonly condition: string;
  /** What to say to whom it does not apply. */
  readonly skipped: string;
  /** Null until there is an answer. */
  read(): unknown;
  /** What is missing, or no answer; else "". */
  wrong(): string;
  /** What to ask as it may be a slip; else "". */
  doubt(): string;
  /** The answer in words. */
  shown(): string;
  /** What the answer tells of the one who gives it. */
  tellsOf(): readonly string[];
  /** What a report holds of it, in words. */
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
  if (!isForm(campaign)) return [ofAttribute(campaign, price, around)];
  const { fields, tells, permission } = campaign;
  const { prefix } = around;
  return fields.map((field, at) =>
    ofField(campaign, field, tells[at]!, permission.limits[field.name]?.campaign, prefix === undefined ? around : { ...around, prefix: `${prefix}${at}-` }),
  );
}

/** What to contribute: the answer, or those to the questions of a form that apply. */
export function contribution({ campaign }: Offer, questions: readonly Question[]): Value | Answers {
  if (!isForm(campaign)) return questions[0]!.read() as Value;
  return answersTo(applying(campaign, questions));
}

/** The questions that apply, by the answers so far. */
export function applying(campaign: Campaign | Form, questions: readonly Question[]): readonly Question[] {
  if (!isForm(campaign)) return questions;
  const names = new Set(campaign.applying(answersTo(questions)).map(({ name }) => name));
  return questions.filter(({ name }) => names.has(name));
}

function answersTo(questions: readonly Question[]): Answers {
  return Object.fromEntries(questions.map((question) => [question.name, question.read()]));
}

/** What is told of an answer, to somebody who reads the question above it. */
export function toldOf({ name, tells, tellsOf }: Pick<Question, "name" | "tells" | "tellsOf">): string[] {
  return [...tells, ...tellsOf()].map((text) => sentence(name && text.startsWith(`${name}: `) ? text.slice(name.length + 2) : text));
}

/** All that leaves the device, in sentences. */
export function whatIsSent(campaign: Campaign | Form, questions: readonly Question[]): string[] {
  const id = "A random number that names this report, and which survey it is for.";
  if (isForm(campaign)) {
    const { columns } = campaign;
    const open = questions.filter((question) => question.open).map(({ title }) => `“${title}”`);
    const many = columns === 1 ? "One number for your answer" : `${columns} numbers for your answers: all of them, or none`;
    const drawn = `Each is drawn at random${open.length ? `, but for ${open.join(", ")}` : ""}. Drawn once: asking again gives the same.`;
    return [
      open.length === questions.length ? `${many}.` : `${many}. ${drawn}`,
      id,
      "Nothing else of your answers, and nothing that names you. As with any page, the server sees your address.",
    ];
  }
  const { readings } = campaign;
  const n = campaign.answersAll ? campaign.columns : Math.min(1, campaign.columns);
  const of = campaign.questions.length ? "the questions above" : "your answer";
  const lines = [
    `${n === 1 ? "One perturbed number" : `${n} perturbed numbers`} for ${of}, drawn at random. Drawn once: asking again gives the same.`,
    id,
    "Not what you typed, and nothing that names you. As with any page, the server sees your address.",
  ];
  if (readings) {
    const { epsilon, per } = campaign.totalPrivacy;
    const { unit, scale } = campaign.attribute;
    lines.push(`${readings} In all: ε = ${digits(epsilon)} per ${scale ? `factor ${ratio(per)} in ${unit.slice(4)}` : `${digits(per)} ${unit}`}.`);
    if (campaign.cohorts > 1) lines.push(readings.telling);
  }
  return lines;
}

/** What is in a report, line by line: to what, and what was sent. */
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
  const question = campaign.questions[column]?.label ?? axis(campaign, column);
  return campaign.cohorts > 1 ? `cohort ${cohort}, ${question}` : question;
}

/** What is held, where all of it is sent: its name, or its axis where it is of several. */
function axis({ attribute, columns }: Campaign, column: number): string {
  if (attribute.coordinates) return ["metres east", "metres north"][column]!;
  if (attribute.scale) return `logarithm of ${attribute.name}`;
  return columns > 1 ? `${attribute.name}, ${"xyz"[column]}` : attribute.name;
}

function rounded(x: number): string {
  return x.toLocaleString("en", { maximumSignificantDigits: 6 });
}

function ofAttribute(campaign: Campaign, price: Price, around: Surroundings): Question {
  const { attribute } = campaign;
  const title = sentence(attribute.name);
  const input = pointInput(campaign, title, price, around);
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
    tells: whatItTells(campaign),
    doubt: () => whatToAsk(campaign, input.read()!),
    tellsOf: () => (input.wrong() ? [] : whatItTellsOf(campaign, input.read()!)),
    sent: () => "",
  };
}

function ofField(form: Form, field: Field, tells: string, price: GeoPrivacy | undefined, around: Surroundings): Question {
  const { name, attribute, kind, privacy, columns: dimension } = field;
  const wording = wordingOf(field);
  const title = wording?.text || field.wordings[0]?.text || name;
  const labels = wording?.options.length ? wording.options : field.options;
  const condition = conditionText(form, field);
  const named = (indices: readonly number[]): string => indices.map((index) => labels[index]).join(", ") || "none";
  const shared = {
    name,
    title,
    attribute,
    open: !privacy,
    condition,
    tells: [tells],
    skipped: `It does not apply to you. ${inItsPlace(field, labels)}`,
  };
  const noted = ({ box }: Input): HTMLElement => {
    for (const note of [condition, privacy ? "" : "This answer is sent as it is."]) if (note) box.append(make("p", { class: "note" }, note));
    if (wording?.language) box.lang = wording.language;
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
        const towards = (metres: number, ahead: string, behind: string): string => `${rounded(Math.abs(metres))} m ${metres < 0 ? behind : ahead}`;
        return `${towards(held[0]!, "east", "west")} and ${towards(held[1]!, "north", "south")} of the centre`;
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

/** To whom a field applies, in the words of the question that decides it. */
function conditionText(form: Form, field: Field): string {
  const { applies } = field;
  if (!applies) return "";
  const decides = form.fields.find(({ name }) => name === applies.field)!;
  const wording = wordingOf(decides);
  const said = applies.options.map((option) => `“${wording?.options[decides.options.indexOf(option)] ?? option}”`).join(" or ");
  return `Only for those who answer ${said} to “${wording?.text || decides.wordings[0]?.text || decides.name}”. ${inItsPlace(field, wordingOf(field)?.options ?? [])}`;
}

/** What becomes of a field for those to whom it does not apply. */
function inItsPlace({ privacy, options, notAsked }: Field, labels: readonly string[]): string {
  if (privacy) return "Of all others a random answer is sent in its place, so that no report lacks one.";
  const at = Number(notAsked);
  return `Of all others “${labels[at] ?? options[at]}” is sent in its place, as it is.`;
}

/** What is shown of a field: in a language of this browser, else the first. */
function wordingOf({ wordings }: Field): Field["wordings"][number] | undefined {
  for (const wanted of navigator.languages.map((language) => language.toLowerCase())) {
    for (const short of [(tag: string) => tag, (tag: string) => tag.split("-")[0]]) {
      const fitting = wordings.find(({ language }) => language && short(language.toLowerCase()) === short(wanted));
      if (fitting) return fitting;
    }
  }
  return wordings[0];
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
    const label = dimension === 1 ? title : i ? `${title}, number ${i + 1}` : `${title}, first number`;
    box.append(make("div", { class: "field" }, make("label", { for: input.id }, label), make("div", { class: "with-unit" }, input, make("span", {}, unit))));
  });
  const range = between(attribute);
  box.append(make("p", { class: "note", id: `${prefix}range` }, range && `${sentence(range)} ${unit}.`));
  const meanings = (): Meaning[] => inputs.map(({ value }) => readNumber(value, separatorsOf(), unit));
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
      const numeric = `${dimension > 1 ? "Give all the numbers" : "Give a number"}, in ${unit}.`;
      const meant = meanings()
        .filter(({ sure }) => !sure)
        .flatMap(({ numbers }) => numbers)
        .filter(Number.isFinite);
      const { decimal, group } = separatorsOf();
      if (!meant.length) return numeric;
      return `${numeric} What you typed may be ${meant.map(inFull).join(", or ")}. Here “${decimal}” stands before decimals, and “${group}” between thousands.`;
    },
    shown() {
      const value = read();
      return value === null ? "" : `${[value].flat().map(inFull).join(" and ")} ${unit}`;
    },
    clear: () => inputs.forEach((input) => (input.value = "")),
  };
}

/** A number in digits and in words. */
function inFull(x: number): string {
  const words = spelled(x);
  return `${x.toLocaleString(undefined, { maximumSignificantDigits: 15 })}${words && ` (${words})`}`;
}

function placeInput(centre: Area, { questions }: Asked, title: string, price: Price, { changed, prefix = "", maps }: Surroundings): PointInput {
  const degrees = ["latitude", "longitude"].map((id) =>
    make("input", { id: prefix + id, inputmode: "decimal", autocomplete: "off", "aria-describedby": `${prefix}problem` }),
  );
  const [latitude, longitude] = degrees as [HTMLInputElement, HTMLInputElement];
  const put = (place: Place): void => {
    const text = (x: number): string => x.toLocaleString(undefined, { minimumFractionDigits: 5, maximumFractionDigits: 5 });
    [longitude.value, latitude.value] = [text(place.longitude), text(place.latitude)];
    changed();
  };
  const map = maps?.({ centre, questions, price, put, changed });
  const refused = make("p", { class: "problem", role: "alert" });
  const locate = make("button", { type: "button", id: `${prefix}locate`, class: "plain" }, "Use the position of this device");
  locate.addEventListener("click", () => {
    const say = (text: string): string => (refused.textContent = text);
    if (!navigator.geolocation) return void say("This browser tells no positions. Give the coordinates instead.");
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => put(coords),
      () => say(`The position is not known, or was not given. ${map ? "Choose the place on the map" : "Give the coordinates"} instead.`),
      { maximumAge: 600_000, timeout: 20_000 },
    );
  });
  const field = (input: HTMLInputElement, text: string): HTMLElement => make("div", { class: "field" }, make("label", { for: input.id }, text), input);
  const pair = make("div", { class: "pair" }, field(latitude, "Latitude, °N"), field(longitude, "Longitude, °E"));
  const box = make("fieldset", { id: `${prefix}place` }, make("legend", {}, title), ...(map ? [map.box] : []), pair, locate, refused);
  const parse = ({ value }: HTMLInputElement, most: number): number => {
    const fitting = readNumber(value, separatorsOf()).numbers.filter((x) => Math.abs(x) <= most);
    return fitting.length === 1 ? fitting[0]! : NaN;
  };
  const read = (): Place | null => {
    const given = { longitude: parse(longitude, 180), latitude: parse(latitude, 90) };
    return Number.isFinite(given.longitude) && Number.isFinite(given.latitude) ? given : null;
  };
  return {
    box,
    read,
    wrong: () => (read() ? "" : "Give a latitude, from -90 to 90, and a longitude, from -180 to 180, in degrees."),
    shown() {
      const place = read();
      if (!place) return "";
      const near = map?.show(place);
      const [north, east] = [place.latitude, place.longitude].map((x) => x.toLocaleString(undefined, { maximumFractionDigits: 5 }));
      return `${north} °N, ${east} °E${near ? `, ${near}` : ""}`;
    },
    clear() {
      for (const input of degrees) input.value = "";
      map?.close();
    },
  };
}

/** One of some options, or several: which, from 0. */
function optionsInput({ kind, most, options }: Field, title: string, labels: readonly string[], around: Surroundings): OptionsInput {
  const { prefix = "" } = around;
  const several = kind === "multiple";
  if (!several && options.length > MOST_BUTTONS) return listInput(title, labels, prefix);
  const inputs = labels.map((_, i) =>
    make("input", { type: several ? "checkbox" : "radio", name: `${prefix}option`, id: `${prefix}option-${i}`, "aria-describedby": `${prefix}problem` }),
  );
  const each = inputs.map((input, i) => make("label", { class: "option", for: input.id }, input, make("span", {}, labels[i]!)));
  const limit = most ?? options.length;
  const hint = several ? `Tick any${limit < options.length ? `, at most ${limit}` : ""}, or none.` : "";
  const box = make("fieldset", { class: "options" }, make("legend", {}, title), ...(hint ? [make("p", { class: "note" }, hint)] : []), ...each);
  const chosen = (): number[] => inputs.flatMap((input, i) => (input.checked ? [i] : []));
  return {
    box,
    read: () => (several ? chosen() : (chosen()[0] ?? null)),
    wrong() {
      if (several) return chosen().length > limit ? `Tick at most ${limit}.` : "";
      return chosen().length ? "" : "Choose one of the answers.";
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
    wrong: () => (list.selectedIndex > 0 ? "" : "Choose one of the answers."),
    clear: () => (list.selectedIndex = 0),
  };
}
