// Taking part in a survey: show what is asked and what it costs, perturb here, send, keep the receipt.
// A survey with one question is one screen; a form has one screen for each question, between an overview
// and all answers.
// The page shows every text of a survey as text, and neither stores nor logs the answer.

import { between, both, Client, digits, IndexedDbStorage, isForm, Policy, say, speak, spoken, textsOf } from "./geoveil-client.js";
import { dots, hasDots, rowsOf } from "./dots.js";
import { bar, distances, factor, ratioOf } from "./odds.js";
import { invited } from "./invited.js";
import { aboutForm, costText, dateText, distanceText, errorText, languagesOf, linesOf, make, questionsOf, sentence, toldOf, whatIsKept, whatIsSent, withLifetime } from "./geoveil-survey.js";
import { maps } from "./map.js";

const FLUSH_MS = 15_000;
/** The pause after the last key before another hundred reports are drawn for the picture. */
const PAUSE_MS = 300;
const at = (id) => document.getElementById(id);
const put = (id, text) => (at(id).textContent = text);
const show = (id, visible = true) => (at(id).hidden = !visible);
const item = (text) => make("li", {}, text);

/** Questions whose answer, without noise, lies between no and yes. */
const BETWEEN = new Set(["threshold", "range", "twoWayThreshold", "disc", "polygon", "gaussianKernel"]);
const REASONS = { WRONG_TOKEN: "reason.token" };

/** Show what was spent, once a survey is loaded. */
let tellSpent = async () => [];
/** The worker that serves these files without a connection, and sends if the browser lets it. */
let keeper;
/** For a survey that asks for tokens: the person's invitation code. */
let invitation;
/** Whether waiting reports are sent without a page. */
let later = false;

start().catch(trouble).finally(() => {
  at("main").removeAttribute("aria-busy");
  show("waiting", false);
});

/** Translate the page into the language of the address, else of the browser, else of the survey. */
async function translate(ofSurvey = []) {
  const wanted = new URLSearchParams(location.search).getAll("lang");
  document.documentElement.lang = await speak(...wanted, ...navigator.languages, ...ofSurvey);
  document.title = say("page");
  put("waiting", say("waiting"));
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
}

async function start() {
  await translate();
  const id = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  const storage = await IndexedDbStorage.open("geoveil");
  const server = location.origin;
  const looking = new Client({ server, storage, policy: new Policy({ limits: {} }), background: false });
  if (!id) return list(await looking.campaigns());
  // Permit exactly what is shown: these bytes at this price. Fetch everything before showing it, so that
  // the server is not needed until the report is sent.
  const [offer, anew] = await offered(looking, id);
  if (!spoken().locale) await translate(languagesOf(offer.campaign));
  const policy = withLifetime(Policy.permitting(offer));
  invitation = await invited(offer.campaign);
  const client = new Client({ server, storage, policy, ...(invitation && { issuer: invitation.issuer }) });
  if (anew && !offer.closed) await client.fetch(id);
  tellSpent = () => spent(client, policy, offer);
  keeper = navigator.serviceWorker?.register("/pages/keeper.js", { scope: "/take-part/", type: "module" }).catch(() => undefined);
  await ask(client, offer);
}

/** A survey from the server or, if that can't be reached, from this browser; and whether it is the server's. */
async function offered(looking, id) {
  try {
    if (navigator.onLine) return [await looking.offer(id), true];
  } catch (error) {
    if (error.code !== "transport") throw error;
  }
  return [await looking.offer(id, { kept: true }), false];
}

/** Have the worker send waiting reports, if the browser supports that. */
async function sendLater() {
  const { sync } = (await keeper) ?? {};
  return Boolean(sync) && await sync.register("geoveil").then(() => true, () => false);
}

function list(offers) {
  for (const { campaign } of offers) {
    const link = make("a", { href: `/take-part/${encodeURIComponent(campaign.id)}${location.search}`, dir: "auto" }, textsOf(campaign).title);
    at("surveys").append(make("li", {}, link));
  }
  show("no-surveys", !offers.length);
  show("list");
}

