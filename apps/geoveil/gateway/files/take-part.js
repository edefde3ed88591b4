// Taking part in a survey: show what is asked and what it costs, perturb here, send, keep the receipt.
// Every text of a survey is shown as text; nothing of the answer is kept or logged by this page.

import { between, Client, describeStrata, IndexedDbStorage, isForm, Policy, whatItTells, whatItTellsOf, whatToAsk } from "./geoveil-client.js";
import { readNumber, separatorsOf, spelled } from "./geoveil-numbers.js";
import { drawMap } from "./map.js";
import { bar, distances, distanceText, factor, number, ratioOf } from "./odds.js";

const FLUSH_MS = 15_000;
const at = (id) => document.getElementById(id);
const say = (id, text) => (at(id).textContent = text);
const show = (id, visible = true) => (at(id).hidden = !visible);

/** Questions whose answer, without noise, lies between no and yes. */
const BETWEEN = new Set(["threshold", "range", "twoWayThreshold", "disc", "polygon", "gaussianKernel"]);
const STATES = {
  pending: "Kept here, and sent as soon as the server can be reached. You may close this page.",
  acknowledged: "Counted. The server has the numbers below.",
  rejected: "The server refused it, and counts nothing.",
  expired: "It could not be sent in time, and was given up.",
};

/** Tell what was spent, once a survey is known. */
let tellSpent = async () => undefined;

start().catch(trouble).finally(() => {
  at("main").removeAttribute("aria-busy");
  show("waiting", false);
});

async function start() {
  const id = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  const storage = await IndexedDbStorage.open("geoveil");
  const server = location.origin;
  const looking = new Client({ server, storage, policy: new Policy({ limits: {} }), background: false });
  if (!id) return list((await looking.campaigns()).filter(({ campaign }) => !isForm(campaign)));
  // What is permitted is what is shown: these bytes at this price. Fetched before they are shown, so
  // that nothing is needed of the server until the report is sent.
  const offer = await looking.offer(id);
  if (isForm(offer.campaign)) throw Object.assign(new Error("It has several questions, which this page can't show yet."), { code: "unsupported" });
  const client = new Client({ server, storage, policy: Policy.permitting(offer) });
  await client.fetch(id);
  describe(offer);
  const { attribute, totalPrivacy } = offer.campaign;
  const limit = { ...totalPrivacy, unit: attribute.unit };
  const policy = new Policy({ limits: { [attribute.name]: { campaign: limit, lifetime: limit } } });
  const reckoning = new Client({ server, storage, policy, background: false });
  tellSpent = () => spent(reckoning, offer);
  await ask(client, offer);
}

function list(offers) {
  for (const { campaign } of offers) {
    const link = document.createElement("a");
    link.href = `/take-part/${encodeURIComponent(campaign.id)}`;
    link.textContent = campaign.title;
    const item = document.createElement("li");
    item.append(link);
    at("surveys").append(item);
  }
  show("no-surveys", !offers.length);
  show("list");
}

function describe({ campaign, signer }) {
  document.title = `${campaign.title}: take part`;
  say("title", campaign.title);
  const { name, valueUnit: unit, coordinates } = campaign.attribute;
  const asked = [`Asks for: ${name}`, `in ${unit}`, between(campaign.attribute)].filter(Boolean);
  say("asks", coordinates ? `Asks for a place: ${name}.` : `${asked.join(", ")}.`);
  say("signer", signer ? shortened(String(signer)) : "nobody: anybody may have asked this");
  if (signer) at("details").append(item(`The whole key: ${signer}`));
  say("dates", `${date(campaign.opens)} to ${date(campaign.closes)}${every(campaign.periodUs)}`);
  for (const { label } of campaign.questions) at("questions").append(item(label));
  if (!campaign.questions.length) at("questions").append(item("Perturbed answers; what is asked of them is decided later."));
}

