/**
 * `<geoveil-survey campaign="income" server="https://collector.example" key="ed25519:...">`: a survey on
 * any page, from its question and what an answer reveals to the receipt. It dispatches the events
 * `geoveil-sent`, with the receipt, and `geoveil-error`, with the error. Every text of a survey is shown
 * as text.
 */
import { type GeoveilError, type Issuer, isForm, type Offer, type Policy, type PolicyOptions, type Receipt, say, speak, type Storage, textsOf } from "./index.js";
import { applying, contribution, dateText, errorText, linesOf, make, type Question, questionsOf, toldOf, whatIsSent } from "./questions.js";
import { Survey, type SurveyState } from "./survey.js";
import { whoAsks, whoLearns } from "./ways.js";

const STYLE = `
:host { display: block; color: var(--geoveil-text, inherit); font: inherit; line-height: 1.5; overflow-wrap: anywhere; }
:host([hidden]) { display: none; }
h2, h3 { line-height: 1.25; margin: 1em 0 0.4em; }
h2 { font-size: 1.4em; margin-top: 0; }
h3 { font-size: 1.1em; }
p { margin: 0.5em 0; }
ul { margin: 0.5em 0; padding-inline-start: 1.25em; }
fieldset { border: 0; margin: 0; padding: 0; min-inline-size: 0; }
legend, .field label { font-weight: 600; padding: 0; }
.field { display: grid; gap: 0.25em; justify-items: start; }
.with-unit, .option { align-items: center; display: flex; gap: 0.5em; }
.option { min-block-size: 2.75em; }
.pair { display: flex; flex-wrap: wrap; gap: 0.75em; }
.note { font-size: 0.9em; }
.problem { color: var(--geoveil-problem, light-dark(#b3261e, #ffb4ab)); font-weight: 600; }
.problem:empty, .note:empty { display: none; }
input:not([type]), select, button {
  border: 1px solid var(--geoveil-border, currentColor); border-radius: var(--geoveil-radius, 0.4em); box-sizing: border-box;
  font: inherit; max-inline-size: 100%; min-block-size: 2.75em; padding: 0.4em 0.7em;
}
input:not([type]), select { background: var(--geoveil-field, Field); color: var(--geoveil-field-text, FieldText); }
button { background: none; color: inherit; cursor: pointer; margin-block-start: 0.75em; }
button[part=button] {
  background: var(--geoveil-accent, #1a4f9c); border-color: transparent; color: var(--geoveil-on-accent, #fff); font-weight: 600;
}
button:disabled { cursor: default; opacity: 0.6; }
:focus-visible { outline: 3px solid var(--geoveil-focus, var(--geoveil-accent, Highlight)); outline-offset: 2px; }
table { border-collapse: collapse; }
caption { text-align: start; white-space: nowrap; }
th, td { border-block-start: 1px solid var(--geoveil-border, currentColor); padding-block: 0.4em; padding-inline-end: 0.8em; text-align: start; }
th { font-weight: inherit; }
`;
const ATTRIBUTES = ["campaign", "server", "key", "lifetime", "lang"];

/** The elements of a question, and the place for what depends on its answer. */
interface Shown {
  readonly question: Question;
  readonly box: HTMLElement;
  readonly echo: HTMLElement;
  readonly tells: HTMLElement;
  readonly problem: HTMLElement;
}

/** Without a document, as on a server that renders pages, this file does nothing. */
const Base = globalThis.HTMLElement ?? (class {} as typeof HTMLElement);

/** A survey on a page. */
export class GeoveilSurvey extends Base {
  static readonly observedAttributes = ATTRIBUTES;
  readonly #root = this.attachShadow({ mode: "open" });
  #given: { policy?: Policy | PolicyOptions | undefined; issuer?: Issuer | undefined; storage?: Storage | undefined } = {};
  #stop: (() => void) | undefined;
  #planned = false;
  /** What is shown at present. */
  #status = "";
  /** Whether the person has just answered and should see the receipt. */
  #answered = false;

  constructor() {
    super();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    this.#root.adoptedStyleSheets = [sheet];
  }

