/** The texts of a campaign in the language that is spoken. Python's `Campaign.texts` are the same. */
import type { Asker, Attribute, Question, Translation } from "./campaign.js";
import { inLanguage } from "./words.js";

/** What has texts; a form has no attribute and no questions. */
export interface Texted {
  readonly title?: string;
  readonly asker?: Asker | undefined;
  readonly attribute?: Attribute;
  readonly questions?: readonly Question[];
  readonly language?: string;
  readonly translations?: readonly Translation[];
}

/** The same in one language. Names that are the keys of ledgers are the campaign's own: what this returns is only shown. */
export function textsOf<Of extends Texted>(campaign: Of): Pick<Of, "title" | "asker" | "attribute" | "questions"> {
  const { title, asker, attribute, questions, language = "", translations = [] } = campaign;
  const chosen: Partial<Translation> = inLanguage([{ language }, ...translations])!;
  const named = (of: Attribute): Attribute => {
    const valueUnit = chosen.unit || of.valueUnit;
    return { ...of, name: chosen.attribute || of.name, valueUnit, unit: of.scale ? `log ${valueUnit}` : valueUnit };
  };
  const texts: Texted = {
    ...(title !== undefined && { title: chosen.title || title }),
    asker: chosen.asker ?? asker,
    ...(attribute && { attribute: named(attribute) }),
    ...(questions && { questions: questions.map((question, i) => ({ ...question, label: chosen.labels?.[i] ?? question.label })) }),
  };
  return texts as Pick<Of, "title" | "asker" | "attribute" | "questions">;
}
