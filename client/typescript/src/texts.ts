/** The texts of a campaign in the chosen language. Python's `Campaign.texts` are the same. */
import type { Asker, Attribute, Question, Translation } from "./campaign.js";
import type { Field } from "./form.js";
import { inLanguage } from "./words.js";

/** Something with texts; a form has no attribute and no questions. */
export interface Texted {
  readonly title?: string;
  readonly asker?: Asker | undefined;
  readonly attribute?: Attribute;
  readonly questions?: readonly Question[];
  readonly language?: string;
  readonly translations?: readonly Translation[];
}

function named(of: Attribute, { attribute, unit }: Partial<Translation>): Attribute {
  const valueUnit = unit || of.valueUnit;
  return { ...of, name: attribute || of.name, valueUnit, unit: of.scale ? `log ${valueUnit}` : valueUnit };
}

/** The attribute of a field, with its unit in the chosen language. */
export function spokenAttribute({ attribute, wordings }: Pick<Field, "attribute" | "wordings">): Attribute {
  return named(attribute, { unit: inLanguage(wordings)?.unit ?? "" });
}

/** The same in one language. Ledgers keep the campaign's own names as keys: the returned texts are only shown. */
export function textsOf<Of extends Texted>(campaign: Of): Pick<Of, "title" | "asker" | "attribute" | "questions"> {
  const { title, asker, attribute, questions, language = "", translations = [] } = campaign;
  const chosen: Partial<Translation> = inLanguage([{ language }, ...translations])!;
  const texts: Texted = {
    ...(title !== undefined && { title: chosen.title || title }),
    asker: chosen.asker ?? asker,
    ...(attribute && { attribute: named(attribute, chosen) }),
    ...(questions && { questions: questions.map((question, i) => ({ ...question, label: chosen.labels?.[i] ?? question.label })) }),
  };
  return texts as Pick<Of, "title" | "asker" | "attribute" | "questions">;
}
