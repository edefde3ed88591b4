/**
 * The language of a survey's questions and sentences. All words are in the catalogues of gen/messages,
 * made from Python's: a language's catalogue is loaded when it is chosen.
 */
import { GeoveilError } from "./errors.js";

type Message = string | { readonly one: string; readonly other: string };
export type Key = keyof typeof import("./gen/messages/en.js").default;
type Messages = Readonly<Record<Key, Message>>;

const CATALOGUES: Readonly<Record<string, () => Promise<{ default: Messages }>>> = {
  en: () => import("./gen/messages/en.js"),
  de: () => import("./gen/messages/de.js"),
  es: () => import("./gen/messages/es.js"),
  fr: () => import("./gen/messages/fr.js"),
};

let messages: Messages | undefined;
let [language, written]: [string, string | undefined] = ["en", "en"];
/** The reader's languages, the best first. */
let preferred: readonly string[] = ["en"];

/** The language of a tag: "de" for "de-AT"; "" if the tag is invalid or has no catalogue. */
function short(tag: string): string {
  try {
    const { language } = new Intl.Locale(tag);
    return Object.hasOwn(CATALOGUES, language) ? language : "";
  } catch {
    return "";
  }
}

/**
 * Speak the first language among some tags, such as `navigator.languages`, that has a catalogue; else English.
 * Numbers and dates are then written as its tag says, with the region. Return its language, for the attribute `lang`.
 */
export async function speak(...tags: readonly string[]): Promise<string> {
  const tag = tags.find(short);
  const wanted = short(tag ?? "en");
  const { default: loaded } = await CATALOGUES[wanted]!();
  [messages, language, written, preferred] = [loaded, wanted, tag, tags];
  return wanted;
}

/** Speak English if nothing was chosen. */
export async function loadMessages(): Promise<void> {
  if (!messages) await speak("en");
}

/** The chosen language, and the tag for formatting; undefined: the browser's, which is in another language. */
export function spoken(): { readonly language: string; readonly locale: string | undefined } {
  return { language, locale: written };
}

/**
 * Choose the texts in the first of the languages given to `speak`, with a catalogue or not; else the
 * first texts. Texts without a stated language count as the chosen one.
 */
export function inLanguage<Text extends { readonly language: string }>(texts: readonly Text[]): Text | undefined {
  const [first] = texts;
  const primary = (tag: string): string => tag.split("-")[0]!;
  for (const wanted of [...preferred.flatMap((tag) => (tag === written ? [tag, ""] : [tag])), language]) {
    if (!wanted && !first?.language) return first;
    for (const short of [String, primary]) {
      const fitting = texts.find((text) => text.language && short(text.language.toLowerCase()) === short(wanted.toLowerCase()));
      if (fitting) return fitting;
    }
  }
  return first;
}

/** A message with its parts filled in; of several forms, the one for the number `n`. */
export function say(key: Key, values: Readonly<Record<string, string | number>> = {}): string {
  if (!messages) throw new GeoveilError("unsupported", "await loadMessages() first");
  const { n } = values;
  const message = messages[key];
  const form = typeof message === "string" ? message : message[new Intl.PluralRules(language, { maximumFractionDigits: 6 }).select(Number(n)) === "one" ? "one" : "other"];
  return form.replace(/\{(\w+)\}/g, (_, name: string) => (name === "n" ? digits(Number(n)) : String(values[name])));
}

/** A number with thousands separators, to 15 significant digits, without exponents. */
export function digits(x: number, figures = 15): string {
  return (Number(x.toPrecision(15)) || 0).toLocaleString(written ?? language, { maximumSignificantDigits: figures });
}