  /** What the page permits; undefined: what it shows, up to the attribute `lifetime` for all surveys of the site. */
  get policy(): Policy | PolicyOptions | undefined {
    return this.#given.policy;
  }
  set policy(policy: Policy | PolicyOptions | undefined) {
    this.#take({ policy });
  }

  /** The issuer of this person's token, for a campaign that asks for tokens. */
  get issuer(): Issuer | undefined {
    return this.#given.issuer;
  }
  set issuer(issuer: Issuer | undefined) {
    this.#take({ issuer });
  }

  /** Where reports are stored; undefined: in the database of this site. */
  get storage(): Storage | undefined {
    return this.#given.storage;
  }
  set storage(storage: Storage | undefined) {
    this.#take({ storage });
  }

  connectedCallback(): void {
    // A property set before this file was loaded hides the class's own.
    for (const name of ["policy", "issuer", "storage"] as const) {
      if (!Object.hasOwn(this, name)) continue;
      const given = this[name];
      delete this[name];
      this.#take({ [name]: given });
    }
    this.#restart();
  }

  disconnectedCallback(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  attributeChangedCallback(): void {
    this.#restart();
  }

  #take(given: object): void {
    this.#given = { ...this.#given, ...given };
    this.#restart();
  }

  /** Begin anew, once for all simultaneous changes. */
  #restart(): void {
    if (this.#planned) return;
    this.#planned = true;
    queueMicrotask(() => {
      this.#planned = false;
      this.#stop?.();
      this.#stop = undefined;
      if (!this.isConnected) return;
      const { lang } = this.closest<HTMLElement>("[lang]") ?? this;
      void speak(...(lang ? [lang] : navigator.languages)).then(() => {
        if (this.isConnected && !this.#planned && !this.#stop) this.#start();
      });
    });
  }

  #start(): void {
    const attribute = (name: string): string | undefined => this.getAttribute(name) ?? undefined;
    const lifetime = attribute("lifetime");
    const survey = new Survey({
      campaign: attribute("campaign") ?? "",
      server: attribute("server") ?? location.origin,
      key: attribute("key"),
      ...(lifetime !== undefined && { lifetime: Number(lifetime) }),
      ...this.#given,
    });
    this.#status = "";
    const silence = survey.subscribe(() => this.#show(survey));
    const close = survey.open();
    this.#stop = () => {
      silence();
      close();
    };
  }

  #show(survey: Survey): void {
    const { state } = survey;
    const { status, offer, receipt, error } = state;
    const before = this.#status;
    this.#status = status;
    if (status === "loading") this.#fill(make("p", { role: "status", part: "note" }, say("waiting")));
    else if (status === "ready" && before !== "sending") this.#ask(survey, state, offer!);
    else if (receipt && offer) this.#receive(state, offer, receipt);
    else if (status === "error") this.#fill(make("h2", { part: "title" }, say("refused.title")), make("p", { part: "problem" }, stopped(error!)));
    if (status === "sent" && before === "sending" && this.#answered) this.#tell("geoveil-sent", { receipt });
    if (error) this.#tell("geoveil-error", { error });
  }

