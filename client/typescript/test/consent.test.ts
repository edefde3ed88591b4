/** What people are told, letter for letter as in Python. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Campaign } from "../src/campaign.js";
import { whatItTells, whatItTellsOf, whatToAsk } from "../src/consent.js";
import type { Value } from "../src/values.js";
import { loadGeodesics } from "../src/gp/plane.js";
import { vectors } from "./files.js";
import { bytesOf } from "./tuples.js";

interface Told {
  name: string;
  campaign: string;
  value: Value;
  tells: string[];
  tells_of: string[];
  /** Left out where nothing is asked. */
  asks?: string;
}

test("people are told the same sentences as by Python", async () => {
  await loadGeodesics();
  const told = vectors<Told>("consent.json", "consent");
  assert.ok(told.length >= 20);
  for (const { name, campaign, value, tells, tells_of, asks = "" } of told) {
    const read = new Campaign(bytesOf(campaign));
    assert.deepEqual(whatItTells(read), tells, name);
    assert.deepEqual(whatItTellsOf(read, value), tells_of, name);
    assert.equal(whatToAsk(read, value), asks, name);
  }
});

test("at a threshold itself a guess is right half of the time", () => {
  const { campaign } = vectors<Told>("consent.json", "consent").find(({ name }) => name === "debiased")!;
  const read = new Campaign(bytesOf(campaign));
  const { at } = read.questions[0]!.query as unknown as { at: number };
  assert.ok(whatItTellsOf(read, at).some((said) => said.endsWith("that guess is right 50 % of the time.")));
});

test("noise too small to compute hides no side", () => {
  const { campaign } = vectors<Told>("consent.json", "consent").find(({ name }) => name === "smooth")!;
  const read = new Campaign(bytesOf(campaign));
  for (const far of [1e6, 1e12, 1e20, -1e89]) assert.ok(whatItTellsOf(read, far).some((said) => said.endsWith("that guess is right more than 99.9 % of the time.")));
});

test("no cap is promised of a reading", () => {
  const [plain, capped] = ["debiased", "capped"].map((name) => {
    const { campaign } = vectors<Told>("consent.json", "consent").find((told) => told.name === name)!;
    return new Campaign(bytesOf(campaign));
  });
  for (const value of [-1e6, 20_000, 99_000, 250_000]) assert.deepEqual(whatItTellsOf(capped!, value, true), whatItTellsOf(plain!, value, true));
  assert.notDeepEqual(whatItTellsOf(capped!, -1e6), whatItTellsOf(plain!, -1e6));
});