async function ask(client, offer) {
  const { campaign, price } = offer;
  const { coordinates, name, valueUnit: unit } = campaign.attribute;
  let map = null;
  if (coordinates) {
    say("place-label", sentence(name));
    map = drawMap(coordinates, campaign.questions, (longitude, latitude) => put(longitude, latitude), (text) => say("outlines", text));
    at("map").append(map.box);
    show("place");
  } else {
    say("value-label", sentence(name));
    say("unit", unit);
    for (let index = 2; index <= campaign.dimension; index++) addNumber(index, name, unit);
    if (campaign.dimension > 1) say("value-label", `${sentence(name)}, first number`);
    show("number");
  }
  const grouped = campaign.strata && !campaign.tellsCohorts;
  if (grouped) {
    say("group-label", sentence(campaign.strata.name));
    at("label").append(new Option("", ""), ...campaign.strata.labels.map((label) => new Option(label, label)));
    say("group-privacy", describeStrata(campaign));
    show("group");
  }
  const put = (longitude, latitude) => {
    at("longitude").value = longitude.toLocaleString(undefined, { minimumFractionDigits: 5, maximumFractionDigits: 5 });
    at("latitude").value = latitude.toLocaleString(undefined, { minimumFractionDigits: 5, maximumFractionDigits: 5 });
    changed();
  };
  let meant = false;
  const doubted = (question) => {
    meant = question !== "";
    say("doubt", question);
    say("send", meant ? "Yes: perturb it and send" : "Perturb and send");
  };
  const changed = () => {
    say("problem", "");
    doubted("");
    const value = read(coordinates);
    if (map && value) map.show(value.longitude, value.latitude);
    picture(price, campaign, typeof value === "number" ? value : null);
    say("echo", typeof value === "number" ? `You answer ${echo(value)} ${unit}.` : "");
    const own = value === null || wrong(value, undefined, coordinates, unit) ? [] : whatItTellsOf(campaign, value);
    at("odds-text").replaceChildren(...[...whatItTells(campaign), ...own].map(item));
  };
  at("form").addEventListener("input", changed);
  at("locate").addEventListener("click", () => locate(put));
  picture(price, campaign, null);
  at("odds-text").replaceChildren(...whatItTells(campaign).map(item));
  tellWhatIsSent(campaign);
  say("code", `This page came from ${location.host}, with the code that perturbs. Whoever runs it could`
    + " change the code; an app that you trust can take part in the same survey.");
  show("window", client.persistent === false);
  const state = campaign.stateAt(nowUs());
  if (state !== "open") refuse(state === "closed" ? "This survey is closed." : "This survey is not open yet.");

  at("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const value = read(coordinates);
    const label = grouped ? at("label").value : undefined;
    const problem = wrong(value, label, coordinates, unit);
    if (problem) return say("problem", problem);
    const question = meant ? "" : whatToAsk(campaign, value);
    if (question) return doubted(question);
    at("send").disabled = true;
    try {
      await client.contribute(campaign.id, value, { label, digest: offer.digest });
      forget();
      await settle(client, campaign);
      at("receipt-title").focus();
    } catch (error) {
      at("send").disabled = false;
      say("problem", sentence(error.message));
    }
  });
  at("retry").addEventListener("click", () => settle(client, campaign));
  addEventListener("online", () => settle(client, campaign));
  // Who has answered sees the receipt at once, and no form before it.
  const own = (await client.history()).findLast((one) => one.campaignId === campaign.id);
  const answered = own && (own.status === "pending" || own.period === campaign.periodAt(nowUs()));
  if (answered) receipt(campaign, own);
  show("survey");
  await (answered ? settle(client, campaign) : history(client));
}

/** What stands in the form: a number, a place, or null. */
function read(coordinates) {
  const parse = (id, most = Infinity) => {
    const { numbers, sure } = readNumber(at(id).value, separatorsOf(), at("unit").textContent);
    const fitting = numbers.filter((one) => Math.abs(one) <= most);
    return (sure || Number.isFinite(most)) && fitting.length === 1 ? fitting[0] : NaN;
  };
  const found = coordinates ? [parse("longitude", 180), parse("latitude", 90)] : numbers().map(({ id }) => parse(id));
  if (found.some((one) => !Number.isFinite(one))) return null;
  if (coordinates) return { longitude: found[0], latitude: found[1] };
  return found.length === 1 ? found[0] : found;
}

/** A number in digits and in words. */
function echo(x) {
  const words = spelled(x);
  return `${x.toLocaleString(undefined, { maximumSignificantDigits: 15 })}${words && ` (${words})`}`;
}

/** The inputs of an answer that is one number or several. */
function numbers() {
  return [...at("number").querySelectorAll("input")];
}

