/** Take part in surveys without giving your value away: the geoveil device for browsers and Node. */
export { type Asker, type Attribute, Campaign, type Question, type State, type Translation } from "./campaign.js";
export { Client, type ClientOptions, type ContributeOptions, type Counts, type FlushResult, type Offer } from "./client.js";
export { between, both, ratio } from "./saying.js";
export { region, whatItTells, whatItTellsOf, whatToAsk } from "./consent.js";
export { type Answers, type Charge, type Condition, type Field, type Form, isForm, type Wording } from "./form.js";
export type { Demand } from "./demand.js";
export { PublicKey } from "./envelope.js";
export { AnswerNotYet, type Code, GeoveilError, ParameterError, PrivateValueError, UnsupportedError } from "./errors.js";
export { type LogScale, perFactor } from "./gp/log-scale.js";
export { type Budget, BudgetExceeded } from "./ledger.js";
export type { Issuer } from "./pass.js";
export {
  type Area,
  describeEpoch,
  type Epoch,
  type GeoPrivacy,
  type Limit,
  number,
  type Outside,
  place,
  point,
  Policy,
  type PolicyOptions,
  type ValueKind,
  type Window,
} from "./policy.js";
export { Readings } from "./readings.js";
export type { PerturbedAnswer, Receipt } from "./report.js";
export { IndexedDbStorage, MemoryStorage, type Status, type Storage } from "./storage.js";
export { transportThrough } from "./through.js";
export { spokenAttribute, type Texted, textsOf } from "./texts.js";
export type { Value } from "./values.js";
export { digits, inLanguage, type Key, loadMessages, say, speak, spoken } from "./words.js";
export { type Transport, TransportError, transportTo } from "./transport.js";
