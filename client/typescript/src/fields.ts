/**
 * The fields of a form: read from the wire, answered and perturbed.
 *
 * It is loaded for forms only, and imports nothing, so that it is a separate file.
 */
import type { Drawn } from "./campaign.js";
import type { BitSource } from "./exact/bits.js";
import type { Rational } from "./exact/rational.js";
import type { Answers, Charge, Field, Form, Prepared, Tools, Wording } from "./form.js";
import type { Field as Message, Options, PerturbedPoint } from "./gen/geoveil/proto/v1/campaign_pb.js";
import type { Category } from "./gp/categories.js";
import type { Privacy } from "./gp/mechanism.js";
import type { Limit, ValueKind } from "./policy.js";
import type { Value } from "./values.js";

const MOST_FIELDS = 64;
const MOST_REPORT_BYTES = 16_384;
/** The most bytes of a report without answers, and of each of its integers. */
const [ID_BYTES, COLUMN_BYTES] = [32, 17];
const MOST_OPTIONS = { choice: 10_000, ordinal: 100, multiple: 62 };
const BITS_A_COLUMN = 62;

type Common = Pick<Field, "wordings" | "applies">;

export function readForm(tools: Tools, bytes: Uint8Array): Form {
  const { ParameterError, PrivateValueError, Rational, ZERO } = tools;
  const sum = (epsilons: readonly number[]): Rational => epsilons.map((x) => Rational.from(x)).reduce((a, b) => a.add(b), ZERO);

  class FormCampaign extends tools.Dated implements Form {
    readonly fields: readonly Field[];
    readonly columns: number;
    readonly charges: readonly Charge[];
    readonly largestEpsilon: number;

    constructor() {
      const message = tools.messageOf(bytes);
      for (const name of ["opens", "closes"] as const) {
        if (!message[name]) throw new ParameterError(name, "none", "in every campaign");
      }
      const { length } = message.fields;
      if (length < 1 || length > MOST_FIELDS) throw new ParameterError("number of fields", length, `1 to ${MOST_FIELDS}`);
      const { attribute, privacy, mechanism, grid, readings, cap } = message;
      if ([attribute, privacy, mechanism, grid, readings, cap].some((x) => x) || message.queries.length || message.allocation) {
        throw new tools.UnsupportedError("the campaign is not in canonical form: a form has fields only");
      }
      super(bytes, message);
      this.fields = message.fields.map((field) => readField(tools, field));
      requireApart(tools, this.fields);
      this.columns = this.fields.reduce((many, field) => many + field.columns, 0);
      const size = ID_BYTES + COLUMN_BYTES * this.columns;
      if (size > MOST_REPORT_BYTES) throw new ParameterError("size of a report", size, `at most ${MOST_REPORT_BYTES} bytes`);
      this.requireSlots();
      this.charges = this.fields.flatMap((field) => (field.privacy ? [this.#charge(field, field.privacy)] : []));
      const each = this.fields.map((field) => field.largestEpsilon);
      this.largestEpsilon = each.includes(Infinity) ? Infinity : sum(each).roundUp();
    }

    get indices(): number {
      return this.columns;
    }

    get exponents(): readonly number[] {
      return this.fields.flatMap(({ columns, stepExponent }) => Array.from({ length: columns }, () => stepExponent));
    }

    /** The charge for a participant who reports in every period. */
    get #inAll(): Charge[] {
      return this.charges.map((one) => ({ ...one, privacy: tools.repeated(one.privacy, this.periods), anyTwo: one.anyTwo * Number(this.periods) }));
    }

    get permission(): Form["permission"] {
      const kinds = new Map(this.fields.map((field) => [field.name, tools.kindOf(field)]));
      const limits = this.#inAll.map(({ attribute, unit, privacy }) => [
        attribute,
        { campaign: { ...privacy, unit }, lifetime: "unbounded", value: kinds.get(attribute) } as const,
      ]);
      const open = this.fields.filter(({ privacy }) => !privacy).map(({ name }) => [name, kinds.get(name)]);
      return { limits: Object.fromEntries(limits) as Record<string, Limit>, openly: Object.fromEntries(open) as Record<string, ValueKind> };
    }

    get tells(): string[] {
      const all = this.#inAll;
      const said = this.fields.map((field) => fieldTells(tools, field, all.find(({ attribute }) => attribute === field.name)));
      if (this.periods > 1n) said.push(tools.say("form.all", { many: tools.digits(Number(this.periods)) }));
      return this.fields.length > 1 ? [...said, tools.say("form.together")] : said;
    }

    tellsOf(name: string, answer: unknown): string[] {
      const field = this.fields.find((one) => one.name === name)!;
      const charge = this.#inAll.find(({ attribute }) => attribute === name);
      return charge ? fieldTellsOf(tools, field, charge, field.prepare(answer)) : [];
    }

    #charge({ name, attribute: { unit }, largestEpsilon }: Field, privacy: Privacy): Charge {
      const followers = this.#followers(name).map((field) => field.epsilonIfNotAsked);
      const more = (epsilon: number): number => sum([epsilon, ...followers]).roundUp();
      if (!followers.length) return { attribute: name, unit, privacy, anyTwo: largestEpsilon };
      const epsilon = tools.positive("epsilon", more(privacy.epsilon));
      return { attribute: name, unit, privacy: { ...privacy, epsilon }, anyTwo: more(largestEpsilon) };
    }

    /** The fields whose relevance depends on a field, directly or through others. */
    #followers(name: string): Field[] {
      const names = new Set([name]);
      return this.fields.filter((later) => later.applies && names.has(later.applies.field) && names.add(later.name));
    }

    applying(answers: Answers): Field[] {
      const given = new Map<string, unknown>();
      return this.fields.filter(({ name, applies }) => {
        if (applies && !applies.options.includes(given.get(applies.field) as string)) return false;
        given.set(name, answers[name]);
        return true;
      });
    }

    prepare(answers: Answers): Prepared[] {
      const names = this.fields.map((field) => field.name);
      const given: unknown = answers;
      if (given === null || typeof given !== "object" || Array.isArray(given) || !Object.keys(given).every((name) => names.includes(name))) {
        throw new PrivateValueError(`answers by the names of the fields: ${names.join(", ")}`);
      }
      const applying = new Set(this.applying(answers));
      return this.fields.map((field) => {
        if (!applying.has(field)) return field.notAsked;
        // Nothing of what objects inherit.
        const answer = Object.hasOwn(given, field.name) ? answers[field.name] : undefined;
        if (answer === undefined || answer === null) throw new PrivateValueError(`an answer to ${field.name}`);
        return field.prepare(answer);
      });
    }

    draw(prepared: readonly Prepared[], source: BitSource): Drawn {
      const id = source.bits(128);
      const values = this.fields.flatMap((field, i) => field.release(prepared[i]!, source));
      return { id, answers: values.map((value, queryIndex) => ({ queryIndex, value })) };
    }
  }
  return new FormCampaign();
}