function describe({ campaign, signer }, questions) {
  const { title, attribute, questions: statistics, asker = { organisation: say("who.unknown") } } = textsOf(campaign);
  document.title = say("page.title", { title });
  put("title", title);
  if (isForm(campaign)) put("asks", aboutForm(questions));
  else {
    const { name, valueUnit: unit, coordinates } = attribute;
    const range = between(attribute);
    put("asks", coordinates ? say("asks.place", { name }) : say("asks.value", { name, unit, range: range && `, ${range}` }));
  }
  for (const id of ["organisation", "purpose", "contact", "notice"]) {
    put(id, asker[id] ?? "");
    at(id).closest("div").hidden = !asker[id];
  }
  at("notice").href = asker.notice ?? "";
  put("kept", whatIsKept(campaign).join(" "));
  put("signer", signer ? shortened(String(signer)) : say("who.nobody"));
  if (signer) at("details").append(item(say("who.key", { key: String(signer) })));
  else at("who").append(at("signer").closest("div"));
  put("dates", say("dates", { opens: dateText(campaign.opens), closes: dateText(campaign.closes), every: every(campaign.periodUs) }));
  const asked = isForm(campaign) ? questions.map((one) => `${one.title} ${toldOf({ ...one, tellsOf: () => [] })} ${one.condition}`) : statistics.map(({ label }) => label);
  at("questions").append(...asked.map(item));
  if (!asked.length) at("questions").append(item(say("asks.later")));
}