function addNumber(index, name, unit) {
  const field = at("value").closest(".field-of-number").cloneNode(true);
  const input = field.querySelector("input");
  input.id = `value-${index}`;
  Object.assign(field.querySelector("label"), { id: "", htmlFor: input.id, textContent: `${sentence(name)}, number ${index}` });
  Object.assign(field.querySelector("span"), { id: "", textContent: unit });
  at("number").append(field);
}

function wrong(value, label, coordinates, unit) {
  if (value === null) {
    const numeric = numbers().length > 1 ? "Give all the numbers" : "Give a number";
    if (coordinates) return "Give a latitude, from -90 to 90, and a longitude, from -180 to 180, in degrees.";
    const { decimal, group } = separatorsOf();
    const doubtful = numbers().map(({ value: text }) => readNumber(text, separatorsOf(), unit)).filter(({ sure }) => !sure);
    const meant = doubtful.flatMap((one) => one.numbers).filter(Number.isFinite);
    if (!meant.length) return `${numeric}, in ${unit}.`;
    return `${numeric}, in ${unit}. What you typed may be ${meant.map(echo).join(", or ")}. Here “${decimal}” stands before`
      + ` decimals, and “${group}” between thousands.`;
  }
  if (coordinates && !(Math.abs(value.latitude) <= 90 && Math.abs(value.longitude) <= 180)) {
    return "Latitudes go from -90 to 90, longitudes from -180 to 180.";
  }
  return label === "" ? "Choose your group." : "";
}

/** How well two answers can be told apart, around the value that was given if there is one. */
function picture(price, campaign, value) {
  const { unit, valueUnit, coordinates, scale } = campaign.attribute;
  const counted = scale && value !== null ? Math.max(value, scale.floor) : value;
  const rows = distances(price).map((apart) => {
    const times = ratioOf(apart);
    const far = scale ? `${number(times)} times as large` : `${distanceText(apart, unit)} away`;
    const first = value === null ? (coordinates ? "one place" : "one answer") : `${number(counted)} ${valueUnit}`;
    const second = value === null ? `one ${far}` : `${number(scale ? counted * times : value + apart)} ${valueUnit}`;
    const row = document.createElement("p");
    row.append(`${sentence(first)} or ${second}: at most ${factor(price, apart)}`, bar(price, apart, first, second));
    return row;
  });
  at("odds").replaceChildren(...rows);
}

function tellWhatIsSent(campaign) {
  const n = campaign.answersAll ? campaign.columns : Math.min(1, campaign.columns);
  const of = campaign.questions.length ? "the questions above" : "your answer";
  const numbers = n === 1 ? "One perturbed number" : `${n} perturbed numbers`;
  const lines = [
    `${numbers} for ${of}, drawn at random. Drawn once: asking again gives the same.`,
    "A random number that names this report, and which survey it is for.",
    `Not what you typed, and nothing that names you. As with any page, the server sees your address.`,
  ];
  if (campaign.readings) {
    const { epsilon, per } = campaign.totalPrivacy;
    lines.push(`${campaign.readings} In all: ε = ${number(epsilon)} per ${distanceText(per, campaign.attribute.unit)}.`);
  }
  if (campaign.tellsCohorts) lines.push(campaign.readings.telling(campaign.groups));
  at("sent").replaceChildren(...lines.map(item));
}

/** Send what waits, and show how it stands. */
async function settle(client, campaign) {
  const shown = async () => {
    const own = (await client.history()).findLast((one) => one.campaignId === campaign.id);
    if (own) receipt(campaign, own);
    await history(client);
  };
  await shown();
  at("retry").disabled = true;
  try {
    await client.flush({ deadlineMs: FLUSH_MS });
  } catch (error) {
    if (error.code !== "transport") throw error;
  } finally {
    at("retry").disabled = false;
    await shown();
  }
}

/** What an answer is to. */
function asked(campaign, index) {
  const [group, column] = [Math.floor(index / campaign.columns), index % campaign.columns];
  const question = campaign.questions[column]?.label ?? axis(campaign, column);
  return campaign.strata ? `${campaign.strata.labels[group]}, ${question}` : question;
}

/** What is held, where all of it is sent: its name, or its axis where it is of several. */
function axis({ attribute, columns }, column) {
  if (attribute.coordinates) return ["metres east", "metres north"][column];
  if (attribute.scale) return `logarithm of ${attribute.name}`;
  return columns > 1 ? `${attribute.name}, ${"xyz"[column]}` : attribute.name;
}