/** As Python's `what_a_form_tells`, letter for letter. */
function fieldTells({ likelihood, say, spokenAttribute, times }: Tools, field: Field, charge: Charge | undefined): string {
  const { name, kind, privacy } = field;
  if (!privacy || !charge) return say("field.open", { name });
  const far = times(charge.anyTwo);
  if (kind === "number" || kind === "place") {
    const said = likelihood(charge.privacy, spokenAttribute(field).unit, "field", say("field.yours"), charge.anyTwo, far ? say("field.far", { factor: far }) : "", { name });
    return far ? said : said + say("field.near");
  }
  const near = kind === "choice" ? undefined : times(charge.privacy.epsilon);
  if (near) {
    const apart = say(kind === "ordinal" ? "apart.step" : "apart.option");
    return say("field.apart", { name, factor: near, apart, far: far ? say("apart.far", { factor: far }) : "" });
  }
  return far ? say("field.choice", { name, factor: far }) : say("field.none", { name });
}

function fieldTellsOf({ choiceOf, countedAs, percent, say, spokenAttribute, toldApart }: Tools, field: Field, { privacy, anyTwo }: Charge, prepared: Prepared): string[] {
  const { kind, options } = field;
  const attribute = spokenAttribute(field);
  if (typeof prepared !== "bigint") {
    const clamped = attribute.least !== undefined && attribute.most !== undefined;
    return [toldApart(attribute, privacy, prepared, anyTwo, "begins.field"), ...countedAs(attribute, clamped)];
  }
  // By its own ε, in each report: whether others apply is charged elsewhere.
  const weight = Math.exp(field.privacy!.epsilon);
  const own = (share: number): string[] => [say("own.share", { often: percent(share) })];
  if (kind === "multiple") return [say("own.ticked", { often: percent(weight / (weight + 1)) })];
  // An end of the scale stands for everything beyond it.
  if (kind === "ordinal") return own((prepared === 0n || Number(prepared) === options.length - 1 ? weight : weight - 1) / (weight + 1));
  if (choiceOf(options.length, field.privacy!.epsilon) === "kary") return own(weight / (weight + options.length - 1));
  return [say("own.list")];
}