  #fill(...content: Node[]): void {
    this.#root.replaceChildren(...content);
  }

  #tell(name: string, detail: { receipt?: Receipt | undefined; error?: GeoveilError }): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  #ask(survey: Survey, { persistent, epoch }: SurveyState, offer: Offer): void {
    const { campaign, signer } = offer;
    const { title } = textsOf(campaign);
    const changed = (): void => update();
    const questions = questionsOf(offer, { changed, prefix: "", epoch });
    const asked = questions.map((question, i): Shown => {
      const prefix = isForm(campaign) ? `${i}-` : "";
      const echo = make("p", { class: "note", part: "note", "aria-live": "polite" });
      const tells = make("ul", { class: "note", part: "tells" });
      const problem = make("p", { class: "problem", part: "problem", id: `${prefix}problem`, role: "alert" });
      const box = make("div", { part: "question" }, question.box, problem, echo, tells);
      box.querySelectorAll("input, select").forEach((input) => input.setAttribute("part", "input"));
      return { question, box, echo, tells, problem };
    });
    const together = isForm(campaign) ? campaign.tells.slice(questions.length) : [];
    const send = make("button", { part: "button" });
    const failed = make("p", { class: "problem", part: "problem", role: "alert" });
    const form = make("form", { part: "form", novalidate: "", "aria-labelledby": "title" });
    let meant = false;
    const doubted = (text: string): void => {
      meant = text !== "";
      failed.textContent = text;
      send.textContent = say(meant ? "send.meant" : "send");
    };
    const update = (): void => {
      doubted("");
      const apply = applying(campaign, questions);
      for (const { question, box, echo, tells, problem } of asked) {
        box.hidden = !apply.includes(question);
        problem.textContent = "";
        const answer = question.point && question.shown();
        echo.textContent = answer ? say("echo", { answer }) : "";
        tells.replaceChildren(...toldOf(question).map(item));
      }
    };
    form.append(
      ...asked.map(({ box }) => box),
      ...together.map(note),
      ...(isForm(campaign) ? [] : whatIsAsked(textsOf(campaign).questions.map(({ label }) => label))),
      make("h3", { part: "heading" }, say("sent.title")),
      list([...whatIsSent(campaign, questions, epoch), ...whoLearns(campaign)]),
      note(say("code", { host: location.host || say("code.file") })),
      ...(persistent === false ? [note(say("forgets"))] : []),
      failed,
      send,
    );
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const apply = applying(campaign, questions);
      const doubts: string[] = [];
      for (const { question, box, problem } of asked.filter((one) => apply.includes(one.question))) {
        problem.textContent = question.wrong();
        if (problem.textContent) return box.querySelector<HTMLElement>("input, select")?.focus();
        doubts.push(question.doubt());
      }
      const doubt = doubts.filter(Boolean).join(" ");
      if (doubt && !meant) return doubted(doubt);
      send.disabled = true;
      this.#answered = true;
      survey.contribute(contribution(offer, questions)).then(
        // The page keeps no answer once the report drawn from it is stored.
        () => questions.forEach((question) => question.clear()),
        (error: GeoveilError) => {
          this.#answered = false;
          send.disabled = false;
          failed.textContent = stopped(error);
        },
      );
    });
    update();
    this.#fill(
      make("h2", { part: "title", id: "title", dir: "auto" }, title),
      note(say("asked.signed", { signer: signer ?? say("who.nobody"), date: dateText(campaign.closes) })),
      list(whoAsks(campaign)),
      form,
    );
  }

  #receive({ status, error }: SurveyState, offer: Offer, receipt: Receipt): void {
    const said = status === "sent" ? say("state.acknowledged") : error ? stopped(error) : say("state.pending");
    let state = this.#root.querySelector<HTMLElement>("#state");
    if (!state) {
      state = make("p", { id: "state", role: "status" });
      const { campaign } = offer;
      const questions = questionsOf(offer, { changed: () => undefined });
      const rows = linesOf(campaign, questions, receipt).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)));
      const title = make("h3", { part: "heading", tabindex: "-1" }, say("receipt.title"));
      const table = make("table", { part: "receipt" }, make("caption", {}, say("receipt.answer")), make("tbody", {}, ...rows));
      this.#fill(make("h2", { part: "title", dir: "auto" }, textsOf(campaign).title), title, state, table);
      if (this.#answered) title.focus();
    }
    state.textContent = said;
    state.setAttribute("part", error ? "problem" : "status");
    state.classList.toggle("problem", error !== undefined);
  }
}

function item(text: string): HTMLElement {
  return make("li", {}, text);
}

function list(lines: readonly string[]): HTMLElement {
  return make("ul", { part: "list" }, ...lines.map(item));
}

function note(text: string): HTMLElement {
  return make("p", { class: "note", part: "note" }, text);
}

/** What a report about one attribute says. */
function whatIsAsked(labels: readonly string[]): HTMLElement[] {
  if (!labels.length) return [note(say("asked.later"))];
  return [make("h3", { part: "heading" }, say("asked.title")), list(labels)];
}

/** What went wrong, as a sentence. */
function stopped(error: GeoveilError): string {
  return errorText(error).replace(/\.?$/, ".");
}

declare global {
  interface HTMLElementTagNameMap {
    "geoveil-survey": GeoveilSurvey;
  }
}

if (globalThis.customElements && !customElements.get("geoveil-survey")) customElements.define("geoveil-survey", GeoveilSurvey);