async function ask(client, offer) {
  const { campaign } = offer;
  const form = isForm(campaign);
  const questions = questionsOf(offer, { changed: () => changed(), maps });
  describe(offer, questions);
  const single = questions.length === 1;
  const last = single ? 0 : questions.length + 1;
  /**
   * The visible screen: 0 says what is asked for, the last one has all answers; with one question, 0 has
   * everything.
   */
  let screen = 0;
  let reviewed = false;
  const shown = () => questions[single ? 0 : screen - 1];
  const answers = (some) => Object.fromEntries(some.map((one) => [one.name, one.read()]));
  /** The questions that apply, given the answers so far. */
  const applying = () => {
    if (!form) return questions;
    const names = new Set(campaign.applying(answers(questions)).map(({ name }) => name));
    return questions.filter(({ name }) => names.has(name));
  };
  if (questions.some(({ open }) => open)) put("stays", say("stays.open"));
  const screenOf = (question) => questions.indexOf(question) + 1;
  let drawing;
  let meant = false;
  const doubted = (text) => {
    meant = text !== "";
    put("doubt", text);
    put("send", say(screen < last ? (meant ? "next.meant" : screen ? "next" : "begin") : meant ? "send.meant" : "send"));
  };
  const changed = () => {
    put("problem", "");
    doubted("");
    const question = shown();
    if (!question) return;
    const value = question.read();
    if (question.price) picture(question, typeof value === "number" ? value : null, form);
    clearTimeout(drawing);
    if (!form && hasDots(campaign)) drawing = setTimeout(() => hundred(campaign, question), at("dots").firstChild ? PAUSE_MS : 0);
    const answer = question.point && question.shown();
    put("echo", answer ? say("echo", { answer }) : "");
    at("odds-text").replaceChildren(...toldOf(question).map(item));
  };
  const go = (to) => {
    const before = screen;
    screen = to;
    const question = shown();
    const whole = screen === last;
    show("about", screen === 0);
    show("stays", screen === 0);
    for (const id of ["tells", "inputs"]) show(id, question !== undefined);
    show("figure", question?.price !== undefined);
    show("summary", whole && !single);
    show("sending", whole);
    show("back", screen > 0);
    show("progress", Boolean(question) && !single);
    at("progress").value = screen;
    at("progress").max = questions.length;
    put("form-title", single ? say("answer.title") : question ? say("question.of", { number: screen, many: questions.length }) : say(whole ? "answer.all" : "answer.before"));
    at("inputs").replaceChildren(...(question ? [question.box] : []));
    const apply = applying();
    const left = question ? questions.slice(before, Math.max(before, screen - 1)).filter((one) => !apply.includes(one)) : [];
    at("form").classList.toggle("asking", Boolean(question) && !single);
    at("skipped").replaceChildren(...left.map((one) => item(say("question.skipped", { number: screenOf(one), title: one.title, why: one.skipped }))));
    at("summary").replaceChildren(...(whole && !single ? [summary(apply)] : []));
    changed();
  };
  const summary = (apply) => {
    const rows = questions.map((question) => {
      const { title, skipped } = question;
      if (!apply.includes(question)) return make("li", {}, make("strong", {}, title), make("p", { class: "note" }, skipped));
      const change = make("button", { type: "button", class: "plain", "aria-label": say("change.of", { title }) }, say("change"));
      change.addEventListener("click", () => move(screenOf(question)));
      const head = make("div", { class: "head" }, make("strong", {}, title), change);
      return make("li", {}, head, make("p", { class: "answer" }, question.shown()), telling(question));
    });
    const together = campaign.tells.slice(questions.length).map((text) => make("p", {}, text));
    return make("div", {}, make("ol", {}, ...rows), ...together);
  };
  const telling = (question) => make("details", { class: "note" }, make("summary", { "aria-label": say("tells.of", { title: question.title }) }, say("tells")), make("p", {}, toldOf(question).join(" ")));
  const move = (to) => {
    history.pushState({ screen: to }, "");
    go(to);
    at("form-title").focus();
  };
  /** The next question that applies; once all have been seen, the next without an answer. */
  const next = () => {
    const rest = applying().filter((one) => (reviewed ? one.wrong() : screenOf(one) > screen));
    if (!rest.length) reviewed = true;
    move(rest.length ? screenOf(rest[0]) : last);
  };
  addEventListener("popstate", ({ state }) => {
    if (at("form").hidden || single) return;
    let to = Math.min(state?.screen ?? 0, last);
    while (to > 0 && to < last && !applying().includes(questions[to - 1])) to -= 1;
    go(to);
    at("form-title").focus();
  });
  at("back").addEventListener("click", () => history.back());
  at("form").addEventListener("input", changed);
  history.replaceState({ screen: 0 }, "");
  go(0);
  at("sent").replaceChildren(...whatIsSent(campaign, questions).map(item));
  put("code", say("code", { host: location.host }));
  show("window", client.persistent === false);
  const state = offer.closed ? "closed" : campaign.stateAt(nowUs());
  if (state === "pending") refuse(say("early"));
  if (state === "closed") {
    put("asks", say("closed"));
    at("more").open = true;
    offerResults(campaign);
  }
  show("form", state !== "closed");

  at("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const question = shown();
    if (question) {
      const problem = question.wrong();
      if (problem) return put("problem", problem);
      const doubt = meant ? "" : question.doubt();
      if (doubt) return doubted(doubt);
    }
    if (screen < last) return next();
    const apply = applying();
    const missing = apply.find((one) => one.wrong());
    if (missing) return single ? undefined : move(screenOf(missing));
    const problem = invitation?.wrong();
    if (problem) return put("problem", problem);
    at("send").disabled = true;
    try {
      await client.contribute(campaign.id, form ? answers(apply) : question.read(), { digest: offer.digest });
      forget(questions);
      await settle(client, campaign, questions, true);
    } catch (error) {
      at("send").disabled = false;
      put("problem", errorText(error));
    }
  });
  at("retry").addEventListener("click", () => {
    const problem = invitation?.wrong();
    if (problem) put("inviting", problem);
    else settle(client, campaign, questions);
  });
  addEventListener("online", () => settle(client, campaign, questions));
  // People who have answered see the receipt at once, without the form.
  const own = (await client.history()).findLast((one) => one.campaignId === campaign.id);
  const answered = own && (state === "closed" || own.status === "pending" || own.period === campaign.periodAt(nowUs()));
  const exhausted = await tellSpent();
  if (answered) receipt(campaign, questions, own);
  else if (exhausted.length) refuse(say("exhausted", { names: both(exhausted) }));
  show("survey");
  await (answered ? settle(client, campaign, questions) : past(client));
}