function requireApart({ ParameterError }: Tools, fields: readonly Field[]): void {
  const names = fields.map((field) => field.name);
  if (new Set(names).size !== names.length) throw new ParameterError("names of fields", names, "distinct");
  fields.forEach(({ name, applies, privacy }, at) => {
    if (!applies) return;
    const decides = fields.slice(0, at).find((field) => field.name === applies.field && (field.kind === "choice" || field.kind === "ordinal"));
    if (!decides) throw new ParameterError(`${name}: applies.field`, applies.field, "an earlier choice or ordinal field");
    if (!applies.options.length || !applies.options.every((option) => decides.options.includes(option))) {
      throw new ParameterError(`${name}: applies.options`, applies.options, `some of the options of ${decides.name}`);
    }
    if (decides.applies && applies.options.includes(decides.options[Number(decides.notAsked)]!)) {
      throw new ParameterError(`${name}: applies.options`, applies.options, "without what those give who are not asked");
    }
    if (!privacy && decides.privacy) throw new ParameterError(`${name}: epsilon`, "none", `stated: sent as it is, it would tell ${decides.name}`);
  });
}

function readField(tools: Tools, message: Message): Field {
  const { ParameterError, UnsupportedError } = tools;
  const attribute = tools.attributeOf(message.attribute);
  const { kind, applies } = message;
  if (!kind.case) throw new ParameterError("kind", "none", "point, choice, ordinal or multiple");
  const options = kind.case === "point" ? [] : kind.value.options;
  const wordings = message.wordings.map(({ language, text, options, unit }) => ({ language, text, options, unit }));
  requireWordings(tools, wordings, options.length);
  const common = { wordings, applies: applies && { field: applies.field, options: applies.options } };
  if (kind.case === "point") return pointField(tools, attribute, kind.value, common);
  const unit = kind.case === "ordinal" ? "step" : "option";
  const { least, most, coordinates } = attribute;
  if (attribute.unit !== unit || coordinates || least !== undefined || most !== undefined) {
    throw new UnsupportedError(`the field is not in canonical form: of an attribute in ${unit}`);
  }
  return categoryField(tools, kind.case, attribute, kind.value, common);
}

function requireWordings({ ParameterError, plain, requireLanguages }: Tools, wordings: readonly Wording[], many: number): void {
  requireLanguages("languages of wordings", wordings.map(({ language }) => language));
  for (const { text, options, unit } of wordings) {
    if (unit) plain("wording.unit", unit, many ? 0 : 64);
    if (text) plain("wording.text", text, 500);
    options.forEach((option, i) => plain(`wording.options[${i}]`, option, 200));
    if (options.length && options.length !== many) throw new ParameterError("number of wording.options", options.length, `${many}`);
  }
}

function pointField(tools: Tools, attribute: Field["attribute"], { privacy: declared, stepExponent, otherwise }: PerturbedPoint, common: Common): Field {
  const { ParameterError, Rational, UnsupportedError } = tools;
  const { name, coordinates, least, most } = attribute;
  const privacy = tools.privacyOf({ privacy: declared });
  if (Math.abs(stepExponent) > 200) throw new ParameterError(`${name}: step_exponent`, stepExponent, "an integer in [-200, 200]");
  if (coordinates && (least !== undefined || most !== undefined)) {
    throw new ParameterError(`${name}: least and most`, [least, most], "left out of a place");
  }
  const dimension = coordinates ? 2 : 1;
  const rate = coordinates ? tools.inPlane(privacy, coordinates) : privacy;
  tools.positive("epsilon", rate.epsilon);
  const mechanism = new tools.PlanarLaplace(rate, dimension, stepExponent);
  const ends = coordinates ? undefined : tools.endsOf(attribute);
  const largestEpsilon = tools.largestOfPoints(attribute, rate, ends);
  if (common.applies && largestEpsilon === Infinity) {
    throw new ParameterError(`${name}: least and most`, [least, most], "both stated, for a number that not everybody is asked for");
  }
  const prepare = (answer: unknown): number[] => tools.pointOf({ attribute, dimension }, answer as Value);
  if (otherwise !== undefined) {
    if (coordinates) throw new UnsupportedError("the field is not in canonical form: a place has no otherwise");
    if (!common.applies || !ends) throw new ParameterError(`${name}: otherwise`, otherwise, "left out");
    if (!(otherwise >= least! && otherwise <= most!)) throw new ParameterError(`${name}: otherwise`, otherwise, `a number in [${least}, ${most}]`);
  }
  let notAsked = [0, 0];
  let epsilonIfNotAsked = Rational.from(largestEpsilon === Infinity ? 0 : largestEpsilon).div(Rational.of(2n)).roundUp();
  if (ends) {
    const [low, high] = ends;
    const middle = otherwise === undefined ? low / 2 + high / 2 : prepare(otherwise)[0]!;
    notAsked = [middle];
    const away = [Rational.from(middle).sub(Rational.from(low)), Rational.from(high).sub(Rational.from(middle))] as const;
    epsilonIfNotAsked = tools.exactRate(rate).mul(away[0].max(away[1])).roundUp();
  }
  return {
    ...common,
    kind: coordinates ? "place" : "number",
    name,
    attribute,
    privacy,
    options: [],
    most: undefined,
    columns: dimension,
    largestEpsilon,
    epsilonIfNotAsked,
    prepare,
    notAsked,
    stepExponent,
    sent: (values) => values.map((value) => Number(value) * 2 ** stepExponent),
    release: (point, source) => mechanism.release(ends ? tools.clampedTo(ends, point as number[]) : (point as number[]), source),
  };
}

