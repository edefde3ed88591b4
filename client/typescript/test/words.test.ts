/** Which language is spoken, and how it is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Campaign } from "../src/campaign.js";
import { openEnvelope } from "../src/envelope.js";
import { textsOf } from "../src/texts.js";
import { digits, inLanguage, say, speak, spoken } from "../src/words.js";
import { vectors } from "./files.js";
import { bytesOf } from "./tuples.js";

test("the first tag with a catalogue chooses the language and how it is written", async () => {
  for (const [tags, language, locale, number] of [
    [["de-CH", "fr"], "de", "de-CH", "0.5"],
    [["tlh", "es-MX"], "es", "es-MX", "0.5"],
    [["DE"], "de", "DE", "0,5"],
    // None, no tag, a name that every object has: English, and numbers are typed as the browser's.
    [["ar-EG"], "en", undefined, "0.5"],
    [["de_AT.UTF-8", "de-1", "constructor", "__proto__", ""], "en", undefined, "0.5"],
    [["en-IN"], "en", "en-IN", "0.5"],
  ] as const) {
    assert.equal(await speak(...tags), language);
    assert.deepEqual(spoken(), { language, locale });
    assert.equal(digits(0.5), number);
  }
});

test("a number chooses the form of a message, and a part of a message is no message", async () => {
  await speak("fr");
  assert.equal(say("days", { n: 1.5 }), "1,5 jour");
  assert.equal(say("days", { n: 2 }), "2 jours");
  assert.equal(say("quoted", { text: "{n} $& {text}" }), "«\u00a0{n} $& {text}\u00a0»");
  await speak("en");
  assert.equal(say("days", { n: 1.00014 }), "1.00014 days");
});

test("texts are shown in the first language of the reader that they are in, else the first", async () => {
  for (const [tags, languages, chosen] of [
    [["de-AT"], ["en", "de", "de-at"], 2],
    [["de-AT", "en"], ["en", "DE-ch"], 1],
    [["de", "it"], ["", "it"], 0], // nobody says which language the first is in
    [["de", "ja", "it"], ["en", "pt", "it"], 2],
    [["de"], ["en", "fr"], 0],
    [["ja", "pt-BR"], ["", "pt"], 1], // have no catalogue
    [["ar-EG", "en-US"], ["", "ar"], 1], // neither has the first
    [["ja"], ["fr", "en"], 1],
    [[], ["", "de"], 0],
  ] as const) {
    await speak(...tags);
    const texts = languages.map((language) => ({ language }));
    assert.equal(inLanguage(texts), texts[chosen], `${tags.join()}: ${languages.join()}`);
  }
  assert.equal(inLanguage([]), undefined);
  await speak("en");
});

test("a campaign keeps its own names, whatever is shown of it", async () => {
  const { envelope } = vectors<{ name: string; envelope: string }>("campaigns.json", "campaigns").find(({ name }) => name === "texts")!;
  const campaign = new Campaign((await openEnvelope(bytesOf(envelope))).campaign);
  await speak("de");
  const { title, asker, attribute, questions } = textsOf(campaign);
  assert.deepEqual([title, asker!.purpose, attribute.name, attribute.unit, questions[0]!.label], ["Eine Frage", "Busse", "Haushaltseinkommen", "Dollar", "über 100 Tsd."]);
  assert.deepEqual([campaign.title, campaign.attribute.name, campaign.questions[0]!.label], ["A question", "household income", "above 100k"]);
  await speak("fr");
  assert.equal(textsOf(campaign).title, "A question");
  await speak("en");
});
