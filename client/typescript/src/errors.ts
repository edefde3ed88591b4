/** Every error of the client. Text, cause and fields contain nothing private. */

/** What went wrong, from a closed list. */
export type Code =
  | "answer-not-yet"
  | "campaign-invalid"
  | "campaign-not-found"
  | "campaign-not-open"
  | "budget-exceeded"
  | "outbox-full"
  | "parameter"
  | "policy-refused"
  | "private-value"
  | "signature-invalid"
  | "storage"
  | "transport"
  | "unsupported";

export class GeoveilError extends Error {
  constructor(
    readonly code: Code,
    message: string,
  ) {
    super(message);
    this.name = "GeoveilError";
  }
}

/** A parameter, its value, and the permitted range. Never for a private value. */
export class ParameterError extends GeoveilError {
  constructor(
    readonly parameter: string,
    value: unknown,
    expected: string,
    code: Code = "parameter",
  ) {
    super(code, `${parameter} must be ${expected}, got ${shown(value)}`);
    this.name = "ParameterError";
  }
}

/** The campaign's answers are extrapolated from two readings, and no two reach as far as now. Nothing was drawn. */
export class AnswerNotYet extends GeoveilError {
  constructor(
    campaignId: string,
    /** When the next epoch begins, whose reading can answer at once: microseconds since 1970. */
    readonly startsUs: bigint,
  ) {
    const starts = new Date(Number(startsUs / 1000n)).toISOString();
    super("answer-not-yet", `campaign ${campaignId} can't be answered before ${starts}: its answers continue the change between two readings, for as long as lay between them`);
    this.name = "AnswerNotYet";
  }
}

/** A private value that is not of the requested kind. Says what is expected, not what was given. */
export class PrivateValueError extends GeoveilError {
  constructor(expected: string) {
    super("private-value", `the private value must be ${expected}; it is not shown`);
    this.name = "PrivateValueError";
  }
}

/** Something that this client does not know or implement. */
export class UnsupportedError extends GeoveilError {
  constructor(message: string) {
    super("unsupported", message);
    this.name = "UnsupportedError";
  }
}

const MOST_SHOWN = 80;
/** Characters that control terminals or are invisible: the text may be the server's. */
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/gu;

function shown(value: unknown): string {
  const text = typeof value === "bigint" ? value.toString() : (JSON.stringify(value) ?? String(value));
  const cut = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
  return cut.replace(UNPRINTABLE, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}