function categoryField(tools: Tools, kind: "choice" | "ordinal" | "multiple", attribute: Field["attribute"], asked: Options, common: Common): Field {
  const { ParameterError, PrivateValueError, Rational, UnsupportedError } = tools;
  const { name } = attribute;
  const { options, epsilon, otherwise } = asked;
  const many = options.length;
  if (many < 2 || many > MOST_OPTIONS[kind]) throw new ParameterError(`${name}: options`, many, `2 to ${MOST_OPTIONS[kind]} names`);
  for (const option of options) tools.plain(`${name}: options`, option, 64);
  if (new Set(options).size !== many) throw new ParameterError(`${name}: options`, options, "distinct");
  if (epsilon !== undefined && !(epsilon >= tools.LEAST && epsilon <= tools.MOST_EPSILON)) {
    throw new ParameterError(`${name}: epsilon`, epsilon, `a number in [${tools.LEAST}, ${tools.MOST_EPSILON}]`);
  }
  const index = (option: unknown): number => {
    const at = typeof option === "string" ? options.indexOf(option) : -1;
    if (at < 0) throw new PrivateValueError(`${name}: one of ${options.slice(0, 20).join(", ")}${many > 20 ? ", …" : ""}`);
    return at;
  };
  if (kind === "multiple" ? otherwise : asked.most) throw new UnsupportedError(`the field is not in canonical form: of a ${kind}`);
  if (kind !== "multiple" && (common.applies ? !options.includes(otherwise) : otherwise)) {
    throw new ParameterError(`${name}: otherwise`, otherwise, common.applies ? "an option" : "left out: everybody is asked");
  }
  if (asked.most > many) throw new ParameterError(`${name}: most`, asked.most, `1 to ${many}`);
  const most = asked.most || many;
  const notAsked = kind === "multiple" || !common.applies ? 0n : BigInt(index(otherwise));
  const sent: Category = kind === "multiple" ? "subset" : kind === "ordinal" ? "ordinal" : tools.choiceOf(many, epsilon ?? 1);
  let [largestEpsilon, epsilonIfNotAsked] = [Infinity, Infinity];
  if (epsilon !== undefined) {
    const times = (far: number): number => Rational.from(epsilon).mul(Rational.of(BigInt(far))).roundUp();
    largestEpsilon = (kind === "choice" ? 1 : kind === "ordinal" ? many - 1 : Math.min(2 * most, many)) * epsilon;
    epsilonIfNotAsked = largestEpsilon;
    if (kind === "multiple") epsilonIfNotAsked = times(most);
    if (kind === "ordinal") epsilonIfNotAsked = Math.min(largestEpsilon, times(Math.max(Number(notAsked), many - 1 - Number(notAsked))));
  }
  const several = (answer: unknown): bigint => {
    const expected = `${name}: at most ${most} distinct options`;
    if (!Array.isArray(answer)) throw new PrivateValueError(`${expected}, in a list`);
    const ticked = new Set([...(answer as unknown[])].map(index));
    if (ticked.size !== answer.length || ticked.size > most) throw new PrivateValueError(expected);
    return [...ticked].reduce((mask, at) => mask | (1n << BigInt(at)), 0n);
  };
  return {
    ...common,
    kind,
    name,
    attribute,
    privacy: epsilon === undefined ? undefined : { epsilon, per: 1 },
    options,
    most: kind === "multiple" ? most : undefined,
    columns: epsilon !== undefined && sent === "unary" ? Math.ceil(many / BITS_A_COLUMN) : 1,
    largestEpsilon,
    epsilonIfNotAsked,
    prepare: (answer) => (kind === "multiple" ? several(answer) : BigInt(index(answer))),
    notAsked,
    stepExponent: 0,
    sent: (values) => {
      if (kind !== "multiple" && sent !== "unary") return values.map(Number);
      return options.flatMap((_, at) => ((values[Math.floor(at / BITS_A_COLUMN)]! >> BigInt(at % BITS_A_COLUMN)) & 1n ? [at] : []));
    },
    release: (value, source) => (epsilon === undefined ? [value as bigint] : tools.release(sent, many, epsilon, value as bigint, source)),
  };
}
