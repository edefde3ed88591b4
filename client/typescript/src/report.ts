/** Reports: the message that is stored, sent, and shown to the person. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Drawn } from "./campaign.js";
import { hex, unhex } from "./envelope.js";
import type { Privacy } from "./gp/mechanism.js";
import { type Report, ReportSchema, RejectionReason, type ReportResult, ReportStatus } from "./gen/geoveil/proto/v1/report_pb.js";
import type { Charged, Entry, Status } from "./storage.js";

export type { ReportResult };

/** One perturbed answer, as it left the device. */
export interface PerturbedAnswer {
  readonly queryIndex: number;
  readonly value: bigint;
  /** The number that it stands for; for options, an index from 0 or a mask of bits. */
  readonly perturbed: number;
}

/** What leaves the device for one campaign and period. All of it is perturbed or public. */
export interface Receipt {
  readonly campaignId: string;
  readonly period: number;
  /** In hexadecimal: random. */
  readonly reportId: string;
  /** SHA-256 of the campaign's bytes, in hexadecimal. */
  readonly digest: string;
  readonly answers: readonly PerturbedAnswer[];
  /**
   * Its cost to each attribute, for all answers about it together; `anyTwo`: between any two values,
   * however far apart.
   */
  readonly charges: readonly Charged[];
  /**
   * The start of the epoch whose perturbed value answered: it cost the charge once, for all answers from
   * it. Undefined: the report has its own noise.
   */
  readonly epoch: Date | undefined;
  /** The start of an earlier epoch, paid for as well, of whose perturbed value an extrapolated answer also tells. */
  readonly before: Date | undefined;
  /** Whether it was drawn just now, by the call that returned it. */
  readonly fresh: boolean;
  readonly drawn: Date;
  readonly status: Status;
  readonly sent: Date | undefined;
  readonly settled: Date | undefined;
  /** Why it was rejected. */
  readonly reason: string | undefined;
  /** Why it could not be sent the last time. */
  readonly failure: string | undefined;
}

/** The bytes of a report that was drawn. */
export function reportBytes({ id, answers }: Drawn, period: number): string {
  const reportId = unhex(id.toString(16).padStart(32, "0"))!;
  return hex(toBinary(ReportSchema, create(ReportSchema, { reportId, period, answers: [...answers] })));
}

export function fromReport(bytes: Uint8Array): Report {
  return fromBinary(ReportSchema, bytes);
}

function date(us: string | undefined): Date | undefined {
  return us === undefined ? undefined : new Date(Number(BigInt(us) / 1000n));
}

/** What a report cost. */
export function priceOf({ epsilon, per, delta, reach }: Charged): Privacy {
  return { epsilon, per, ...(delta && { delta }), ...(reach !== undefined && { reach }) };
}

/** What the person may see about an entry. */
export function receiptOf(entry: Entry, fresh = false): Receipt {
  const { reportId, answers } = fromReport(unhex(entry.report)!);
  return {
    campaignId: entry.campaignId,
    period: entry.period,
    reportId: hex(reportId),
    digest: entry.digest,
    answers: answers.map(({ queryIndex, value }) => ({ queryIndex, value, perturbed: Number(value) * 2 ** (entry.exponents?.[queryIndex] ?? entry.stepExponent) })),
    charges: entry.charges,
    epoch: date(entry.epochUs),
    before: date(entry.beforeUs),
    fresh,
    drawn: date(entry.drawnUs)!,
    status: entry.status,
    sent: date(entry.sentUs),
    settled: date(entry.settledUs),
    reason: entry.reason,
    failure: entry.status === "pending" ? entry.failure : undefined,
  };
}

/** The meaning of a server's result for a report; undefined if it has none. */
export function outcomeOf({ status, reason }: ReportResult): Pick<Entry, "status" | "reason"> | undefined {
  if (status === ReportStatus.ACCEPTED || status === ReportStatus.DUPLICATE) return { status: "acknowledged" };
  if (status === ReportStatus.REJECTED) return { status: "rejected", reason: RejectionReason[reason] ?? "UNSPECIFIED" };
  return undefined;
}