/** How well two answers can be told apart, around the value that was given if there is one. */
function picture({ attribute, price }, value, form) {
  const { unit, valueUnit, coordinates, scale, least = -Infinity, most = Infinity } = attribute;
  // Within the range, where there is room on either side.
  const beside = (apart) => (value + apart > most && value - apart >= least ? value - apart : value + apart);
  const counted = scale && value !== null ? Math.max(value, scale.floor) : value;
  const rows = distances(price).map((apart) => {
    const times = ratioOf(apart);
    const first = value === null ? say(coordinates ? "bars.place" : "bars.answer") : `${digits(counted)} ${valueUnit}`;
    const further = scale ? say("bars.times", { times: digits(times) }) : say("bars.away", { apart: distanceText(apart, unit) });
    const second = value === null ? further : `${digits(scale ? counted * times : beside(apart))} ${valueUnit}`;
    return make("p", {}, say("bars.row", { first: sentence(first), second, odds: factor(price, apart) }), bar(price, apart, first, second));
  });
  at("odds").replaceChildren(...rows);
  put("guessed", say(form ? "bars.alone" : "bars.report"));
}

/** A hundred reports that could be sent for an answer, beside those for other answers. */
function hundred(campaign, question) {
  const value = question.read();
  const given = value !== null && !question.wrong();
  show("dots-figure", given);
  if (!given) return at("dots").replaceChildren();
  const { attribute, price } = question;
  const { unit, valueUnit, coordinates, scale, least = -Infinity, most = Infinity } = attribute;
  const others = distances(price).slice(1).map((apart) => {
    if (coordinates) return { by: apart, label: say("dots.east", { apart: distanceText(apart, unit) }) };
    if (scale) return { by: apart, label: `${digits(Math.max(value, scale.floor) * ratioOf(apart))} ${valueUnit}` };
    const by = value + apart > most && value - apart >= least ? -apart : apart;
    return { by, label: `${digits(value + by)} ${valueUnit}` };
  });
  const edge = campaign.questions[0]?.query.at;
  if (typeof edge === "number" && !scale) others.push({ by: 2 * (edge - value), label: `${digits(2 * edge - value)} ${valueUnit}` }); // beyond what is asked
  const what = campaign.questions.length ? say("dots.on", { label: textsOf(campaign).questions[0].label }) : say("dots.what");
  at("dots").replaceChildren(dots(rowsOf(campaign, value, others), what, campaign.questions.length ? [0, 1] : []));
  put("dots-text", say("dots.text", { what }));
}

/** Send waiting reports, and show their state; a fresh report takes the reader to its receipt. */
async function settle(client, campaign, questions, fresh = false) {
  const shown = async () => {
    const own = (await client.history()).findLast((one) => one.campaignId === campaign.id);
    if (own) receipt(campaign, questions, own);
    if (fresh) at("receipt-title").focus();
    fresh = false;
    await past(client);
  };
  if (!navigator.onLine) later = await sendLater();
  await shown();
  if (!navigator.onLine) return;
  at("retry").disabled = true;
  try {
    await client.flush({ deadlineMs: FLUSH_MS });
    invitation?.settle(await client.history());
  } catch (error) {
    if (error.code !== "transport") throw error;
  } finally {
    at("retry").disabled = false;
    later = (await client.counts()).pending > 0 && await sendLater();
    await shown();
  }
}

function receipt(campaign, questions, own) {
  const state = own.status;
  // The worker has no code, so only a page sends reports to a survey that asks for one.
  const waits = invitation ? own.failure === "permission_denied" && "uninvited" : later && "later";
  const reason = own.reason && (REASONS[own.reason] ? say(REASONS[own.reason]) : own.reason);
  put("state", say(`state.${(state === "pending" && waits) || state}`) + (reason ? ` (${reason})` : ""));
  at("state").className = { acknowledged: "good", rejected: "bad", expired: "bad" }[state] ?? "";
  show("meaning", !isForm(campaign) && campaign.questions.length > 0 && campaign.questions.every(({ query }) => BETWEEN.has(query.kind)));
  const rows = linesOf(campaign, questions, own).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)));
  at("answers").replaceChildren(...rows);
  show("retry", state === "pending");
  show("form", false);
  show("about");
  at("more").open = true;
  show("receipt");
  offerResults(campaign);
}

/** Link to the results, if the operator shows them. */
async function offerResults({ id }) {
  const status = async (path) => (await fetch(path, { method: "HEAD" }).catch(() => ({}))).status;
  at("results-link").href = `/results/${id}`;
  show("results", (await status("/pages/results")) === 200 && (await status(`/results/${id}`)) === 200);
}