function receipt(campaign, own) {
  const state = own.status;
  say("state", STATES[state] + (own.reason ? ` (${own.reason})` : ""));
  at("state").className = { acknowledged: "good", rejected: "bad", expired: "bad" }[state] ?? "";
  show("meaning", campaign.questions.length > 0 && campaign.questions.every(({ query }) => BETWEEN.has(query.kind)));
  at("answers").replaceChildren(...own.answers.map(({ queryIndex, perturbed }) => row(asked(campaign, queryIndex), number(perturbed, 6))));
  show("retry", state === "pending");
  show("form", false);
  show("receipt");
}

/** What all answers about this have cost, and what this survey may still take. */
async function spent(reckoning, { campaign, price }) {
  const [inAll] = await reckoning.budgets();
  const own = (await reckoning.history()).filter((one) => one.campaignId === campaign.id);
  const paid = new Set(own.map(({ epoch, period }) => epoch?.getTime() ?? period)).size;
  const left = Math.max(0, campaign.totalPrivacy.epsilon - paid * price.epsilon);
  const { name, unit } = campaign.attribute;
  const more = left ? `, and this survey may take ε = ${number(left)} more` : ", and this survey takes no more";
  say("spent", `ε = ${number(inAll.spent)} per ${distanceText(campaign.totalPrivacy.per, unit)} on ${name}, in all surveys${more}`);
}

async function history(client) {
  await tellSpent();
  const past = [...await client.history()].reverse();
  at("history").replaceChildren(...past.map((one) => {
    const name = document.createElement("strong");
    name.textContent = `${sentence(one.charges.map(({ attribute }) => attribute).join(", ") || "open answers")} (${one.campaignId})`;
    const state = { pending: "waits", acknowledged: "counted", rejected: "refused", expired: "given up" }[one.status];
    const answers = one.answers.map(({ perturbed }) => number(perturbed, 6)).join(", ");
    const made = item("");
    made.append(name, `: ${state}, ${date(one.drawn)}. Sent ${answers}, perturbed.`
      + ` Spent ${one.charges.map(({ epsilon, per, unit }) => `ε = ${number(epsilon)} per ${distanceText(per, unit)}`).join(", ") || "no ε: sent openly"}`
      + `${one.epoch ? ", once for all answers from the same reading" : ""}.`);
    return made;
  }));
  show("past", past.length > 0);
}

function locate(put) {
  if (!navigator.geolocation) return say("problem", "This browser tells no positions. Give the coordinates instead.");
  navigator.geolocation.getCurrentPosition(
    ({ coords }) => put(coords.longitude, coords.latitude),
    () => say("problem", "The position is not known, or was not given. Choose the place on the map instead."),
    { maximumAge: 600_000, timeout: 20_000 },
  );
}

/** Nothing of the answer stays in the page once its perturbed version is stored. */
function forget() {
  for (const input of [...numbers(), at("longitude"), at("latitude"), at("label")]) input.value = "";
  at("map").replaceChildren();
  at("odds").replaceChildren();
  at("odds-text").replaceChildren();
  say("echo", "");
}

function refuse(why) {
  say("problem", why);
  at("send").disabled = true;
}

function trouble(error) {
  const texts = {
    "campaign-not-found": "There is no such survey here.",
    "signature-invalid": "Its signature is not valid: somebody changed it.",
    unsupported: "This page does not know how to answer this survey, so it does not.",
    transport: "The server can't be reached.",
  };
  say("trouble-title", texts[error.code] ?? "This survey can't be shown.");
  say("trouble-text", error.message);
  show("survey", false);
  show("trouble");
  at("trouble-title").focus();
}

function date(when) {
  return when.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** A key, short enough to compare with one that was read out. */
function shortened(key) {
  return `${key.slice(0, 16)} … ${key.slice(-8)}`;
}

function nowUs() {
  return BigInt(Date.now()) * 1000n;
}

function every(us) {
  if (us === undefined || us === null) return "";
  const hours = Number(us) / 3.6e9;
  return `; once every ${hours >= 48 ? `${number(hours / 24)} days` : `${number(hours)} hours`}`;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function item(text) {
  const made = document.createElement("li");
  made.textContent = text;
  return made;
}

function row(...texts) {
  const made = document.createElement("tr");
  made.append(...texts.map((text, index) => {
    const cell = document.createElement(index ? "td" : "th");
    if (!index) cell.scope = "row";
    cell.textContent = text;
    return cell;
  }));
  return made;
}
