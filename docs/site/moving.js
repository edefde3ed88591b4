// Draws the moving pictures of metric-privacy.md with the device's own `draw`, on campaigns that `make site` writes
// beside it. No report leaves the page.

const ADA = 50_000;
const RULES = Object.keys(CAMPAIGNS).map(Number);
const DOTS = 60;
const [LEAST, MOST] = [-50_000, 200_000];
const [WIDE, HIGH, BINS, RADIUS] = [400, 66, 60, 2.8];
const PEOPLE = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];

const by = (id) => document.getElementById(id);
const campaigns = new Map();
let tapes = [];

/** The campaign whose guarantee is stated for a distance. */
function campaignOf(per) {
  if (!campaigns.has(per)) campaigns.set(per, new geoveil.Campaign(Uint8Array.from(CAMPAIGNS[per].match(/../g), (pair) => parseInt(pair, 16))));
  return campaigns.get(per);
}

/** Stored random bits: each dot keeps its luck while somebody drags. */
class Tape {
  #bits = [];

  source() {
    let at = 0;
    return {
      bits: (count) => {
        let made = 0n;
        for (const end = at + count; at < end; at++) made = (made << 1n) | BigInt((this.#bits[at] ??= crypto.getRandomValues(new Uint8Array(1))[0] & 1));
        return made;
      },
    };
  }
}

function reportsOf(campaign, value, kept) {
  return kept.map((tape) => Number(campaign.draw([value], tape.source()).answers[0].value) * 2 ** campaign.stepExponent);
}

const across = (value) => (WIDE * (value - LEAST)) / (MOST - LEAST);

/** Rows of dots over one scale, and the true value of each row as a line. */
function pictured(rows, what) {
  const box = element("svg", { viewBox: `0 0 ${WIDE} ${rows.length * HIGH + 20}`, role: "img" });
  box.append(element("title", {}, what));
  rows.forEach(({ label, value, values }, i) => {
    const floor = (i + 1) * HIGH;
    const piles = new Map();
    box.append(element("text", { x: 0, y: floor - HIGH + 16 }, label));
    box.append(element("line", { x1: 0, x2: WIDE, y1: floor, y2: floor, class: "ground" }));
    box.append(element("line", { x1: across(value), x2: across(value), y1: floor - HIGH + 22, y2: floor + 4 }));
    for (const report of values) {
      const bin = Math.min(BINS - 1, Math.max(0, Math.floor((BINS * across(report)) / WIDE)));
      piles.set(bin, (piles.get(bin) ?? 0) + 1);
    }
    const rise = Math.min(2 * RADIUS, (HIGH - 24) / Math.max(...piles.values()));
    for (const [bin, count] of piles) {
      for (let k = 0; k < count; k++) {
        box.append(element("circle", { cx: ((bin + 0.5) * WIDE) / BINS, cy: floor - RADIUS - k * rise, r: RADIUS, class: i ? "other" : "one" }));
      }
    }
  });
  for (const [value, anchor] of [[0, "middle"], [100_000, "middle"], [MOST, "end"]]) {
    box.append(element("text", { x: across(value), y: rows.length * HIGH + 16, "text-anchor": anchor }, digits(value)));
  }
  return box;
}

/** How far chance usually moves the average of this many reports: less in two of three surveys. */
const error = (campaign, people) => (Math.SQRT2 * campaign.pointMechanism.scale.toNumber()) / Math.sqrt(people);

const dollars = (amount) => `${digits(amount)} dollar`;
const rounded = (amount) => dollars(Number(amount.toPrecision(2)));

/** What one report reveals about Ada and Bob. */
function told(privacy, apart) {
  if (!apart) return "Both earn the same: nobody can tell their reports apart, and whoever guesses is right half of the time.";
  const { sure, other } = shares(greatest(privacy, apart));
  if (!other) return "From one report somebody can nearly always tell Ada from Bob: this far apart the rule hides nothing.";
  return `A report is at most ${factor(privacy, apart).replace(" to 1", "")} times as likely from one of them as from the other. Somebody who thinks both equally likely, and guesses from the report, is right at most ${sure} of the time.`;
}

function show() {
  const [apart, per, people] = [Number(by("apart").value), RULES[by("rule").value], PEOPLE[by("people").value]];
  const campaign = campaignOf(per);
  const { privacy } = campaign;
  for (const [id, text] of [["apart", dollars(apart)], ["rule", dollars(per)], ["people", digits(people)]]) {
    by(`${id}-said`).textContent = text;
    by(id).setAttribute("aria-valuetext", text);
  }
  const rows = [
    { label: `Ada, ${dollars(ADA)}`, value: ADA, values: reportsOf(campaign, ADA, tapes.slice(0, DOTS)) },
    { label: `Bob, ${dollars(ADA + apart)}`, value: ADA + apart, values: reportsOf(campaign, ADA + apart, tapes.slice(DOTS)) },
  ];
  const ends = (values) => [0.25, 0.75].map((p) => rounded(values.toSorted((a, b) => a - b)[Math.floor(p * values.length)])).join(" to ");
  by("dots").replaceChildren(pictured(rows, `${DOTS} reports each. ${rows.map(({ label, values }) => `${label}: half of them from ${ends(values)}`).join("; ")}.`));
  const { sure, other } = shares(greatest(privacy, apart));
  by("odds-said").textContent = told(privacy, apart);
  by("bar").replaceChildren(bar(privacy, apart, "Ada", "Bob"));
  const noise = campaign.pointMechanism.scale.toNumber();
  by("noise-said").textContent = `Half of all reports are within about ${rounded(Math.LN2 * noise)} of the true income, and one in twenty is more than about ${rounded(Math.log(20) * noise)} away from it.`;
  const [now, twice] = [error(campaign, people), error(campaign, 4 * people)];
  by("average").replaceChildren(spread(now));
  by("price-said").textContent = `With ${digits(people)} people, chance moves their average by less than about ${rounded(now)} in two of three surveys. Half as much, ${rounded(twice)}, takes four times as many people; a rule that hides twice the distance takes four times as many people for the same exactness.`;
  by("consent").replaceChildren(...geoveil.whatItTells(campaign).map((sentence) => Object.assign(document.createElement("li"), { textContent: sentence })));
}

/** Where the average of all reports is in two of three surveys, over the scale of the dots. */
function spread(half) {
  const box = element("svg", { viewBox: `0 0 ${WIDE} 50`, role: "img" });
  box.append(
    element("title", {}, `In two of three surveys the average is from ${rounded(ADA - half)} to ${rounded(ADA + half)}.`),
    element("line", { x1: 0, x2: WIDE, y1: 26, y2: 26, class: "ground" }),
    element("rect", { x: across(ADA - half), y: 16, width: Math.max(1, across(ADA + half) - across(ADA - half)), height: 20, class: "one" }),
    element("text", { x: 0, y: 12 }, "The average of all reports"),
  );
  for (const value of [0, 100_000]) box.append(element("text", { x: across(value), y: 48, "text-anchor": "middle" }, digits(value)));
  return box;
}

function shuffle() {
  tapes = Array.from({ length: 2 * DOTS }, () => new Tape());
}

let waits = false;
function soon() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    show();
  });
}

for (const id of ["apart", "rule", "people"]) by(id).addEventListener("input", soon);
by("again").addEventListener("click", () => {
  shuffle();
  show();
});
shuffle();
show();
by("moving").hidden = false;