/**
 * Show what all answers about each attribute have cost, and what is left; return the attributes with too
 * little left.
 */
async function spent(client, policy, { campaign, price }) {
  const own = (await client.history()).filter((one) => one.campaignId === campaign.id);
  const paid = new Set(own.map(({ epoch, period }) => epoch?.getTime() ?? period)).size;
  const charges = isForm(campaign) ? campaign.charges : [{ attribute: campaign.attribute.name, privacy: price }];
  const exhausted = [];
  const { attribute: shown } = textsOf(campaign); // none of forms
  const lines = (await client.budgets()).map(({ attribute, spent: inAll, limit: { epsilon, per, unit: own } }) => {
    const { name, unit } = shown ?? { name: attribute, unit: own };
    const { privacy } = charges.find((one) => one.attribute === attribute);
    const ofSurvey = policy.limits.get(attribute).campaign.epsilon - paid * privacy.epsilon;
    const left = Math.max(0, Math.min(ofSurvey, epsilon - inAll));
    if (inAll + privacy.epsilon > epsilon * (1 + 1e-9)) exhausted.push(name);
    const more = left ? say("spent.more", { left: digits(left) }) : say("spent.none");
    const text = say("spent", { spent: digits(inAll), distance: distanceText(per, unit), attribute: name, more });
    return [text, make("meter", { max: epsilon, value: inAll, "aria-label": say("spent.on", { attribute: name }) })];
  });
  if (lines.length === 1) at("spent").replaceChildren(...lines[0]);
  else put("spent", lines.length ? say("spent.many", { n: lines.length }) : say("spent.open"));
  at("each").replaceChildren(...(lines.length > 1 ? lines.map(([text, meter]) => make("li", {}, say("spent.each", { text }), meter)) : []));
  return exhausted;
}

async function past(client) {
  await tellSpent();
  const reports = [...await client.history()].reverse();
  at("history").replaceChildren(...reports.map((one) => {
    const name = sentence(one.charges.map(({ attribute }) => attribute).join(", ") || say("past.open"));
    const sent = one.answers.map(({ perturbed }) => digits(perturbed, 6)).join("; ");
    const on = ({ attribute, unit, ...price }) => (one.charges.length > 1 ? say("past.on", { cost: costText(price, unit), attribute }) : costText(price, unit));
    const cost = one.charges.map(on).join("; ") || say("past.free");
    const said = { state: say(`past.${one.status}`), date: dateText(one.drawn), sent, cost, epoch: one.epoch ? say("past.epoch") : "" };
    return make("li", {}, make("strong", { dir: "auto" }, `${name} (${one.campaignId})`), say("past.line", said));
  }));
  show("past", reports.length > 0);
}

/** The page keeps no answer once the report drawn from it is stored. */
function forget(questions) {
  for (const question of questions) question.clear();
  for (const id of ["inputs", "summary", "skipped", "odds", "odds-text", "dots"]) at(id).replaceChildren();
  put("echo", "");
}

function refuse(why) {
  put("problem", why);
  at("send").disabled = true;
  at("more").open = true;
}

function trouble(error) {
  const known = { "campaign-not-found": "missing", "signature-invalid": "signature", unsupported: "unable", transport: "transport", "policy-refused": "unable" };
  put("trouble-title", say(known[error.code] ? `trouble.${known[error.code]}` : "trouble"));
  const more = spoken().language === "en" ? errorText(error) : "";
  put("trouble-text", error.code === "policy-refused" ? say("trouble.relay") : more);
  show("survey", false);
  show("trouble");
  at("trouble-title").focus();
}

/** A key, short enough to compare when somebody reads it out. */
function shortened(key) {
  return `${key.slice(0, 16)} … ${key.slice(-8)}`;
}

function nowUs() {
  return BigInt(Date.now()) * 1000n;
}

function every(us) {
  if (us === undefined || us === null) return "";
  const hours = Number(us) / 3.6e9;
  return hours >= 48 ? say("every.days", { n: hours / 24 }) : say("every.hours", { n: hours });
}
