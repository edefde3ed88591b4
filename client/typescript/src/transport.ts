/** Calls of the protocol: Connect's unary calls with binary messages, by the platform's `fetch`. */
import { create, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { blocksOf } from "./canonical.js";
import type { PublicKey } from "./envelope.js";
import { GeoveilError, ParameterError } from "./errors.js";
import { CampaignEnvelopeSchema, CampaignState } from "./gen/geoveil/proto/v1/campaign_pb.js";
import {
  BrowseCampaignsRequestSchema,
  BrowseCampaignsResponseSchema,
  GetCampaignRequestSchema,
  type GetCampaignResponse,
  GetCampaignResponseSchema,
  SubmitReportsRequestSchema,
  SubmitReportsResponseSchema,
} from "./gen/geoveil/proto/v1/collector_pb.js";
import { fromReport, type ReportResult } from "./report.js";

// As in OTLP; "resource_exhausted" only if the server says when to retry.
const RETRYABLE = new Set(["canceled", "deadline_exceeded", "aborted", "out_of_range", "unavailable", "data_loss"]);
const OF_SERVER = new Set(["unavailable", "deadline_exceeded", "canceled", "unauthenticated"]);
/** The meaning of an HTTP status without a Connect error. */
const HTTP: Partial<Record<number, string>> = { 401: "unauthenticated", 403: "permission_denied", 404: "unimplemented", 429: "unavailable", 502: "unavailable", 503: "unavailable", 504: "unavailable" };
const PAGE = 100;
const MOST_PAGES = 100;
const LONGEST_WAIT_MS = 86_400_000;
const MOST_ANSWER = 4 << 20;

/** A call failed. It does not quote the server's text. */
export class TransportError extends GeoveilError {
  /** Whether a later try of the same request may succeed. */
  readonly retryable: boolean;
  /** Whether the server failed, and not this request. */
  readonly ofServer: boolean;

  constructor(
    /** A Connect code, for example "unavailable". */
    readonly status: string,
    /** The wait that the server asks for, in milliseconds. */
    readonly retryAfterMs?: number,
    reason?: string,
  ) {
    super("transport", `the server could not be asked: ${status}${reason ? ` (${reason})` : ""}`);
    this.name = "TransportError";
    this.retryable = status === "resource_exhausted" ? retryAfterMs !== undefined : RETRYABLE.has(status);
    this.ofServer = OF_SERVER.has(status);
  }
}

export interface Published {
  readonly envelope: Uint8Array;
  readonly closed: boolean;
}

/** What a device asks a server. */
export interface Transport {
  /** The operator whose gateway it calls through a relay; undefined: it calls the server itself. */
  readonly operator?: PublicKey;
  campaign(id: string, timeoutMs: number): Promise<Published>;
  browse(timeoutMs: number): Promise<Published[]>;
  /** Send one report, these bytes unchanged. */
  submit(campaignId: string, digest: Uint8Array, report: Uint8Array, timeoutMs: number): Promise<ReportResult>;
}

/** Makes a call of a collector: its name, its message, and its time limit in milliseconds. */
export type Call = (method: string, message: Uint8Array, timeoutMs: number) => Promise<Uint8Array>;

/** The transport to a server's gateway. */
export function transportTo(server: string): Transport {
  const base = `${safe("server", server).replace(/\/$/, "")}/geoveil.proto.v1.Collector`;
  return calling(async (method, message, timeoutMs) => {
    const left = Math.max(Math.floor(timeoutMs), 1);
    const headers = { "Content-Type": "application/proto", "Connect-Protocol-Version": "1", "Connect-Timeout-Ms": `${left}` };
    const answer = await exchanged(`${base}/${method}`, { method: "POST", headers, body: message as Uint8Array<ArrayBuffer> }, left);
    if (answer.status !== 200) throw failure(answer.status, answer.body);
    if (!(answer.headers.get("Content-Type") ?? "").startsWith("application/proto")) throw new TransportError("internal");
    return answer.body;
  });
}

/** A transport from a function that makes its calls. */
export function calling(call: Call): Transport {
  async function called<I extends Message, O extends Message>(method: string, asked: GenMessage<I>, request: I, answered: GenMessage<O>, timeoutMs: number): Promise<O> {
    const answer = await call(method, toBinary(asked, request), timeoutMs);
    try {
      return fromBinary(answered, answer);
    } catch {
      throw new TransportError("internal");
    }
  }
  const published = ({ envelope, state }: GetCampaignResponse): Published => ({
    envelope: toBinary(CampaignEnvelopeSchema, envelope ?? create(CampaignEnvelopeSchema)),
    closed: state === CampaignState.CLOSED,
  });
  return {
    campaign: async (campaignId, timeoutMs) =>
      published(await called("GetCampaign", GetCampaignRequestSchema, create(GetCampaignRequestSchema, { campaignId }), GetCampaignResponseSchema, timeoutMs)),
    browse: async (timeoutMs) => {
      const found: Published[] = [];
      const end = performance.now() + timeoutMs;
      let pageToken = "";
      for (let page = 0; page < MOST_PAGES; page++) {
        const request = create(BrowseCampaignsRequestSchema, { pageSize: PAGE, pageToken });
        const answer = await called("BrowseCampaigns", BrowseCampaignsRequestSchema, request, BrowseCampaignsResponseSchema, end - performance.now());
        found.push(...answer.campaigns.map(published));
        pageToken = answer.nextPageToken;
        if (!pageToken) break;
      }
      return found;
    },
    submit: async (campaignId, campaignDigest, report, timeoutMs) => {
      const reports = [fromReport(report)];
      const request = create(SubmitReportsRequestSchema, { campaignId, campaignDigest, reports });
      const { results } = await called("SubmitReports", SubmitReportsRequestSchema, request, SubmitReportsResponseSchema, timeoutMs);
      if (results.length !== 1) throw new TransportError("internal");
      return results[0]!;
    },
  };
}

/** Refuse another machine without TLS: anybody on the way could read and replace messages. */
export function safe(name: string, url: string): string {
  if (!URL.canParse(url)) throw new ParameterError(name, url, `like https://${name === "server" ? "collector" : name}.example`);
  const { protocol, hostname } = new URL(url);
  const here = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  if (protocol !== "https:" && !(protocol === "http:" && here)) {
    throw new GeoveilError("parameter", `the ${name} must be an https address, or this machine`);
  }
  return url;
}

/** An HTTP answer, in time; the request says nothing about the sender but what browsers add. */
export async function exchanged(url: string, init: RequestInit, timeoutMs: number): Promise<{ status: number; headers: Headers; body: Uint8Array }> {
  try {
    const response = await fetch(url, {
      ...init,
      signal: AbortSignal.timeout(Math.max(Math.floor(timeoutMs), 1)),
      credentials: "omit",
      redirect: "error",
      cache: "no-store",
      referrerPolicy: "no-referrer",
    });
    const { status, headers } = response;
    return { status, headers, body: await bodyOf(response) };
  } catch (error) {
    if (error instanceof TransportError) throw error;
    // A new error, because the platform's may quote the request.
    throw new TransportError(error instanceof Error && error.name === "TimeoutError" ? "deadline_exceeded" : "unavailable");
  }
}

/** A server's answer; the rest of one that is too long is not read. */
async function bodyOf({ body }: Response): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const reader = body?.getReader();
  for (let size = 0; reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST_ANSWER) {
      void reader.cancel().catch(() => undefined);
      throw new TransportError("internal");
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

interface ConnectFailure {
  code?: unknown;
  details?: { type?: unknown; value?: unknown }[];
}

export function failure(status: number, body: Uint8Array): TransportError {
  let told: ConnectFailure = {};
  try {
    told = (JSON.parse(new TextDecoder().decode(body)) as ConnectFailure | null) ?? {};
  } catch {
    // Not a Connect error, but one from something on the way.
  }
  const known = typeof told.code === "string" && /^[a-z_]{1,30}$/.test(told.code);
  return new TransportError(known ? (told.code as string) : (HTTP[status] ?? "unknown"), retryAfter(told));
}

/** The delay of a google.rpc.RetryInfo among the details, in milliseconds. */
function retryAfter({ details }: ConnectFailure): number | undefined {
  for (const detail of Array.isArray(details) ? details : []) {
    if (detail?.type !== "google.rpc.RetryInfo" || typeof detail.value !== "string") continue;
    try {
      const [delay] = blocksOf(base64Decode(detail.value), 1);
      const { seconds, nanos } = fromBinary(DurationSchema, delay ?? new Uint8Array());
      return Math.min(Math.max(Number(seconds) * 1000 + nanos / 1e6, 0), LONGEST_WAIT_MS);
    } catch {
      return undefined;
    }
  }
  return undefined;
}
