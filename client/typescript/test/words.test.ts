/** Which language is spoken, and how it is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { digits, say, speak, spoken } from "../src/words.js";

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
});
